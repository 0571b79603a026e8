"""SlateQ: Q-learning of the values of single documents, to recommend slates of documents.

Ie et al. 2019, "Reinforcement learning for slate-based recommender systems: a tractable decomposition and
practical methodology", https://arxiv.org/abs/1905.12767. The user chooses one document of a slate, or none: a
slate's value is the sum of its items' values, weighted by their probabilities to be chosen (equation 11). The
value of the chosen item is fitted to r + discount * the best slate's value in the next state (equation 15,
"QL"). The choice model, a conditional logit over the slate and choosing none, is fitted to the users'
choices.

Observations have the parts "user" [U], "documents" [C, D] and "chosen", the place of the slate before that
the user chose (how many it has: none); actions are K numbers of documents.

Deviations from the paper:

1. Choosing none is an item with a value of its own, since a session goes on after it.
2. The choice is learned by a network of user and document, not known.
3. The best slate is found by trying all of them (`slates=all`), or by the paper's top-k heuristic; its linear
   program and greedy heuristic are left out.
4. Exploration chooses each document of a slate anew with probability epsilon; it may then name one twice.
5. DQN's deviations 1 to 4 (`rl/agents/algos/dqn.py`).
"""

from __future__ import annotations

import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.registry import register
from rl.agents.value import ValueAgent, replay_loss
from rl.errors import UsageError
from rl.hparams.slateq import SlateQHParams
from rl.models.layers import ILLEGAL
from rl.models.slates import SlateNetwork
from rl.ops import random, slates, value
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor, Update


@register
class SlateQ(ValueAgent[SlateQHParams]):
    """Slates of documents, of which users choose one or none: values of single documents."""

    action_spaces = (spaces.MultiDiscrete,)

    def build(self) -> None:
        hparams = self.hparams
        self.candidates, self.size = _sizes(self.observation_space, self.action_space, hparams.env)
        if hparams.slates == "all":
            count = slates.count_slates(self.candidates, self.size)
            if count > hparams.most_slates:
                raise UsageError(
                    f"slates=all: {self.size} out of {self.candidates} documents make {count} slates, "
                    f"more than most_slates={hparams.most_slates}: take slates=top"
                )
            self.all_slates = slates.all_slates(self.candidates, self.size)
        super().build()
        self.add_optimizer("network", self.network.value_variables)
        self.add_optimizer("choice", self.network.choice_variables, hparams.choice_lr)

    def make_network(self, name: str) -> SlateNetwork:
        """Returns a network of values and scores of documents."""
        return SlateNetwork(self.hparams, self.encoder, self.candidates, self.initializers, name)

    def best(self, q_values: Tensor, scores: Tensor) -> Tensor:
        """Returns the best slates by values and scores [N, C + 1], int32 [N, K]."""
        if self.hparams.slates == "all":
            return slates.best_slate(q_values, scores, self.all_slates)
        return slates.top_slate(q_values, scores, self.size)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        best = self.best(self.network(observation), self.network.scores(observation))  # [N, K]
        shown = tf.one_hot(best, self.candidates, on_value=0.0, off_value=ILLEGAL)  # [N, K, C]
        return PolicyOutput(q_values=shown)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams, following = self.hparams, batch.next_observation
        scores = self.network.scores(following)  # [N, C + 1]
        next_values = self.target_network(following)
        best = self.best(self.network(following) if hparams.double else next_values, scores)  # [N, K]
        next_value = slates.slate_values(next_values, scores, best[:, None])[:, 0]  # [N]
        target = batch.reward + batch.discount * tf.stop_gradient(next_value)
        q_value = slates.chosen_values(self.network(batch.observation), batch.action, following["chosen"])
        error = target - q_value
        loss = value.huber(error, hparams.huber_delta) if hparams.loss == "huber" else tf.square(error)
        return replay_loss(loss, q_value, error, batch)

    def choice_loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns minus the log-probability of what was chosen from each slate, [N]."""
        scores = self.network.scores(batch.observation)  # [N, C + 1]
        none = scores[:, -1:]
        shown = tf.concat([tf.gather(scores, tf.cast(batch.action, tf.int32), batch_dims=1), none], 1)
        chosen = tf.cast(batch.next_observation["chosen"], tf.int32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(chosen, shown)
        return loss * batch.mask, {"choice_loss": masked_mean(loss, batch.mask)}, None

    def update(self, batch: Batch, seed: Tensor) -> Update:
        """Makes a step of the model of choice, and one of the values."""
        seed, choice_seed = random.split(seed, 2)
        choice = self.gradient_step(batch, choice_seed, "choice", self.choice_loss).metrics
        update = super().update(batch, seed)
        return Update(update.metrics | {"choice_loss": choice["choice_loss"]}, update.priorities)


def _sizes(observations: spaces.Space, actions: spaces.MultiDiscrete, env: str | None) -> tuple[int, int]:
    """Returns how many documents there are, and how many a slate has.

    Raises:
        UsageError: the environment is not one of slates.
    """
    candidates, size = int(actions.nvec[0]), len(actions.nvec)
    parts = observations.spaces if isinstance(observations, spaces.Dict) else {}
    shapes = {name: parts[name].shape for name in ("user", "documents") if name in parts}
    fits = len(shapes.get("user", ())) == 1 and len(shapes.get("documents", ())) == 2
    fits = fits and shapes["documents"][0] == candidates and set(actions.nvec.tolist()) == {candidates}
    chosen = parts.get("chosen")
    if not fits or not isinstance(chosen, spaces.Discrete) or chosen.n != size + 1:
        raise UsageError(
            f"slateq needs observations with user [U], documents [C, D] and chosen (Discrete K + 1), and K "
            f"numbers of documents as action; {env} has {observations} and {actions}: take "
            "InterestEvolution-v0, or another algorithm"
        )
    return candidates, size
