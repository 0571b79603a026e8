"""Contracts of the parts of an agent, and the checks that report a violation in one line.

The contracts are `typing.Protocol`s: a user's part needs no base class. An act_select is a function; the
protocols after `ActSelect` are optional abilities (to keep a state, to log, to act for some of the
environments, ...).
"""

from __future__ import annotations

import inspect
from typing import Any, Protocol, runtime_checkable

import keras
import tensorflow as tf

from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.ops.loops import value_of
from rl.ops.search import Model
from rl.spaces import space_spec
from rl.types import Loss, Nest, PolicyOutput, Tensor, Trajectory, Update

EXPERIENCES = {  # what an algorithm may learn from
    "rollout": "each trajectory as it comes",
    "parameters": "each trajectory as it comes, of which every one begins with fresh episodes",
    "transition": "a `Batch` that a memory samples",
    "sequence": "a `SequenceBatch` that a memory samples",
}


class ActSelect(Protocol):
    """Chooses actions from a policy's output."""

    def __call__(
        self, output: PolicyOutput, seed: Tensor, step: Tensor, training: bool
    ) -> tuple[Nest, Tensor]:
        """(action `[N, ...]`, log-probability `[N]` of having chosen it).

        seed: int32 [2]; step: environment steps so far, for schedules; training: whether it may explore.
        """


@runtime_checkable
class StatefulActSelect(Protocol):
    """An act_select that carries a state from step to step, such as noise that is correlated in time."""

    def initial_state(self, action_space: Any, count: int) -> Nest:
        """Returns the state at the start of `count` episodes: zeros `[count, ...]`."""

    def __call__(
        self, output: PolicyOutput, seed: Tensor, step: Tensor, training: bool, state: Nest
    ) -> tuple[Nest, Tensor, Nest]:
        """As `ActSelect`, but takes the state before the step, and returns the state after it as third
        value."""


@runtime_checkable
class StochasticActSelect(Protocol):
    """An act_select that says whether evaluations may ask for actions as in training (eval_policy=sample)."""

    stochastic: bool


@runtime_checkable
class NoisyActSelect(Protocol):
    """An act_select that says whether it draws in evaluations, too."""

    evaluates_with_noise: bool


@runtime_checkable
class LoggedActSelect(Protocol):
    """An act_select with something to log."""

    def scalars(self, step: int) -> dict[str, float]:
        """Returns the values that every row of metrics contains, by tag."""


@runtime_checkable
class ActSelectWithVariables(Protocol):
    """An act_select that reads variables."""

    variables: dict[str, Any]  # by name, "act_select/..."


@runtime_checkable
class ActSelectForSome(Protocol):
    """An act_select that explores differently in each environment."""

    def act_for(self, first: int, count: int, total: int) -> None:
        """Says for which environments it acts (`Agent.act_for`)."""


@runtime_checkable
class LearnsBeside(Protocol):
    """An algorithm that learns numbers beside its networks, such as a temperature or the scale of returns."""

    @property
    def learned_beside(self) -> dict[str, Any]:
        """The variables of these numbers, by their names in `variables`: a run that begins with another's
        weights begins with these too."""


def check_built(agent: Any) -> None:
    """Raises UsageError where a built agent has no acting network, or has an attribute that is a variable but
    is neither in `variables` nor named in `transient`: no checkpoint would hold it, and the next of several
    copies would start with its value."""
    if "network" not in agent.networks:
        raise UsageError(f'algorithm {agent.hparams.algo} has no acting network: add_network("network", ...)')
    saved = {id(each) for each in agent.variables.values()}
    for name, each in vars(agent).items():
        kept = id(each) in saved or name in agent.transient
        if isinstance(each, tf.Variable | keras.Variable) and not kept:
            kind = type(agent).__name__
            raise UsageError(
                f"{kind}.{name} is a variable that no checkpoint holds: give it a name in {kind}.variables"
            )


