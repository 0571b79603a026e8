"""QMIX: a team's value as a monotonic function of its agents'.

Rashid et al. 2018, "QMIX: Monotonic value function factorisation for deep multi-agent reinforcement
learning", https://arxiv.org/abs/1803.11485. Q_total = f(Q_1, ..., Q_A; s), where f is a network of one hidden
layer (elu) whose weights are absolute values of the outputs of hypernetworks of the state s: dQ_total / dQ_i
>= 0 (equation 5), so that the agents' best actions together are the team's best joint action. The last bias
has a hypernetwork of two layers. The loss is VDN's with this Q_total (equation 6); the mixing network has a
target network too.

Deviations from the paper:

1. No memory by default: agents act by what they observe now. The set `qmix_gru` is the paper's form, a GRU
   that also sees the agent's last action, and here the team's last reward too (`previous_action_reward`).
2. Transitions are replayed one by one, with the switches of DQN; with a GRU sequences of a fixed length, from
   the state that was stored and after a burn-in, as in R2D2. The paper replays whole episodes.
3. Values of agents that are gone are mixed as 0.
4. Where the environment has no global state, it is all agents' observations, one after another.
5. Adam by default, the paper's RMSProp by `optimizer=rmsprop`.
6. Weights are made of s / sqrt(0.1 + mean(s^2)). The paper's are of the state s itself: where agents can go
   far, what weights multiply grows without bound, and values that feed on themselves diverge, as on
   SimpleSpread-v0 (Pan et al. 2021, https://arxiv.org/abs/2103.11883, show it on other tasks of MPE).
"""

from __future__ import annotations

from rl.agents.algos.registry import register
from rl.agents.joint_value import JointValueAgent
from rl.agents.targets import copy_weights, update_target
from rl.hparams.qmix import QMIXHParams
from rl.models.joint import MonotonicMixer
from rl.types import Nest, Tensor


@register
class QMIX(JointValueAgent[QMIXHParams]):
    """Monotonic value factorisation: the team's value is its agents', mixed by weights made of the state."""

    def build(self) -> None:
        super().build()
        self.mixer = self.add_network("mixer", self.make_mixer("mixer"))
        self.target_mixer = self.add_network("target_mixer", self.make_mixer("target_mixer"))
        copy_weights(self.mixer, self.target_mixer, 1.0)
        variables = self.network.trainable_variables + self.mixer.trainable_variables
        self.add_optimizer("network", variables)

    def make_mixer(self, name: str) -> MonotonicMixer:
        """Returns a network that mixes the values of agents."""
        agents = len(self.agents.names)
        return MonotonicMixer(self.encoder, agents, self.hparams.mixing_units, self.initializers, name)

    def total(self, values: Tensor, observation: Nest, target: bool) -> Tensor:
        mixer = self.target_mixer if target else self.mixer
        mixed: Tensor = mixer(values, observation)
        return mixed

    def after_update(self) -> None:
        super().after_update()
        period, tau = self.hparams.target_update_period, self.hparams.tau
        update_target(self.mixer, self.target_mixer, self.updates, period, tau)
