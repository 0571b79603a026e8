"""The Agent: model, algorithm, act_select and grad_comp in one object.

An algorithm is a subclass in `rl/agents/algos/`: it says how the policy acts (`policy`), what is to be
minimised (`loss`) and, where one gradient step per batch is not enough, how to update (`update`). All
methods are tensor functions with static shapes and state in variables, so that runners may call them
eagerly, inside one XLA-compiled loop, or from the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import keras
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.act_select.random_start import random_start
from rl.agents.algos.act_select.registry import get_act_select
from rl.agents.algos.grad_comp.registry import get_grad_comp
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.models.images import for_images
from rl.models.layers import Initializers, ObservationEncoder, has_noise, resample_noise
from rl.ops import random, schedules
from rl.ops.nests import flatten_time
from rl.parallel import replicas
from rl.spaces import check_action_space
from rl.types import Nest, PolicyOutput, Tensor, Trajectory, Update

# Named, or Keras would number them, and a run that was the second in its process could not be resumed.
OPTIMIZERS: dict[str, Any] = {
    "adam": lambda rate, hparams: _local(keras.optimizers.Adam)(
        rate, epsilon=hparams.adam_epsilon, name="adam"
    ),
    "adamw": lambda rate, hparams: _local(keras.optimizers.AdamW)(
        rate, weight_decay=hparams.weight_decay, epsilon=hparams.adam_epsilon, name="adamw"
    ),
    "rmsprop": lambda rate, hparams: _local(keras.optimizers.RMSprop)(
        rate, rho=0.99, epsilon=hparams.adam_epsilon, name="rmsprop"
    ),
    "sgd": lambda rate, hparams: _local(keras.optimizers.SGD)(rate, name="sgd"),
}
# What weight decay is for, by the variables' names: not biases, scales, noise, log_std, log_temperature.
KERNELS = ("kernel", "recurrent_kernel")


def _local(optimizer: type) -> type:
    """Keras sums gradients over devices and waits for all of them, which no loop allows: here each device
    takes the step by itself, with gradients that are the same on all (`rl.parallel.replicas`). Likewise the
    weight decay, which Keras's would make on all devices, once for each."""

    def update(self: Any, gradients: list[Tensor], variables: list[Any], learning_rate: Tensor) -> None:
        for gradient, variable in zip(gradients, variables, strict=True):
            self.update_step(gradient, variable, learning_rate)

    def decay(self: Any, variables: list[Any]) -> None:
        if not self.weight_decay:
            return
        rate = tf.convert_to_tensor(self.learning_rate)
        for variable in variables:
            if self._use_weight_decay(variable):
                variable.assign_sub(rate * self.weight_decay * tf.convert_to_tensor(variable))

    methods = {"_backend_update_step": update, "_apply_weight_decay": decay}
    return type(optimizer.__name__, (optimizer,), methods)