def check_algorithm(kind: Any, base: type, algo: str) -> None:
    """Raises UsageError where `kind`, the class of the algorithm `algo` and a subclass of `base`
    (rl.agents.agent.Agent), lacks a required attribute or method."""
    said = {name for each in kind.__mro__[: kind.__mro__.index(base)] for name in vars(each)}
    said |= {"updates_per_iteration"} & set(kind.hparams_type.model_fields)  # which is its default
    missing = {"experience", "action_spaces", "build", "policy", "updates_per_iteration"} - said
    missing |= set() if said & {"loss", "update"} else {"loss"}
    if missing:
        lacks = ", ".join(sorted(missing))
        raise UsageError(f"algorithm {algo} ({kind.__name__}) lacks {lacks}: see Agent in rl/agents/agent.py")
    experience = getattr(kind, "experience", None)
    if experience not in EXPERIENCES:
        known = ", ".join(EXPERIENCES)
        raise UsageError(f"algorithm {algo}: experience {experience!r} is none of {known}")


def checked_act_select(made: Any, name: str) -> Any:
    """Returns what the factory of the act_select `name` made.

    Raises:
        UsageError: it cannot be called as `ActSelect` or `StatefulActSelect` is.
    """
    stateful = isinstance(made, StatefulActSelect)
    arguments = "output, seed, step, training" + (", state" if stateful else "")
    try:
        inspect.signature(made).bind(*arguments.split(", "))
    except (TypeError, ValueError) as error:  # ValueError: one of C, which does not say what it takes
        what = f"({error})" if callable(made) else f"but a {type(made).__name__}"
        raise UsageError(
            f"act_select {name}: its factory returned no function of ({arguments}), {what}"
        ) from error
    return made


def checked_choice(chosen: Any, count: int, stateful: bool, agent: Any) -> tuple[Nest, Tensor, Nest]:
    """Returns (action, log_prob, state) as an agent's act_select chose them for `count` observations; a state
    of () unless it is stateful. Integers of another width become those of the action space.

    Raises:
        UsageError: it did not return what `ActSelect` or `StatefulActSelect` says.
    """
    name, kept = agent.hparams.act_select_name, "log_prob" in agent.trajectory_extras
    wanted = "(action, log_prob, state)" if stateful else "(action, log_prob)"
    if not isinstance(chosen, tuple) or len(chosen) != wanted.count(",") + 1:
        raise UsageError(f"act_select {name} returned {_described(chosen)}, not {wanted}")
    action, log_prob, state = chosen if stateful else (*chosen, ())
    wrong = kept and _shape(log_prob) != [count]
    if wrong or any(_shape(x)[:1] != [count] for x in tf.nest.flatten(action)):
        raise UsageError(
            f"act_select {name} returned action {_described(action)} and log_prob {_described(log_prob)} for "
            f"{count} observations: each needs one for every observation, log_prob [{count}]"
        )
    specs = tf.nest.flatten(space_spec(agent.action_space, (count,)))
    found = tf.nest.flatten(action)
    if [each.dtype.is_integer for each in found] != [each.dtype.is_integer for each in specs]:
        is_, wanted = (", ".join(each.dtype.name for each in leaves) for leaves in (found, specs))
        raise UsageError(
            f"act_select {name} returned an action of {is_}, {agent.action_space} takes {wanted}"
        )
    found = [tf.cast(x, each.dtype) for x, each in zip(found, specs, strict=True)]
    return tf.nest.pack_sequence_as(action, found), log_prob, state


def checked_loss(returned: Any, examples: Tensor, algo: str) -> Loss:
    """Returns the result of an algorithm's loss function, after checking it.

    examples: a tensor of the batch with one number per example.

    Raises:
        UsageError: the loss is not one number per example (gradients of an averaged loss would be too small
            by a factor of the batch size), or a metric is no scalar.
    """
    if not isinstance(returned, tuple) or len(returned) != 3:
        raise UsageError(
            f"algorithm {algo}: a loss returned {_described(returned)}, not (loss [N], metrics, priorities)"
        )
    loss, metrics, priorities = returned
    wanted = tf.TensorShape(_shape(examples)).num_elements()
    for what, value in (("loss", loss), ("priorities", priorities)):
        if value is None and what == "priorities":
            continue
        if not _shape(value) or tf.TensorShape(_shape(value)).num_elements() != wanted:
            raise UsageError(
                f"algorithm {algo}: a loss returned {what} of shape {_shape(value)} for {wanted} examples: "
                f"it needs one number for each, [{wanted}], not their mean; grad_comp averages"
            )
    wrong = [name for name, metric in metrics.items() if _shape(value_of(metric))]
    if wrong:
        shape = _shape(value_of(metrics[wrong[0]]))
        raise UsageError(f"algorithm {algo}: a loss's metric {wrong[0]} has shape {shape}, and is no scalar")
    return loss, metrics, priorities


