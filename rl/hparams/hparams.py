"""Hyperparameters: known names only, types and ranges checked at every assignment, frozen before a run.

An algorithm with hyperparameters of its own derives a class from `HParams` in its file of named sets
(`rl/hparams/dqn.py`). Defaults that the whole class shares are class defaults; what a named set assigns is
recorded as explicitly set, which is what `a-b` merges (`rl/hparams/merge.py`).
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, field_validator

from rl.errors import UsageError, nearest
from rl.hparams.checked import (
    Checked,
    Coefficient,
    Count,
    Fraction,
    PositiveFloat,
    PositiveInt,
    in_files,
    unknown_hparam,
    usage_error,
)
from rl.hparams.league import LeagueHParams

__all__ = [
    "Checked",
    "Coefficient",
    "Count",
    "Fraction",
    "HParams",
    "LeagueHParams",
    "ModelHParams",
    "PositiveFloat",
    "PositiveInt",
    "check_imported",
    "refuse_contradiction",
    "unknown_hparam",
    "usage_error",
]


class ModelHParams(Checked):
    """What the network looks like; `name` is one of `--list models`."""

    prefix: ClassVar[str] = "model."

    # Layers between observation and outputs: mlp, lstm, gru; for pictures nature_cnn, impala_cnn,
    # minatar_cnn, board_cnn.
    name: str = "mlp"
    hidden: tuple[PositiveInt, ...] = (64, 64)  # units of each hidden layer
    # The same of values and critics that have layers of their own, beside a policy; None: as hidden
    value_hidden: tuple[PositiveInt, ...] | None = None
    recurrent_units: PositiveInt = 64  # lstm, gru: units of the layer that remembers, behind the hidden ones
    filters: tuple[PositiveInt, ...] = ()  # convolutions'; empty: the model's
    image: str = "nature_cnn"  # lstm, gru: the model that images go through before the layer that remembers
    # Dict and Tuple observations: units of the layers that each part has alone, before the parts are joined
    part_hidden: tuple[PositiveInt, ...] = (64,)
    activation: Literal["relu", "tanh", "elu", "gelu", "silu"] = "tanh"  # of hidden layers
    layer_norm: bool = False  # dense layers' outputs are normalised (Ba et al. 2016), before the activation
    shared: bool = False  # policy and value share the hidden layers
    # What hidden layers compute in; weights and outputs stay float32. auto: bfloat16 for pictures on devices
    # that multiply it faster (TPU, GPU since Ampere, processor with AMX), else float32.
    precision: Literal["auto", "float32", "bfloat16"] = "float32"
    # How initial weights are drawn.
    init: Literal["orthogonal", "glorot_uniform", "lecun_uniform", "he_uniform", "torch"] = "orthogonal"


class HParams(Checked):
    """What every algorithm has. Periods and lengths count environment steps unless they say otherwise; where
    nothing is played (memory=dataset), gradient updates."""

    algo: str = ""  # the algorithm, one of `--list algos`
    env: str = ""  # environment id
    # Folder of a data set: memory=dataset learns from it alone (an empty env: its own), others mix it in.
    data: str = ""
    demonstrated: ClassVar[bool] = False  # whether an algorithm needs data beside what it plays
    taught: ClassVar[bool] = False  # whether an algorithm asks a trained run, which its hparam `expert` names
    searches: ClassVar[bool] = False  # whether an algorithm searches, for which its environment is in-graph
    masks: ClassVar[bool] = True  # whether an algorithm can be told which actions are legal
    adapts: ClassVar[bool] = False  # whether an algorithm adapts to tasks, for which its environment is too
    anneals: ClassVar[tuple[str, ...]] = ()  # which hparams `anneal` may name
    view: ClassVar[str] = "rows"  # how it sees environments of many agents, one of `rl.envs.agents.VIEWS`
    data_chunk: Count = 0  # memory=dataset: steps of the data that are held at a time; 0: all of them
    data_share: Fraction = 0.5  # with data and a memory of what is played: the data's part of each batch
    # memory=dataset: rewards are scaled so that the returns of its episodes span this; None: as they are.
    return_span: PositiveFloat | None = None
    estimate: bool = False  # memory=dataset: evaluations log what the data say of the return, too
    policies: str = ""  # networks of agents: empty, one; independent, one each; or 'adversary_*:a,agent_*:b'
    # Whose environments train: graph (compiled with the learning), envpool or gym (Gymnasium); auto: the
    # first of these that fits. Evaluation does not ask it: it takes Gymnasium's where there are some.
    env_backend: Literal["auto", "graph", "envpool", "gym"] = "auto"
    env_kwargs: dict[str, Any] = Field(default_factory=dict)  # its options, as gymnasium.make takes them
    # Gymnasium wrappers, `module:Class` each, in training and evaluation alike; the last one is outermost.
    env_wrappers: tuple[str, ...] = ()
    train_env_kwargs: dict[str, Any] = Field(default_factory=dict)  # further env_kwargs, in training only
    max_episode_steps: PositiveInt | None = None  # cuts episodes; None: the environment's own limit
    # A change of the reward, in training only: clip_sign, scale:FACTOR, mountain_car_default or
    # mountain_car_energy.
    reward_augmentation: str | None = None
    # Pictures in an observation, of host environments alone; None: 4 for Atari, else 1.
    frame_stack: PositiveInt | None = None
    previous_action_reward: bool = False  # the observation also tells the last action and its reward
    normalize_observation: bool = False  # standardised by the running mean and deviation
    normalize_reward: bool = False  # divides by the standard deviation of the discounted return
    # What is new is rewarded too, in training: what a model of the dynamics did not foresee (icm), or what a
    # random network says of an observation (rnd).
    curiosity: Literal["icm", "rnd"] | None = None
    curiosity_coef: Coefficient = (
        1.0  # by what these rewards are multiplied; rnd: in units of their deviation
    )
    curiosity_lr: PositiveFloat = 1e-3  # learning rate of the networks that find out what is new
    curiosity_features: PositiveInt = 64  # numbers that these networks make of an observation
    # Gradient steps on a rollout, each on a part of it; of a memory, each batch is one.
    curiosity_minibatches: PositiveInt = 4
    num_envs: PositiveInt = 8  # environments stepped side by side
    rollout_length: PositiveInt = 32  # steps of each environment between two learning phases
    train_steps: PositiveInt = 100_000  # steps of all environments together; memory=dataset: updates
    gamma: Fraction = 0.99  # discount per step
    # Folder or address of a trained run, with whose weights a new run begins; empty: with weights of its own.
    start_from: str = ""
    # Which of its checkpoints: the last one, or that of the best evaluation, which has the policy alone.
    start_which: Literal["last", "best"] = "last"

    model: ModelHParams = Field(default_factory=ModelHParams)
    league: LeagueHParams = Field(default_factory=LeagueHParams)
    # What is learned from: rollout (what was just played); replay: uniform, prioritized, hindsight (with
    # goals that were reached later) or sequence; dataset (files, nothing is played).
    memory: str = "rollout"
    # How actions of training are chosen: sample (from the policy), greedy, epsilon_greedy,
    # per_worker_epsilon, gaussian_noise or ou_noise (added to the policy's action), uniform_random.
    act_select: str = "sample"
    # How gradients are computed: backprop, accumulate (the same in `microbatches`, in less memory) or
    # evolution (from perturbed parameters).
    grad_comp: str = "backprop"
    microbatches: PositiveInt = 1  # grad_comp=accumulate: parts of a batch, computed one after another

    optimizer: Literal["adam", "adamw", "rmsprop", "sgd"] = "adam"  # what makes a step of the gradient
    lr: PositiveFloat = 3e-4  # learning rate, at the start
    # How lr falls over train_steps.
    lr_schedule: Literal["constant", "linear", "exponential", "polynomial", "cosine"] = "constant"
    lr_end: Coefficient = 0.0  # linear, polynomial, cosine: learning rate at the end of training
    lr_decay_rate: Annotated[float, Field(gt=0, le=1)] = 0.1  # exponential: last / first learning rate
    lr_power: PositiveFloat = 2.0  # polynomial: the power
    # adam, adamw: added to the root of the second moment; rmsprop: to that moment, under the root
    adam_epsilon: PositiveFloat = 1e-5
    # optimizer=adamw: every step takes lr * weight_decay of the weights of layers (kernels) off, of nothing
    # else. grad_comp=evolution with other optimizers: this times all parameters is added to the gradient.
    weight_decay: Coefficient = 0.0
    # Other hparams that change over train_steps, in a straight line, and what each of them is at the end:
    # {entropy_coef:0}. An algorithm's page lists those that may.
    anneal: dict[str, Coefficient] = Field(default_factory=dict)
    max_grad_norm: PositiveFloat | None = None  # global norm; None: no clipping

    # Updates of NaN or infinity are left out; after so many in a row the run goes back to a checkpoint.
    nan_patience: PositiveInt = 10
    # Going back multiplies all learning rates by this.
    nan_lr_factor: Annotated[float, Field(gt=0, le=1)] = 0.5
    nan_max_rollbacks: Count = 3  # times that a run goes back; then it ends with exit code 3

    # Host environments that raise, return NaN, or take longer than so many seconds for a step are made anew.
    env_timeout: PositiveFloat = 600.0
    env_restarts: Count = 10  # times that a process does so; then the run ends with exit code 3

    # `xla`: one compiled program; `auto`: that where it is faster, else graphs of TensorFlow's kernels.
    compile: Literal["auto", "xla", "graph", "eager"] = "auto"
    # compile=eager: ends with a traceback at the line of a loss that gives the first NaN or infinity.
    check_numerics: bool = False
    act_backend: Literal["auto", "litert", "compiled"] = "auto"  # how host environments' actions are computed
    overlap: bool = False  # host environments step while the learner works

    # With workers (--num_workers).

    # Each worker plays a part of `num_envs` environments, and all wait for one another; false: each steps its
    # own `num_envs`.
    sync_workers: bool = False
    max_staleness: Count | None = None  # a rollout whose weights are more updates old is not used; None: any
    # Seconds without a rollout after which a worker is replaced, and without an answer a buffer.
    worker_timeout: PositiveFloat = 120.0
    compress_rollouts: bool = False  # pictures, by LZ4, on their way from workers: for slow networks
    num_learners: PositiveInt = 1  # processes that average their gradients, each with a part of the workers
    buffer_shards: Count = 0  # processes that hold the replay memory; 0: the learner holds it
    save_buffers: bool = True  # checkpoints include what these processes hold

    # Seconds without any progress after which the run ends with exit code 75, to go on from a checkpoint.
    # More than what takes longest: compiling, a step of the environment. None: it is only told; with workers
    # half an hour, or three times worker_timeout.
    hang_timeout: PositiveFloat | None = None

    log_period: PositiveInt = 5_000  # environment steps between rows of metrics
    eval_period: Count = 0  # environment steps between evaluations; 0: only at the end
    stop_at_return: float | None = None  # training ends with an evaluation whose mean return is no less
    # Actions of evaluations, tests and films: the policy's best, or drawn as in training.
    eval_policy: Literal["greedy", "sample"] = "greedy"
    # What else a row shows of evaluations and training episodes, as means: these numbers in the info of an
    # episode's last step, of Gymnasium's environments. Whether it succeeded (is_success) is always shown.
    info_keys: tuple[str, ...] = ()
    video_period: Count = 0  # with --record_video: environment steps between films; 0: one at each evaluation
    checkpoint_period: Coefficient = 60.0  # seconds between checkpoints; 0: one after every row of metrics
    keep_checkpoints: PositiveInt = 3  # how many of the newest are kept
    histograms: str = ""  # regular expression: variables that get TensorBoard histograms; empty: none

    @classmethod
    def of(cls, *layers: Mapping[str, Any], **values: Any) -> Self:
        """Returns fresh hparams with what each layer and then the keywords say, the later wins.

        A part of `model` is given as `model=dict(hidden=(64, 64))`; the rest of it stays as it was.

        Raises:
            UsageError: unknown name, wrong type, value out of range.
        """
        hparams = cls()
        for layer in (*layers, values):
            hparams.assign(layer)
        return hparams

    @field_validator("env_wrappers")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r"[\w.]+:\w+", name):
                raise ValueError(
                    f"needs module:Wrapper, such as gymnasium.wrappers:FlattenObservation, not {name!r}"
                )
        return value

    @field_validator("info_keys")
    @classmethod
    def _new_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r"[^,\"\s]([^,\"\r\n]*[^,\"\s])?", name):
                raise ValueError(f"needs names of metrics, without commas and quotes, not {name!r}")
            if name in ("count", "success_rate") or name.startswith(("return_", "length_")):
                raise ValueError(f"{name} is what another metric is called: give it another name in the info")
        return value

    @field_validator("histograms")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"needs a regular expression ({error})") from error
        return value

    @property
    def memory_name(self) -> str:
        """Returns the name in the registry memory; an algorithm's switches may choose another one."""
        return self.memory

    @property
    def act_select_name(self) -> str:
        """Returns the name in the registry act_select; an algorithm's switches may choose another than
        `act_select`."""
        return self.act_select

    @property
    def offline(self) -> bool:
        """Returns whether all there is to learn from are `data`, and nothing is played."""
        return self.memory_name == "dataset"

    def check(self) -> None:
        """Raises UsageError unless an algorithm and an environment are named and the rest fits together."""
        if not self.algo:
            raise UsageError("the hparams name no algorithm: add a set of one, such as --hparams default-dqn")
        if self.offline and not self.env and not self.data:
            raise UsageError(
                f"{self.algo} learns from data, and the hparams name none: give --hparam_override data=DIR"
            )
        if not self.env and not self.offline:
            raise UsageError("the hparams name no environment: give --env ID, or a set such as dqn_cartpole")
        if self.data and self.memory_name == "rollout" and not self.demonstrated:
            raise UsageError(f"hparam data={self.data}: {self.algo} learns from what it plays itself, alone")
        if self.estimate and not self.offline:
            raise UsageError("hparam estimate=true: estimates are from data, take memory=dataset")
        for name, value in (*self.env_kwargs.items(), *self.train_env_kwargs.items()):
            if not in_files(value):
                raise UsageError(
                    f"option {name}={value!r} of the environment: a run's files hold text, finite numbers, "
                    "lists and mappings alone; give env= a function that makes it so"
                )
        self.league.check_played(self.env_kwargs, self.train_env_kwargs)
        if self.lr_end > self.lr:
            raise UsageError(f"hparam lr_end={self.lr_end:g} is above lr={self.lr:g}: schedules only go down")
        self._check_anneal()
        if self.microbatches > 1 and self.grad_comp == "backprop":
            raise UsageError(
                f"hparam microbatches={self.microbatches}: grad_comp backprop takes a batch whole, take "
                "grad_comp=accumulate"
            )
        if self.check_numerics and self.compile != "eager":
            raise UsageError("hparam check_numerics=true looks line by line: take compile=eager with it")
        if self.weight_decay and self.optimizer != "adamw" and self.grad_comp != "evolution":
            raise UsageError(
                f"hparam weight_decay={self.weight_decay:g}: optimizer {self.optimizer} has none, take "
                "optimizer=adamw"
            )

    def _check_anneal(self) -> None:
        for name in self.anneal:
            if name not in self.anneals:
                words = nearest(name, self.anneals) if self.anneals else "none of its hparams can"
                raise UsageError(f"hparam anneal: {name!r} cannot change while {self.algo} trains: {words}")
            if getattr(self, name) is None:
                raise UsageError(f"hparam anneal: {name} is off, give the value with which it begins")

    def check_training(self) -> None:
        """Raises UsageError where training would do without what is asked for, or mix what does not go
        together; runs that were trained so are read all the same."""

    def to_dict(self) -> dict[str, Any]:
        """Returns a nested dict of plain JSON values; `from_dict` is its inverse."""
        kind = type(self)
        return {"hparams_class": f"{kind.__module__}:{kind.__qualname__}", **self.model_dump(mode="json")}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> HParams:
        """Returns the hparams that `to_dict` wrote, not frozen.

        Their class is one of this package, or of a module that has been imported: a file imports none.

        Raises:
            UsageError: they belong to a class or have names or values that this version does not know.
        """
        rest = dict(values)
        module, _, qualname = str(rest.pop("hparams_class", "")).partition(":")
        try:
            check_imported(module)
            kind = getattr(importlib.import_module(module), qualname)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(
                f"cannot find the hparams class {module}:{qualname} of a saved run: "
                "name its module with --user_modules, or import it, if you trust that run"
            ) from error
        if not (isinstance(kind, type) and issubclass(kind, HParams)):
            raise UsageError(
                f"{module}:{qualname}, of a saved run, is no hparams class: was the file edited?"
            )
        try:
            loaded = kind(**rest)
        except ValidationError as error:
            raise usage_error(error, kind) from error
        for name, field in kind.model_fields.items():  # a default was hardly given: files do not say
            if getattr(loaded, name) == field.get_default(call_default_factory=True):
                loaded.__pydantic_fields_set__.discard(name)
        return loaded