class Agent:
    """Base of all algorithms.

    Args:
        hparams: the named set; the algorithm's own fields included.
        observation_space, action_space: gymnasium spaces of one environment.
        seed: of the initial weights.

    Raises:
        UsageError: the algorithm cannot act in `action_space`.
    """

    # What it learns from. "rollout": each trajectory as it comes; "parameters": likewise, and every rollout
    # begins with fresh episodes; "transition", "sequence": what a memory samples.
    experience: ClassVar[str]
    action_spaces: ClassVar[tuple[type, ...]]  # kinds of action space it can act in
    hparams_type: ClassVar[type[HParams]] = HParams  # the class that has its hyperparameters
    trajectory_extras: ClassVar[tuple[str, ...]] = ()  # what a rollout keeps beside the transition
    recurrent: ClassVar[bool] = False  # whether it can learn with models that keep state

    def __init__(self, hparams: HParams, observation_space: spaces.Space, action_space: Any, seed: int):
        if not isinstance(hparams, self.hparams_type):
            raise UsageError(
                f"algorithm {hparams.algo} needs {self.hparams_type.__name__}, the hparams given are "
                f"{type(hparams).__name__}: take a named set of that algorithm (--list hparams)"
            )
        check_action_space(hparams, self.action_spaces, action_space)
        self.hparams: Any = hparams
        self.observation_space, self.action_space = observation_space, cast(Any, action_space)
        self.initializers = Initializers(seed, hparams.model.init)
        model = hparams.model
        self.encoder = ObservationEncoder(
            observation_space,
            hparams.normalize_observation,
            action_space,
            precision=model.precision if for_images(model.name) else "float32",
        )
        self.act_select = get_act_select(hparams.act_select_name)(hparams)
        self.grad_comp = get_grad_comp(hparams.grad_comp)(hparams)
        self.networks: dict[str, keras.Model] = {}  # every network, by the name its variables are saved under
        self.optimizers: dict[str, keras.optimizers.Optimizer] = {}
        self._rates: dict[str, float | None] = {}  # at the start of the schedule; None: hparams.lr
        self.build()
        if not self.recurrent and tf.nest.flatten(self._network_state(1)):
            raise UsageError(
                f"{hparams.algo} cannot learn with model {hparams.model.name}, which keeps state: "
                "take model.name=mlp, or a recurrent algorithm such as ppo or r2d2"
            )
        if hparams.eval_policy == "sample":
            self._check_stochastic()

    # -- what an algorithm writes ---------------------------------------------------------------------

    def build(self) -> None:
        """Makes networks and optimizers (`add_network`, `add_optimizer`)."""
        raise NotImplementedError

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        """What the current policy says of observations `[N, ...]`.

        recurrent_state: of the network before them, as `initial_state` gave it or the last output held it.
        """
        raise NotImplementedError

    def loss(self, batch: Any, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        """(loss per example `[N]`, metrics as in `Update`, new priorities `[N]` or None)."""
        raise NotImplementedError

    def updates_per_iteration(self) -> int:
        """Gradient updates per iteration of the runner (one rollout, then learning)."""
        raise NotImplementedError

    def update(self, batch: Any, seed: Tensor) -> Update:
        """One learning step on a `Batch`, or on a whole `Trajectory` for `experience = "rollout"`."""
        update = self.gradient_step(batch, seed)
        self.after_update()
        return update

    def after_update(self) -> None:
        """What follows every gradient step: target networks, temperature."""

    def scalars(self, step: int) -> dict[str, float]:
        """What else is logged with every row, read from Python: learning rates and exploration."""
        exploration = getattr(self.act_select, "scalars", None)
        rates = {name: schedules.learning_rate(self.hparams, step, lr) for name, lr in self._rates.items()}
        named = {"network": "train/learning_rate"}
        found = {named.get(name, f"train/learning_rate_{name}"): float(rate) for name, rate in rates.items()}
        return found if exploration is None else found | exploration(step)

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of an iteration, of all learners together."""
        learners = 1 if self.experience == "parameters" else replicas.count()  # a population is one
        return int(learners * self.hparams.num_envs * self.hparams.rollout_length)

    # -- what it is given -----------------------------------------------------------------------------

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
        """An optimizer by hparams, built for `variables` so that nothing is created inside a loop.

        lr: learning rate in place of `hparams.lr`; the schedule is the same.
        decayed: the variables whose kernels its weight decay is for, by default all: one that two optimizers
            have is to decay by one of them.
        """
        hparams = self.hparams
        optimizer = OPTIMIZERS[hparams.optimizer](hparams.lr if lr is None else lr, hparams)
        kernels = {id(each) for each in (variables if decayed is None else decayed) if each.name in KERNELS}
        optimizer.exclude_from_weight_decay([each for each in variables if id(each) not in kernels])
        optimizer.build(variables)
        self.optimizers[name], self._rates[name] = optimizer, lr
        return optimizer

    def schedule(self, step: Tensor) -> None:
        """Assigns every optimizer its learning rate at `step` environment steps, int64 scalar; called before
        an iteration's updates."""
        if self.hparams.lr_schedule == "constant":
            return
        for name, lr in self._rates.items():
            self.optimizers[name].learning_rate.assign(schedules.learning_rate(self.hparams, step, lr))

    def gradient_step(
        self,
        batch: Any,
        seed: Tensor,
        name: str = "network",
        loss: Callable[..., Any] | None = None,
        variables: list[Any] | None = None,
        unless: Callable[[dict[str, Tensor]], Tensor] | None = None,
    ) -> Update:
        """One `grad_comp` call on `loss` (default: the agent's own) for the optimizer called `name` and
        `variables` (default: the trainable ones of the network of that name).

        unless: of the loss's metrics, a bool scalar that is the same for all learners. Where it is true
        nothing is applied, and the metric "refused" is 1 instead of 0.
        """
        loss = self.loss if loss is None else loss
        variables = self.networks[name].trainable_variables if variables is None else variables
        option = {} if unless is None else {"unless": unless}
        return self.grad_comp(
            lambda part: loss(part, seed), batch, variables, self.optimizers[name], **option
        )

    def initial_state(self, count: int) -> Nest:
        """What acting carries from step to step, at the start of `count` episodes: zeros `[count, ...]`.

        {"network": ..., "act_select": ...}, or () where neither keeps state.
        """
        select = getattr(self.act_select, "initial_state", None)
        state = {
            "network": self._network_state(count),
            "act_select": () if select is None else select(self.action_space, count),
        }
        return state if tf.nest.flatten(state) else ()

    def _network_state(self, count: int) -> Nest:
        initial = getattr(self.networks["network"], "initial_state", None)
        return () if initial is None else initial(count)

    def resample_noise(self, seed: Tensor) -> None:
        """New parameter noise in every network (noisy layers); runners call it before every rollout."""
        for i, network in enumerate(self.networks.values()):
            resample_noise(network, random.fold_in(seed, i))

    @property
    def acts_with_noise(self) -> bool:
        """Whether `resample_noise` changes what acting reads."""
        return hasattr(self, "population") or any(has_noise(each) for each in self.networks.values())

    @property
    def stochastic(self) -> bool:
        """Whether the policy that is learned is a distribution, of which actions are drawn in training."""
        return bool(getattr(self.act_select, "stochastic", False))

    def _check_stochastic(self) -> None:
        if not self.stochastic:
            epsilon = hasattr(self.hparams, "evaluation_epsilon")
            instead = " (evaluation_epsilon=0.05 makes a share of the actions random)" if epsilon else ""
            raise UsageError(
                f"eval_policy=sample: {self.hparams.algo} with act_select {self.hparams.act_select_name} "
                f"learns no distribution to draw actions from, take greedy{instead}"
            )

    def act_for(self, first: int, count: int, total: int) -> None:
        """Says which environments this agent acts for: `count` from the first-th on, of `total` that are
        played at the same time in several processes. Without this call, for all `num_envs`."""
        parts: tuple[Any, ...] = (self.act_select, getattr(self, "population", None))
        for part in parts:
            if hasattr(part, "act_for"):
                part.act_for(first, count, total)

    def act(
        self,
        observation: Nest,
        recurrent_state: Nest,
        seed: Tensor,
        step: Tensor,
        training: bool,
        sampled: bool = False,
    ) -> tuple[Nest, dict[str, Tensor], Nest]:
        """(action `[N, ...]`, extras to keep in the trajectory, next recurrent state).

        `recurrent_state`: as `initial_state` or the last call returned it; `step`: environment steps so far,
        for exploration schedules. In training, the first `hparams.random_steps` (of algorithms that have it)
        are uniformly random. `sampled`: actions are drawn as in training where this is not training.

        Raises:
            UsageError: `sampled`, of a policy that is not `stochastic`.
        """
        if sampled:
            self._check_stochastic()
        draws = training or sampled
        policy_seed, select_seed = random.split(seed, 2)
        output = self.policy(observation, network_state(recurrent_state), policy_seed, training)
        output = output._replace(action_mask=self.encoder.action_mask(observation))
        if hasattr(self.act_select, "initial_state"):
            before = recurrent_state["act_select"]
            action, log_prob, select_state = self.act_select(output, select_seed, step, draws, before)
        else:
            action, log_prob = self.act_select(output, select_seed, step, draws)
            select_state = ()
        random_steps = getattr(self.hparams, "random_steps", 0)
        if training and random_steps:
            start_seed, legal = random.fold_in(seed, 2), output.action_mask
            action = random_start(action, self.action_space, legal, start_seed, step, random_steps)
        kept = {"log_prob": log_prob, "value": output.value}
        state = {"network": output.recurrent_state, "act_select": select_state}
        return (
            action,
            {name: kept[name] for name in self.trajectory_extras},
            state if tf.nest.flatten(recurrent_state) else (),
        )

    def values(self, trajectory: Trajectory, seed: Tensor) -> Tensor:
        """What the present network values a trajectory's observations at, but for the last one: [T, B]."""
        observation = tf.nest.map_structure(lambda x: x[:-1], trajectory.observation)  # [T, B, ...]
        if tf.nest.flatten(trajectory.recurrent_state):
            output = self.networks["network"].unroll(observation, trajectory.recurrent_state, trajectory.mask)
        else:
            output = self.policy(flatten_time(observation), (), seed, True)
        return tf.reshape(output.value, trajectory.mask.shape)

    def observe(self, trajectory: Trajectory) -> None:
        """Takes a rollout into the statistics of the observation normaliser."""
        if self.encoder.normalize:
            rows = tf.nest.map_structure(lambda x: x[:-1], trajectory.observation)  # [T, B, ...]
            self.encoder.observe(flatten_time(rows), tf.ones_like(tf.reshape(trajectory.reward, [-1])))

    # -- its state ------------------------------------------------------------------------------------

    @property
    def policy_variables(self) -> dict[str, Any]:
        """What acting needs: no optimizer, no target network."""
        found = named_variables("network", self.networks["network"].variables)
        return found | named_variables("encoder", self.encoder.variables)

    @property
    def acting_variables(self) -> dict[str, Any]:
        """What acting in training reads: `policy_variables`, then what else there is."""
        return self.policy_variables | getattr(self.act_select, "variables", {})

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
    """The network's part of what `Agent.initial_state` and `Agent.act` return."""
    return recurrent_state["network"] if isinstance(recurrent_state, dict) else ()


def copy_weights(online: keras.Model, target: keras.Model, tau: float | Tensor) -> None:
    """target <- tau * online + (1 - tau) * target, for all trainable variables."""
    for source, copy in zip(online.trainable_variables, target.trainable_variables, strict=True):
        copy.assign((1.0 - tau) * copy + tau * source)  # exact at tau = 0 and 1, by rounding too


def update_target(online: keras.Model, target: keras.Model, updates: Tensor, hparams: Any) -> None:
    """Moves the target network by `tau` in every `target_update_period`-th of `updates`."""
    if hparams.target_update_period == 1:
        copy_weights(online, target, hparams.tau)
        return
    due = tf.cast(updates % hparams.target_update_period == 0, tf.float32)
    # A blend with weight 0 leaves the target as it is; cheaper for XLA than a conditional.
    copy_weights(online, target, due * hparams.tau)


def named_variables(owner: str, variables: list[Any]) -> dict[str, Any]:
    """Names Keras variables "owner/layer/weight"; the encoder's are shared by networks and named once."""
    found: dict[str, Any] = {}
    for variable in variables:
        path = "/".join(part for part in variable.path.split("/") if part != owner)
        name = f"{owner}/{path}"
        if path.startswith("encoder/") and owner != "encoder":
            continue
        if name in found:
            raise ValueError(f"two variables are called {name}: give their layers names of their own")
        found[name] = variable
    return found
