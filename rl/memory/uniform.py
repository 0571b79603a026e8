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
        """A batch of `batch_size` transitions.

        Autoreset steps lie among the transitions. Of four candidates for each slot the first transition is taken:
        that keeps all transitions equally likely, and a slot stays empty (mask and sample_weight 0) only when
        all four are autoreset steps, once in 625 slots even if every fifth step is one.

        Args:
            seed: int32 [2].
            step: not used by this memory.
        """
        ring, size = self.ring, self.size()
        drawn = random.randint(seed, [self.batch_size, CANDIDATES], tf.maximum(size, 1))  # [N, 4] age order
        oldest = (ring.position - ring.filled) * ring.num_envs
        places = ring.wrap(oldest + drawn)  # [N, 4]
        valid = ((ring.flags(places) & TRANSITION) != 0) & (size > 0)
        place = places[:, -1]
        for i in reversed(range(CANDIDATES - 1)):
            place = tf.where(valid[:, i], places[:, i], place)
        mask = tf.cast(tf.reduce_any(valid, 1), tf.float32)
        return self.transitions(place, sample_weight=mask, mask=mask)
