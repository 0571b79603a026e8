"""ARS: augmented random search.

Mania et al. 2018, "Simple random search of static linear policies is competitive for reinforcement
learning", https://arxiv.org/abs/1803.07055. ES (`rl/agents/algos/es.py`) with a linear policy that starts at
zero and with plain steps along the b best of the `num_envs` / 2 directions (`top_directions`):

    theta <- theta + lr / (b * deviation) * sum over these of (score_plus - score_minus) * noise

where deviation is the standard deviation of the 2 b scores used. V2 standardises observations
(`normalize_observation`), V1 does not. In the paper's letters `num_envs` is 2 N, `lr` alpha,
`perturbation_std` nu, `rollout_length` H.

Deviations from the paper:

1. The linear policy has a bias; hidden layers (`model.hidden`) may come before it, of which the last layer
   alone starts at zero.
2. A rollout has a fixed length: the score is the mean return of the episodes that a member finished in it,
   or the return so far of one that finished none.
3. Standardised observations are clipped to [-10, 10]. Box actions are the policy's outputs as they are; the
   environment clips them to its bounds.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.population import Members, PopulationAgent
from rl.hparams.ars import ARSHParams
from rl.ops import evolution
from rl.types import Loss, Tensor, Trajectory


@register
class ARS(PopulationAgent[ARSHParams]):
    """Augmented random search: the best of a population of perturbed linear policies."""

    def loss(self, batch: Members, seed: Tensor) -> Loss:
        """Returns each member's negative score over the scores' deviation: lower for a better one. Not
        differentiated."""
        deviation = tf.math.reduce_std(batch.score)
        # The paper's step, 1 / (b deviation) * sum of differences * noise, is 2 std times our gradient.
        loss = -2.0 * self.hparams.perturbation_std * batch.score / (deviation + 1e-8)
        return loss, {"selected_std": deviation}, None

    def scored_reward(self, batch: Trajectory) -> Tensor:
        return batch.reward - self.hparams.alive_bonus

    def selected(self, score: Tensor) -> Members:
        """Returns the members of the best directions."""
        count = self.hparams.top_directions or self.hparams.num_envs // 2
        best = evolution.top_directions(score, count)  # [b]
        plus, minus = tf.split(score, 2)
        used = tf.concat([tf.gather(plus, best), tf.gather(minus, best)], 0)  # [2 b]
        return Members(used, tf.gather(tf.convert_to_tensor(self.population.noise), best))
