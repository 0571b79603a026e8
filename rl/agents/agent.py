"""The Agent: model, algorithm, act_select and grad_comp in one object.

An algorithm is a subclass in `rl/agents/algos/`: it says how the policy acts (`policy`), what is to be
minimised (`loss`) and, where one gradient step per batch is not enough, how to update (`update`). All methods
are tensor functions, state is in variables: runners call them eagerly, in a compiled loop, or from the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, cast, get_args

import keras
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.act_select.random_start import random_start
from rl.agents.algos.act_select.registry import get_act_select
from rl.agents.algos.grad_comp.registry import get_grad_comp
from rl.agents.contracts import (
    ActSelectForSome,
    ActSelectWithVariables,
    LoggedActSelect,
    NoisyActSelect,
    StatefulActSelect,
    StochasticActSelect,
    check_algorithm,
    check_built,
    checked_act_select,
    checked_choice,
    checked_update,
)
from rl.agents.groups import check_groups
from rl.agents.guard import Guard, checked_numerics, unguarded
from rl.agents.optimizers import KERNELS, OPTIMIZERS
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.models.contracts import KeepsState, named_variables
from rl.models.layers import Initializers, ObservationEncoder, has_noise, resample_noise
from rl.models.precision import picture_precision
from rl.ops import random, schedules
from rl.ops.nests import flatten_time, without_last
from rl.parallel import replicas
from rl.spaces import check_action_space
from rl.types import Loss, Nest, PolicyOutput, Tensor, Trajectory, Update

AnyHParams = TypeVar("AnyHParams", bound=HParams)


class Agent(Generic[AnyHParams]):
    """Base of all algorithms; `Agent[DQNHParams]` is one that reads the hyperparameters of that class.

    Args:
        hparams: the named set; the algorithm's own fields included.
        observation_space: gymnasium's, of one environment.
        action_space: likewise.
        seed: of the initial weights.

    Raises:
        UsageError: the algorithm cannot act in `action_space`, or it or another part is not what it must be.
    """

    experience: str  # what it learns from, of rl.agents.contracts.EXPERIENCES; `build` may choose another
    action_spaces: ClassVar[tuple[type, ...]]  # kinds of action space it can act in
    hparams_type: ClassVar[type[HParams]] = HParams  # of its hyperparameters; `Agent[DQNHParams]` sets it
    trajectory_extras: tuple[str, ...] = ()  # names of what trajectories store in addition, [N] each
    transient: ClassVar[tuple[str, ...]] = ()  # attributes: variables that checkpoints need not hold
    recurrent: ClassVar[bool] = False  # whether it can learn with recurrent models
    rows_of_env = 1  # rows (of `hparams.num_envs`) that form one environment: one for each of its agents

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "hparams_type" not in vars(cls):
            for argument in (each for base in vars(cls).get("__orig_bases__", ()) for each in get_args(base)):
                if isinstance(argument, type) and issubclass(argument, HParams):
                    cls.hparams_type = argument

    def __init__(self, hparams: HParams, observation_space: spaces.Space, action_space: Any, seed: int):
        check_algorithm(type(self), Agent, hparams.algo)
        if not isinstance(hparams, self.hparams_type):
            raise UsageError(
                f"algorithm {hparams.algo} needs {self.hparams_type.__name__}, the hparams given are "
                f"{type(hparams).__name__}: take a named set of that algorithm (--list hparams)"
            )
        check_action_space(hparams, self.action_spaces, action_space)
        self.hparams = cast(AnyHParams, hparams)
        self.observation_space, self.action_space = observation_space, cast(Any, action_space)
        self.initializers = Initializers(seed, hparams.model.init)
        with self.initializers.within():
            self.encoder = ObservationEncoder(
                observation_space,
                hparams.normalize_observation,
                action_space,
                precision=picture_precision(hparams.model),
            )
        self.guard, name = Guard(hparams.nan_patience), hparams.act_select_name
        self.act_select = checked_act_select(get_act_select(name)(hparams), name)
        self.grad_comp, self.annealed = get_grad_comp(hparams.grad_comp)(hparams), schedules.Annealed(hparams)
        self.networks: dict[str, keras.Model] = {}  # every network, by the name its variables are saved under
        self.optimizers: dict[str, keras.optimizers.Optimizer] = {}
        self.trained: dict[str, list[Any]] = {}  # the variables of each optimizer
        self._rates: dict[str, float | None] = {}  # at the start of the schedule; None: hparams.lr
        with self.initializers.within():
            self.build()
        check_built(self)
        check_groups(hparams, self.networks)
        if not self.recurrent and tf.nest.flatten(self._network_state(1)):
            raise UsageError(
                f"{hparams.algo} cannot learn with model {hparams.model.name}, which keeps state: "
                "take model.name=mlp, or a recurrent algorithm such as ppo or r2d2"
            )
        if hparams.eval_policy == "sample":
            self._check_stochastic()

    # -- what an algorithm implements -----------------------------------------------------------------

    def build(self) -> None:
        """Makes networks and optimizers (`add_network`, `add_optimizer`)."""
        raise NotImplementedError

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        """Returns the current policy's output for observations `[N, ...]`.

        recurrent_state: the network's state before them, from `initial_state` or the last output.
        """
        raise NotImplementedError

    def loss(self, batch: Any, seed: Tensor) -> Loss:
        """Returns (loss per example `[N]`, metrics as in `Update`, new priorities `[N]` or None)."""
        raise NotImplementedError

    def updates_per_iteration(self) -> int:
        """Returns the gradient updates in an iteration of the runner (one rollout, then learning); by default
        the hyperparameter of that name, which an algorithm without this method must have."""
        return int(cast(Any, self.hparams).updates_per_iteration)

    def update(self, batch: Any, seed: Tensor) -> Update:
        """Makes one learning step on a `Batch`, or on a whole `Trajectory` for `experience = "rollout"`."""
        update = self.gradient_step(batch, seed)
        self.after_update()
        return update

    def learn(self, batch: Any, seed: Tensor) -> Update:
        """Calls `update` under the guard, for runners. Once something is NaN or infinite, no variable changes
        any more, and the result has no effect: its metrics are empty, its priorities NaN
        (`rl.agents.guard`)."""
        others = unguarded(self.variables, self.optimizers, self.networks)
        before = [(each, tf.convert_to_tensor(each)) for each in others]
        with self.guard.update(batch):
            return self.guard.finish(self.update(batch, seed), before)

    def after_update(self) -> None:
        """Is called after every gradient step: updates target networks, the temperature."""

    def scalars(self, step: int) -> dict[str, float]:
        """Returns what else is logged with every row, read from Python: learning rates and exploration."""
        found, scale = self.annealed.scalars(step), float(self.guard.lr_scale.numpy())
        for name, lr in self._rates.items():
            key = "train/learning_rate" + ("" if name == "network" else f"_{name}")
            found[key] = float(schedules.learning_rate(self.hparams, step, lr)) * scale
        if isinstance(self.act_select, LoggedActSelect):
            found |= self.act_select.scalars(step)
        return found

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of an iteration, of all learners together; updates where nothing is played."""
        if self.hparams.offline:
            return self.updates_per_iteration()
        learners = 1 if self.experience == "parameters" else replicas.count()  # a population is one
        return int(learners * self.hparams.num_envs // self.rows_of_env * self.hparams.rollout_length)

    # -- what an algorithm uses -----------------------------------------------------------------------

    def add_network(self, name: str, network: keras.Model) -> keras.Model:
        self.networks[name] = network
        return network

    def add_optimizer(
        self,
        name: str,
        variables: list[Any],
        lr: float | None = None,
        decayed: list[Any] | None = None,
    ) -> keras.optimizers.Optimizer:
        """Returns an optimizer by hparams, built for `variables` so that nothing is created inside a loop.

        lr: learning rate in place of `hparams.lr`; the schedule is the same.
        decayed: the variables whose kernels get its weight decay, by default all: a kernel that two
            optimizers share must be decayed by only one of them.
        """
        hparams = self.hparams
        optimizer = OPTIMIZERS[hparams.optimizer](hparams.lr if lr is None else lr, hparams)
        kernels = {id(each) for each in (variables if decayed is None else decayed) if each.name in KERNELS}
        optimizer.exclude_from_weight_decay([each for each in variables if id(each) not in kernels])
        optimizer.build(variables)
        optimizer.part = name
        self.optimizers[name], self.trained[name], self._rates[name] = optimizer, variables, lr
        return optimizer

    def schedule(self, step: Tensor) -> None:
        """Sets learning rates and annealed hparams for `step` environment steps, int64 scalar; called before
        an iteration's updates. Constant rates too: a run may go on with another (`rl.tune.population`)."""
        for name, lr in self._rates.items():
            rate = schedules.learning_rate(self.hparams, step, lr) * self.guard.lr_scale
            self.optimizers[name].learning_rate.assign(rate)
        self.annealed.schedule(step)

    def gradient_step(
        self,
        batch: Any,
        seed: Tensor,
        name: str = "network",
        loss: Callable[..., Any] | None = None,
        variables: list[Any] | None = None,
        unless: Callable[[dict[str, Tensor]], Tensor] | None = None,
    ) -> Update:
        """Makes one `grad_comp` call on `loss` (default: the agent's own) for the optimizer called `name` and
        `variables` (default: all that it was made for).

        unless: a function from the loss's metrics to a bool scalar, the same for all learners. If it is true,
        no gradient is applied, and the metric "refused" is 1 instead of 0.
        """
        loss = self.loss if loss is None else loss
        variables = self.trained[name] if variables is None else variables
        more = {} if unless is None else {"unless": unless}
        optimizer = self.optimizers[name]
        with checked_numerics(self.hparams.check_numerics):
            given = (lambda part: loss(part, seed)), batch, variables, optimizer
            return checked_update(self.grad_comp, self.hparams, given, more)

    def initial_state(self, count: int) -> Nest:
        """Returns the recurrent state at the start of `count` episodes: zeros `[count, ...]`.

        {"network": ..., "act_select": ...}, or () if neither has a state.
        """
        select, chosen = self.act_select, ()
        if isinstance(select, StatefulActSelect):
            chosen = select.initial_state(self.action_space, count)
        state = {"network": self.starting_state(count), "act_select": chosen}
        return state if tf.nest.flatten(state) else ()

    def starting_state(self, count: int) -> Nest:
        """Returns the network's state at the start of `count` episodes; () if it keeps none."""
        return self._network_state(count)

    def _network_state(self, count: int) -> Nest:
        network = self.networks["network"]
        return network.initial_state(count) if isinstance(network, KeepsState) else ()

    def resample_noise(self, seed: Tensor) -> None:
        """Draws new parameter noise for every network (noisy layers); runners call it for every rollout."""
        for i, network in enumerate(self.networks.values()):
            resample_noise(network, random.fold_in(seed, i))

    @property
    def acts_with_noise(self) -> bool:
        """Whether `resample_noise` changes what acting reads."""
        return any(has_noise(each) for each in self.networks.values())

    @property
    def stochastic(self) -> bool:
        """Whether the policy is a distribution from which training samples its actions."""
        return isinstance(self.act_select, StochasticActSelect) and self.act_select.stochastic

    @property
    def evaluates_with_noise(self) -> bool:
        """Whether the policy uses random numbers in evaluations."""
        if isinstance(self.act_select, NoisyActSelect) and self.act_select.evaluates_with_noise:
            return True
        return self.hparams.eval_policy == "sample" or getattr(self.hparams, "evaluation_epsilon", 0.0) > 0.0

    def _check_stochastic(self) -> None:
        if not self.stochastic:
            epsilon = "evaluation_epsilon" in type(self.hparams).model_fields
            instead = " (evaluation_epsilon=0.05 makes a share of the actions random)" if epsilon else ""
            raise UsageError(
                f"eval_policy=sample: {self.hparams.algo} with act_select {self.hparams.act_select_name} "
                f"learns no distribution to draw actions from, take greedy{instead}"
            )

    @property
    def random_steps(self) -> int:
        """Environment steps at the start of training with uniformly random actions."""
        return getattr(self.hparams, "random_steps", 0)

    def act_for(self, first: int, count: int, total: int) -> None:
        """Sets which environments this agent acts for: `count` environments from index `first` on, of the
        `total` in all processes. Without this call, all `num_envs`."""
        if isinstance(self.act_select, ActSelectForSome):
            self.act_select.act_for(first, count, total)

    def act(
        self,
        observation: Nest,
        recurrent_state: Nest,
        seed: Tensor,
        step: Tensor,
        training: bool,
        sampled: bool = False,
    ) -> tuple[Nest, dict[str, Tensor], Nest]:
        """Returns (action `[N, ...]`, extras to keep in the trajectory, next recurrent state).

        `recurrent_state`: as `initial_state` or the last call returned it; `step`: environment steps so far,
        for exploration schedules. In training, the first `random_steps` are uniformly random. `sampled`:
        samples the actions as in training, although `training` is false.

        Raises:
            UsageError: `sampled`, of a policy that is not `stochastic`.
        """
        if sampled:
            self._check_stochastic()
        policy_seed, select_seed = random.split(seed, 2)
        output = self.policy(observation, network_state(recurrent_state), policy_seed, training)
        if not isinstance(output, PolicyOutput):
            raise UsageError(
                f"{self.hparams.algo}: policy returned {type(output).__name__}, not a PolicyOutput"
            )
        output = output._replace(action_mask=self.encoder.action_mask(observation))
        stateful = isinstance(self.act_select, StatefulActSelect)
        before = (recurrent_state["act_select"],) if stateful else ()
        action, log_prob, select_state = checked_choice(
            self.act_select(output, select_seed, step, training or sampled, *before),
            tf.nest.flatten(observation)[0].shape[0],
            stateful,
            self,
        )
        if training and self.random_steps:
            start_seed, legal = random.fold_in(seed, 2), output.action_mask
            action = random_start(action, self.action_space, legal, start_seed, step, self.random_steps)
        state = {"network": self.carried(output.recurrent_state, action), "act_select": select_state}
        return action, self._extras(log_prob, output), state if tf.nest.flatten(recurrent_state) else ()

    def carried(self, state: Nest, action: Nest) -> Nest:
        """Returns the network's state after a step that had the output state `state` and chose `action` [N,
        ...]."""
        return state

    def _extras(self, log_prob: Tensor, output: PolicyOutput) -> dict[str, Tensor]:
        """The extras that trajectories store, by the names in `trajectory_extras`."""
        kept = {"log_prob": log_prob, "value": output.value} | (output.extras or {})
        lacking = [name for name in self.trajectory_extras if kept.get(name) is None]
        if lacking:
            raise UsageError(
                f"{self.hparams.algo}: trajectory_extras asks for {lacking[0]}, its policy gives none"
            )
        return {name: kept[name] for name in self.trajectory_extras}

    def values(self, trajectory: Trajectory, seed: Tensor) -> Tensor:
        """Returns the present network's values of a trajectory's observations without the last one, [T,
        B]."""
        observation = without_last(trajectory.observation)  # [T, B, ...]
        if tf.nest.flatten(trajectory.recurrent_state):
            output = self.networks["network"].unroll(observation, trajectory.recurrent_state, trajectory.mask)
        else:
            output = self.policy(flatten_time(observation), (), seed, True)
        return tf.reshape(output.value, trajectory.mask.shape)

    def observe(self, trajectory: Trajectory) -> None:
        """Updates the observation normaliser with a rollout, except rows of agents that have left."""
        if self.encoder.normalize:
            rows = without_last(trajectory.observation)  # [T, B, ...]
            seen = trajectory.mask if self.rows_of_env > 1 else tf.ones_like(trajectory.mask)  # [T, B]
            self.encoder.observe(flatten_time(rows), tf.reshape(seen, [-1]))

    def remembered(self, trajectory: Trajectory, seed: Tensor) -> Trajectory:
        """Returns the trajectory that the memory stores for a rollout: by default the rollout itself."""
        return trajectory

    # -- its state ------------------------------------------------------------------------------------

    @property
    def policy_variables(self) -> dict[str, Any]:
        """The variables that acting needs: no optimizers, no target networks."""
        found = named_variables("network", self.networks["network"].variables)
        return found | named_variables("encoder", self.encoder.variables)

    @property
    def acting_variables(self) -> dict[str, Any]:
        """The variables that acting in training reads: `policy_variables` first, then all others."""
        own = self.act_select.variables if isinstance(self.act_select, ActSelectWithVariables) else {}
        return self.policy_variables | own

    @property
    def variables(self) -> dict[str, Any]:
        """Everything that a checkpoint must hold, by a name that is stable from run to run."""
        found = self.policy_variables
        for name, network in self.networks.items():
            found |= named_variables(name, network.variables)
        for name, optimizer in self.optimizers.items():
            found |= named_variables(f"optimizer/{name}", optimizer.variables)
        return found


def network_state(recurrent_state: Nest) -> Nest:
    """Returns the network's part of what `Agent.initial_state` and `Agent.act` return."""
    return recurrent_state["network"] if isinstance(recurrent_state, dict) else ()
