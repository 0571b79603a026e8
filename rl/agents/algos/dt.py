"""DT: the decision transformer, a policy that is told which return to reach.

Chen et al. 2021, "Decision transformer: reinforcement learning via sequence modeling",
https://arxiv.org/abs/2106.01345 (algorithm 1). A causal transformer reads the last K steps
(`context_length`) as three tokens each, return-to-go, observation and action, and says at each observation
which action the data have there: by cross-entropy for discrete actions, by the squared error for those of a
Box. The return-to-go of a step is the sum of its reward and all later ones of its episode. To act, the first
one is `target_return`, and each reward is taken off it (`rl/models/decision_transformer.py`).

It is a policy with memory: its recurrent state is that window. Observations tell the reward and the action of
the step before (`previous_action_reward`).

Deviations from the paper:

1. Windows are those that end at each step of the data, all equally likely; the authors' code draws an episode
   by its length and a first step in it, so that windows at the end of an episode are cut short.
2. No dropout, no warm-up of the learning rate, and no weight decay by default (`optimizer=adamw` has one, of
   kernels alone).
3. Weights are drawn as `model.init` says, GPT-2's from a normal of deviation 0.02; the table of timesteps is
   uniform within 0.02.
4. Episodes of more than `max_timestep` steps share the last step's embedding.
5. The loss of actions of a Box is in half ranges of the action space.
6. What an observation goes through before its linear layer is `model`'s: nothing by default, as in the
   paper's tasks of Gym; for images convolutions, as in those of Atari.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.registry import register
from rl.agents.cloning import Cloning
from rl.envs.wrappers import PREVIOUS_ACTION
from rl.hparams.dt import DTHParams
from rl.models.continuous import actions_of
from rl.models.decision_transformer import DecisionTransformer, Window
from rl.ops.distributions import Categorical
from rl.ops.nests import flatten_time, swap_time, without_last
from rl.ops.policy import masked_mean
from rl.types import Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Trajectory


@register
class DT(Cloning[DTHParams]):
    """Decision transformer: the data's actions, given the return that followed them."""

    experience = "sequence"
    action_spaces = (spaces.Discrete, spaces.Box)
    trajectory_extras = ("return_to_go", "episode_step")  # which the memory of data knows

    def build(self) -> None:
        self.discrete = isinstance(self.action_space, spaces.Discrete)
        self.actions = actions_of(self.action_space, "dt")
        size = self.actions.size
        network = DecisionTransformer(self.hparams, self.encoder, size, size, self.initializers)
        self.network = self.add_network("network", network)
        self.add_optimizer("network", self.network.trainable_variables)

    # -- acting ---------------------------------------------------------------------------------------

    def starting_state(self, count: int) -> Nest:
        return self.network.start(count)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        told = observation[PREVIOUS_ACTION]
        if self.discrete:
            # It is told as its number plus 1; 0, before the first one, is the code of zeros. Of -1 ONNX makes
            # the code of the last action.
            before = tf.one_hot(told, self.actions.size + 1)[:, 1:]
        else:
            before = self.actions.clipped_code(told)
        output, state = self.network.step(observation, before, recurrent_state)
        if self.discrete:
            distribution: Any = Categorical(self.encoder.mask_illegal(output, observation))
        else:
            distribution = self.actions.deterministic(output)
        extras = {"return_to_go": state["return_to_go"][:, -1], "episode_step": recurrent_state["steps"]}
        return PolicyOutput(distribution=distribution, recurrent_state=state, extras=extras)

    @property
    def stochastic(self) -> bool:
        return super().stochastic and self.discrete  # of a Box there is one action, and no distribution

    # -- learning -------------------------------------------------------------------------------------

    def loss(self, batch: SequenceBatch, seed: Tensor) -> Loss:
        """Returns the loss of windows [N]: the mean over their K steps, 0 before the episode's beginning."""
        steps = batch.trajectory  # [K, N]
        output = self.network(self.window(steps))  # [N, K, outputs]
        output = tf.reshape(tf.transpose(output, [1, 0, 2]), [-1, output.shape[-1]])  # [K * N, outputs]
        action = flatten_time(steps.action)
        if self.discrete:
            logits = self.encoder.mask_illegal(output, flatten_time(without_last(steps.observation)))
            loss = -Categorical(logits).log_prob(action)  # [K * N]
        else:
            loss = tf.reduce_mean(tf.square(tf.tanh(output) - self.actions.clipped_code(action)), -1)
        loss, mask = tf.reshape(loss, steps.mask.shape), steps.mask * batch.mask  # [K, N]
        name = "cross_entropy" if self.discrete else "squared_error"
        return tf.reduce_mean(loss * mask, 0), {name: masked_mean(loss, mask)}, None

    def window(self, steps: Trajectory) -> Window:
        """Returns the window of sequences of data, time first, all of whose K steps it has."""
        features = self.network.features(flatten_time(without_last(steps.observation)))
        code = self.actions.clipped_code(flatten_time(steps.action))
        features, code = (tf.reshape(x, [*steps.mask.shape, x.shape[-1]]) for x in (features, code))
        parts = steps.extras["return_to_go"], features, code, steps.extras["episode_step"], steps.mask
        return Window(*swap_time(parts))
