"""AWAC: advantage-weighted actor-critic, from data and on from there.

Nair et al. 2020, "AWAC: Accelerating online reinforcement learning with offline datasets",
https://arxiv.org/abs/2006.09359. Two critics are fitted to r + discount * min_i Q_target_i(s', a') with a'
drawn from the policy, which minimises -exp(A(s, a) / lambda) log pi(a | s) on the data's actions
(equation 13), A(s, a) = min_i Q_i(s, a) - min_i Q_i(s, a'') with a'' drawn from it.

Deviations from the paper:

1. Weights are clipped at `max_weight`; the authors' code may normalise them over the batch.
2. Deviations of the policy lie between e^-5 and e^2, in half ranges, and its mean within the bounds.
3. Discrete actions too, for which critics are linear in the action's one-hot code.
"""

from __future__ import annotations

from rl.agents.advantage_weighted import AdvantageWeighted
from rl.agents.algos.registry import register
from rl.hparams.awac import AWACHParams
from rl.ops import random
from rl.types import Batch, Nest, Tensor


@register
class AWAC(AdvantageWeighted[AWACHParams]):
    """Advantage-weighted actor-critic: bounded continuous actions, and discrete ones."""

    def drawn(self, observation: Nest, seed: Tensor) -> Tensor:
        """Returns codes [N, K] of actions that are drawn from the policy."""
        return self.actions.clipped_code(self.network(observation).sample(random.rows(seed)))

    def advantage(self, batch: Batch, seed: Tensor) -> Tensor:
        now = batch.observation
        usual = self.least(self.critic, now, self.drawn(now, seed))
        return self.least(self.critic, now, self.actions.clipped_code(batch.action)) - usual

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        following = batch.next_observation
        return batch.reward + batch.discount * self.least(
            self.target_critic, following, self.drawn(following, seed)
        )
