"""AlphaZero: a policy and value network that learns from its own tree search, in self-play.

Silver et al. 2018, "A general reinforcement learning algorithm that masters chess, shogi, and Go through
self-play", https://doi.org/10.1126/science.aar6404; the search is `rl.ops.search.puct`. Before each action of
training `simulations` simulations go through a tree of positions, which the in-graph environment itself
computes. The action is drawn in proportion to the visits of the root's moves; the network is trained on

    (z - v)^2 * value_coef - pi^T log p

where pi are the shares of these visits and z is how the episode ends. A game for two is played by the learner
on both sides (`train_env_kwargs={opponent:self}`).

With `search=gumbel` it is Gumbel AlphaZero (Danihelka et al. 2022, "Policy improvement by planning with
Gumbel", https://openreview.net/forum?id=bERaNdoegnO; `rl.ops.gumbel_search`): the action is the last move
that remains in sequential halving, pi the policy improved by completed values, and there is no other noise.

One player has nobody to win against. With `rank_percentile` it plays against its own past, by Laterre et al.
2018, "Ranked reward: enabling self-play reinforcement learning for combinatorial optimization",
https://arxiv.org/abs/1807.01672: z is 1 where an episode's return is no less than that percentile of the last
`ranked_episodes`, else -1. Rewards are used for nothing else. Without `rank_percentile` z is the discounted
return.

Deviations from the papers:

1. Evaluations, tests and loaded policies play the network's best action, without a search: they see
   observations alone, in which no search could be made.
2. The network learns from each rollout of `rollout_length` steps, `epochs` times in `minibatches` parts, not
   from a window of the last games. Where an episode goes on after the rollout, z is the value there.
3. There is no L2 term: `optimizer=adamw` with `weight_decay` decays the weights.
4. c_puct is constant, as in AlphaGo Zero. A tree is not used again after the move.
5. The temperature is the same from an episode's first move to its last. The value is linear, without a tanh.
6. In games for two the value is also trained on the observation of the player who is not to move.
7. Returns equal to the percentile are ranked 1, where the paper draws lots unless they are the greatest; the
   first episodes, before anything has ended, are ranked 1.
8. What is random in an environment has one outcome at each node of a tree.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.agents.policy_gradient import over_minibatches
from rl.agents.tree_search import acting_logits, found_by
from rl.hparams.alphazero import AlphaZeroHParams
from rl.hparams.ppo import check_minibatches
from rl.models.networks import ActorCritic
from rl.ops import distributions, loops, random, ranks, returns, search
from rl.ops.nests import flatten_time, without_last
from rl.ops.policy import masked_mean
from rl.parallel import replicas
from rl.types import Loss, Nest, PolicyOutput, Tensor, Trajectory, Update


class Minibatch(NamedTuple):
    """Single steps."""

    observation: Nest  # [N, ...]
    weights: Tensor  # [N, A] shares of the search's visits
    outcome: Tensor  # [N] z
    mask: Tensor  # [N]


@register
class AlphaZero(Agent[AlphaZeroHParams]):
    """Tree search and self-play: in-graph environments of one player, and games for two."""

    experience = "rollout"
    action_spaces: ClassVar[tuple[type, ...]] = (spaces.Discrete,)
    transient = ("threshold",)  # constant without ranked rewards; with them `variables` has it

    def build(self) -> None:
        hparams = self.hparams
        check_minibatches(hparams)
        self.network = ActorCritic(hparams, self.encoder, self.action_space, self.initializers, 0.0)
        self.add_network("network", self.network)
        self.add_optimizer("network", self.network.trainable_variables)
        self.ranked = hparams.rank_percentile is not None
        values = tf.zeros([hparams.ranked_episodes if self.ranked else 0])
        self.last = ranks.Last(*(tf.Variable(x, trainable=False) for x in (values, tf.constant(0))))
        self.threshold = tf.Variable(tf.float32.min, trainable=False)  # the return that is ranked 1

    @property
    def variables(self) -> dict[str, Any]:
        if not self.ranked:
            return super().variables
        own = {"returns": self.last.values, "episodes": self.last.count, "threshold": self.threshold}
        return super().variables | {f"ranks/{name}": each for name, each in own.items()}

    def updates_per_iteration(self) -> int:
        return self.hparams.epochs * self.hparams.minibatches

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        output = self.network(observation)
        return PolicyOutput(distribution=distributions.Categorical(output.parameters), value=output.value)

    # -- acting in training ---------------------------------------------------------------------------

    def planned(self) -> dict[str, tuple[int, ...]]:
        return {"weights": (int(self.action_space.n),)} | ({"score": ()} if self.ranked else {})

    def plan(
        self, model: search.Model, position: Nest, seed: Tensor, step: Tensor
    ) -> tuple[Nest, dict[str, Tensor]]:
        *seeds, select_seed = random.split(seed, 3)
        found = self.searched(model, position, seeds, True)
        weights, acting = (model.rows(position, shares) for shares in (found.weights, found.acting))
        output = PolicyOutput(distribution=distributions.Categorical(acting_logits(self.hparams, acting)))
        action = self.act_select(output, select_seed, step, True)[0]
        return action, {"weights": weights} | ({"score": model.score(position)} if self.ranked else {})

    def searched(
        self, model: search.Model, position: Nest, seeds: list[Tensor], explores: bool
    ) -> search.Found:
        """Returns what the search finds in positions [B, ...].

        Args:
            model: of the environment.
            position: the positions.
            seeds: two: of noise, and of what is random in the environment.
            explores: whether there is noise at the root, as in training.
        """
        prior, value = self._evaluate(model, position)

        def recurrent(position: Nest, move: Tensor, seed: Tensor) -> search.Step:
            return self._followed(model, position, move, seed)

        return found_by(self.hparams, recurrent, position, prior, value, seeds, explores, within_unit=True)

    def _followed(self, model: search.Model, position: Nest, move: Tensor, seed: Tensor) -> search.Step:
        """Where moves lead, in a tree."""
        moved = model.step(position, move, seed)
        prior, value = self._evaluate(model, moved.position)
        over = moved.terminated | moved.truncated
        discount = model.sign * self.hparams.gamma
        if self.ranked:
            reward = tf.where(over, self._rank(model.score(moved.position)), 0.0)
        else:
            cut = moved.truncated & ~moved.terminated  # what follows is worth its value, but is not searched
            reward = moved.reward + tf.where(cut, discount * value, 0.0)
        return search.Step(moved.position, reward, tf.where(over, 0.0, discount), prior, value)

    def _evaluate(self, model: search.Model, position: Nest) -> tuple[Tensor, Tensor]:
        """How likely moves are [B, A], 0 where they are illegal, and what positions are worth [B]."""
        observation = model.observe(position)
        output = self.network(observation)
        legal = self.encoder.action_mask(observation)
        legal = tf.ones_like(output.parameters, tf.bool) if legal is None else legal
        return search.legal_prior(output.parameters[:, : model.moves], legal[:, : model.moves]), output.value

    def _rank(self, score: Tensor) -> Tensor:
        return tf.where(score >= self.threshold, 1.0, -1.0)

    # -- learning -------------------------------------------------------------------------------------

    def loss(self, batch: Minibatch, seed: Tensor) -> Loss:
        output = self.network(batch.observation)
        policy_loss = -tf.reduce_sum(batch.weights * tf.nn.log_softmax(output.parameters), -1)
        value_loss = tf.square(output.value - batch.outcome)
        entropy = distributions.Categorical(output.parameters).entropy()
        metrics = {
            "policy_loss": masked_mean(policy_loss, batch.mask),
            "value_loss": masked_mean(value_loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
        }
        return (policy_loss + self.hparams.value_coef * value_loss) * batch.mask, metrics, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes `epochs` passes over the trajectory in `minibatches` parts, shuffled anew in every pass."""
        hparams, data = self.hparams, self._outcomes(batch)

        def step(part: Minibatch) -> dict[str, Tensor]:
            return self.gradient_step(part, seed).metrics

        metrics = over_minibatches(step, data, hparams.epochs, hparams.minibatches, seed)
        if self.ranked:
            metrics["rank_threshold"] = loops.Last(self.threshold)
        return Update(metrics | {"updates": tf.constant(float(self.updates_per_iteration()))})

    def _outcomes(self, trajectory: Trajectory) -> Minibatch:
        """The trajectory as a flat batch [T * B], with the outcomes of its episodes; keeps their returns."""
        reward, terminated = trajectory.reward, trajectory.terminated
        if self.ranked:
            score = trajectory.extras["score"] + reward  # [T, B] the return after each step
            terminated = (terminated | trajectory.truncated) & (trajectory.mask > 0.0)
            reward = tf.where(terminated, self._rank(score), 0.0)
            self._keep(score, terminated)
        observation = trajectory.observation  # [T+1, B, ...]
        value = tf.reshape(self.network(flatten_time(observation)).value, [-1, reward.shape[1]])
        outcome = returns.discounted_return(
            reward, value, terminated, trajectory.truncated, self.hparams.gamma
        )
        rows = without_last(observation)
        steps: Minibatch = flatten_time(
            Minibatch(rows, trajectory.extras["weights"], outcome, trajectory.mask)
        )
        return steps

    def _keep(self, score: Tensor, ended: Tensor) -> None:
        """Adds the returns of episodes that have ended, [T, B], to the last ones, and updates the
        threshold."""
        flat = [tf.reshape(x, [-1]) for x in (score, tf.cast(ended, tf.float32))]
        values, taken = (replicas.gathered(x) for x in flat)
        last = ranks.added(ranks.Last(*map(tf.convert_to_tensor, self.last)), values, taken > 0.0)
        for variable, value in zip(self.last, last, strict=True):
            variable.assign(value)
        assert self.hparams.rank_percentile is not None
        self.threshold.assign(ranks.quantile(last, self.hparams.rank_percentile))