def refuse_contradiction(hparams: HParams, field: str, name: str, switch: str, value: bool) -> None:
    """Raises UsageError where `field` was given as `name`, and `switch` is `value`.

    A switch that is off and was not given contradicts nothing.
    """
    given = hparams.model_fields_set
    both = getattr(hparams, field) == name and getattr(hparams, switch) is value
    if both and field in given and (value or switch in given):
        said = f"{field}={name} and {switch}={str(value).lower()}"
        raise UsageError(f"hparams {said} contradict each other: change one of them")


def refuse_given(hparams: HParams, why: str, *names: str) -> None:
    """Raises UsageError where one of `names` is neither false nor None, against which `why` speaks."""
    for name in names:
        value = getattr(hparams, name)
        if value:
            text = str(value).lower() if isinstance(value, bool) else value
            raise UsageError(f"{name}={text}: {hparams.algo} {why}, leave it out")


def refuse_curiosity(hparams: HParams) -> None:
    """Raises UsageError where a policy would learn from predictions of intrinsic rewards that are past."""
    foreseen = "learns from rewards that its model predicts, which would be of what was new once"
    refuse_given(hparams, foreseen, "curiosity")


def check_imported(module: str) -> None:
    """Raises ImportError for a module that a saved run names, unless it is this package's or was imported
    before: a run may be a stranger's, and importing is running."""
    if module.partition(".")[0] != "rl" and module not in sys.modules:
        raise ImportError(f"{module} was not imported")
