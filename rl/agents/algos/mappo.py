"""MAPPO: PPO whose value sees the state of the whole team.

Yu et al. 2021, "The surprising effectiveness of PPO in cooperative multi-agent games",
https://arxiv.org/abs/2103.01955. Each agent acts by what it observes itself; the value, which only learning
needs, is of the global state. Everything else is PPO's on the rows of all agents (`rl/agents/algos/ppo.py`),
which is IPPO where the value sees no more than the policy: the set `ippo`.

Deviations from the paper:

1. The value also sees what its agent observes, and its number: the paper's agent-specific global state, with
   everything of both and without pruning what stands in both.
2. Targets of the value are not normalised (PopArt); `normalize_reward` divides rewards by the deviation of
   the discounted return instead.
3. The value's loss is half the squared error, the paper's is Huber's with a wide delta.
4. Steps of agents that are gone count nowhere, and an agent's return ends when it leaves: what its team earns
   later is not credited to it. The paper gives their value a state of zeros, and lets returns run on.
5. No memory by default; `model.name=gru` is the paper's recurrent form.
"""

from __future__ import annotations

from rl.agents.algos.ppo import PPO
from rl.agents.algos.registry import register
from rl.agents.groups import agents_of
from rl.hparams.mappo import MAPPOHParams
from rl.models.joint import WithoutParts
from rl.models.networks import ActorCritic


@register
class MAPPO(PPO):
    """PPO of many agents whose value sees the global state: actions as of ppo."""

    hparams: MAPPOHParams
    hparams_type = MAPPOHParams

    def build(self) -> None:
        agents_of(self.observation_space, self.hparams, "agent")
        super().build()

    def make_network(self, name: str) -> ActorCritic:
        hparams = self.hparams
        return ActorCritic(
            hparams,
            self.encoder,
            self.action_space,
            self.initializers,
            hparams.log_std_init,
            name,
            policy_encoder=WithoutParts(self.encoder, "state"),
        )
