"""Uniform experience replay (Lin 1992; Mnih et al. 2015)."""

from __future__ import annotations

import tensorflow as tf

from rl.memory.registry import register
from rl.memory.replay import Replay
from rl.memory.ring import TRANSITION
from rl.ops import random
from rl.types import Batch, Tensor

CANDIDATES = 4


@register
class Uniform(Replay):
    """Every stored transition is sampled with equal probability, with replacement."""

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """Draws a batch of `batch_size` transitions.

        Autoreset steps lie among the transitions. Of four candidates for each slot the first transition is
        taken: that keeps all transitions equally likely, and a slot stays empty (mask and sample_weight 0)
        only when all four are autoreset steps, once in 625 slots even if every fifth step is one.

        Args:
            seed: int32 [2].
            step: not used by this memory.
        """
        ring, size = self.ring, tf.maximum(self.size(), 1)
        # Random numbers are expensive here: a slot's candidates are its own draw, shifted by distances that
        # all slots of the batch share. For a single slot these are still four independent draws.
        drawn = random.randint(seed, [self.batch_size + CANDIDATES - 1], size)
        shift = tf.concat([[0], drawn[self.batch_size :]], 0)  # [4]
        age = drawn[: self.batch_size, None] + shift  # [N, 4] rank by age, from the oldest
        age = tf.where(age >= size, age - size, age)
        oldest = (ring.position - ring.filled + ring.incomplete) * ring.num_envs
        places = ring.wrap(oldest + age)  # [N, 4]
        valid = ((ring.flags(places) & TRANSITION) != 0) & (self.size() > 0)
        first = tf.reduce_min(tf.where(valid, tf.range(CANDIDATES), CANDIDATES), 1)  # [N]
        mask = tf.cast(first < CANDIDATES, tf.float32)
        place = tf.gather(places, tf.minimum(first, CANDIDATES - 1), batch_dims=1)
        return self.transitions(place, sample_weight=mask, mask=mask)
