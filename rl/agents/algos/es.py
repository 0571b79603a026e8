"""ES: evolution strategies as a scalable alternative to reinforcement learning.

Salimans et al. 2017, https://arxiv.org/abs/1703.03864. `num_envs` copies of the policy, in mirrored pairs
theta + std * noise and theta - std * noise, play `rollout_length` steps, one environment each. Their scores
become ranks between -0.5 and 0.5, and Adam follows

    1 / (num_envs * std) * sum over pairs of (rank_plus - rank_minus) * noise

less `weight_decay` * theta. A generation is one iteration, in which every environment starts anew; evaluation
acts with the mean parameters. Choose `rollout_length` as long as an episode, shorter where a piece of one
tells as much, longer where several episodes should be averaged.

Deviations from the paper:

1. Observations are standardised by running statistics (`normalize_observation`) in place of virtual batch
   normalisation, as in the authors' own code for continuous control.
2. Members of equal score share the mean of their ranks; the authors' sort gives each another one.
3. A rollout has a fixed length: the score is the mean return of the episodes that a member finished in it,
   or the return so far of one that finished none.
4. Actions are deterministic: no noise is added to them, and continuous ones are not cut into bins. Box
   actions are the network's outputs as they are; the environment clips them to its bounds.
5. The estimate is divided by `perturbation_std`, as the paper's formula is and the authors' code is not:
   their coefficient of weight decay is 1 / `perturbation_std` times as large here.
"""

from __future__ import annotations

from rl.agents.algos.registry import register
from rl.agents.population import Members, PopulationAgent
from rl.hparams.es import ESHParams
from rl.ops import evolution
from rl.types import Loss, Tensor


@register
class ES(PopulationAgent[ESHParams]):
    """Evolution strategies: a population of perturbed policies, no back-propagation."""

    output_scale = 0.01  # near zero

    def loss(self, batch: Members, seed: Tensor) -> Loss:
        """Returns each member's shaped score, lower for a better one. Never differentiated."""
        return -evolution.centered_ranks(batch.score), {}, None