def checked_update(
    compute: Any, hparams: HParams, arguments: tuple[Any, ...], more: dict[str, Any]
) -> Update:
    """Returns what the grad_comp `compute` makes of (loss_fn, batch, variables, optimizer) and of `more`.

    Raises:
        UsageError: it cannot be called so, as with `unless=`, or does not return an `Update`.
    """
    name = hparams.grad_comp
    try:
        inspect.signature(compute).bind(*arguments, **more)
    except (TypeError, ValueError) as error:  # ValueError: as above
        called = ", ".join(["loss_fn, batch, variables, optimizer", *(f"{each}=" for each in more)])
        what = f"({error})" if callable(compute) else f"but a {type(compute).__name__}"
        raise UsageError(
            f"grad_comp {name}: its factory returned no function of ({called}), as {hparams.algo} calls it "
            f"with these hyperparameters, {what}: see rl/agents/algos/grad_comp/backprop.py"
        ) from error
    update = compute(*arguments, **more)
    if not isinstance(update, Update):
        raise UsageError(f"grad_comp {name} returned {type(update).__name__}, not an Update")
    return update


def needed_hparam(hparams: HParams, name: str, part: str, instead: str) -> Any:
    """Returns the hyperparameter `name`, which `part` ("act_select ou_noise") reads but not every set has.

    Raises:
        UsageError: the hparams have none of that name; the line ends with `instead`.
    """
    if name not in type(hparams).model_fields:
        raise UsageError(f"{part} needs the hparam {name}, which {hparams.algo} lacks: {instead}")
    return hparams.flat()[name]


def _shape(x: Any) -> list[int | None]:
    return list(tf.convert_to_tensor(x).shape)


def _described(x: Any) -> str:
    """What a part returned, in a few words for an error message."""
    if tf.is_tensor(x):
        return str(x.shape.as_list())
    return f"{len(x)} values" if isinstance(x, tuple) else type(x).__name__


@runtime_checkable
class Imitates(Protocol):
    """An algorithm that learns from rollouts and from demonstrations."""

    def take_demonstrations(self, memory: Any) -> None:
        """Takes a memory of transitions to sample from (rl.memory.contract.Memory)."""


@runtime_checkable
class AsksExpert(Protocol):
    """An algorithm that learns from an expert's actions for the observations that it meets itself."""

    def take_expert(self, expert: Any) -> None:
        """Takes a trained agent of the same spaces, whose policy keeps no state (rl.agents.agent.Agent)."""


class AdaptingHParams(Protocol):
    """The hyperparameters that whoever runs an algorithm which adapts reads."""

    inner_steps: int
    task_episodes: int


@runtime_checkable
class Adapts(Protocol):
    """An algorithm that adapts to the task of each environment while it plays, in training. Its hparams say
    so too (`HParams.adapts`)."""

    hparams: AdaptingHParams

    def adapt(self, trajectory: Trajectory) -> None:
        """Adapts the acting policies to a trajectory: the steps since the last call, or since
        `Agent.resample_noise`. Each group of `task_episodes` rows has the same task."""


@runtime_checkable
class Searches(Protocol):
    """An algorithm that searches before it acts, in training. Its hparams say so too (`HParams.searches`)."""

    def plan(
        self, model: Model, position: Nest, seed: Tensor, step: Tensor
    ) -> tuple[Nest, dict[str, Tensor]]:
        """Returns the actions of all rows, and the extras that trajectories store."""

    def planned(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes, of one row, of the extras that `plan` returns, float32 each."""
