"""What a notebook calls: `train` and `load`."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from rl.envs.hints import tell_hints
from rl.envs.of_data import with_environment
from rl.envs.own import MakeEnv, check_importable, give_env, given_function, nameless
from rl.errors import NotSent, UsageError, in_python
from rl.experiment import check_unplayed, train_one
from rl.hparams.checked import UnknownHParam
from rl.hparams.hparams import HParams
from rl.hparams.merge import resolve
from rl.policy import Policy, check_integers
from rl.report.callbacks import Callbacks, Calls, several
from rl.report.runs import RETURN, find_runs, run_columns
from rl.report.trackers import check_tracker
from rl.report.video import headless_setup
from rl.request import Request
from rl.runners.trainer import Result
from rl.saved_run import read_saved, read_weights, reading, saved_agent
from rl.signals import StopRequest
from rl.storage.address import check_recorded, default_output
from rl.storage.storage import Storage, storages_of
from rl.systems import use_system
from rl.workers.imported import callers_modules, registering_modules
from rl.workers.plan import Workers

PLAYED = "call policy.evaluate(episodes=N) of the run's policy()"
FLAGS = {  # of train.py, which are no arguments of `train`: what to do instead
    **dict.fromkeys(("copies", "copy", "parallel"), "call rl.train once for each seed"),
    **dict.fromkeys(("test_episodes", "test_only", "training"), PLAYED),
    "hparam_override": "give each hparam by its name, as lr=3e-4",
    "user_modules": "import them before",
}


class Run:
    """A training run on disk.

    Attributes:
        run_dir: its folder, whatever folder the program changes to; of a remote one the address.
        step: environment steps made.
        best_return: mean return of the best evaluation, None where there was none.
        result: details of the training just made.
    """

    def __init__(self, result: Result, run_dir: Path | str, env: MakeEnv | None = None):
        self._env = env  # the function that made its environments, where it was given
        self.result, self.step, self.best_return = result, result.step, result.best_return
        self.run_dir = run_dir.absolute() if isinstance(run_dir, Path) else run_dir

    def policy(self, which: str = "best", eval_policy: str | None = None) -> Policy:
        """Returns the trained policy, `load(run_dir, which, eval_policy, env)`, of the environment that it
        was trained on."""
        return load(self.run_dir, which, eval_policy, self._env)

    def metrics(self) -> Any:
        """Returns the rows of metrics that it has logged so far: a frame indexed by step where pandas is
        installed, else a dict of columns, name -> float array [rows]. NaN: a row does not have it.

        Raises:
            UsageError: it is not there any more, or cannot be read.
        """
        with reading(self.run_dir) as storage:
            if read_saved(storage.folder) is None:
                raise UsageError(f"there is no run in {self.run_dir} any more: was it moved?")
            columns = run_columns(storage.folder)
        if importlib.util.find_spec("pandas") is None:
            return columns
        import pandas

        return pandas.DataFrame(columns).astype({"step": int}).set_index("step")

    def plot(self, metric: str = RETURN) -> Any:
        """Returns a matplotlib figure of a metric by steps and by wall time. (`python -m rl.plot` compares.)

        Raises:
            UsageError: matplotlib is not installed, or the run has not logged that metric.
        """
        from rl.plot.figures import check_matplotlib, figure_of
        from rl.plot.methods import methods_of

        check_matplotlib()
        with reading(self.run_dir) as storage:
            return figure_of(methods_of(find_runs(storage.folder), metric), metric)


@in_python()
def train(
    hparams: str | HParams,
    *,
    env: str | Callable[..., gymnasium.Env] | None = None,
    output_dir: str | Path | None = None,
    seed: int = 0,
    sys: str = "local",
    eval_episodes: int = 10,
    record_video: bool = False,
    record_data: str | Path | None = None,
    track: str | None = None,
    num_workers: int = 0,
    ray_address: str | None = None,
    callbacks: Callbacks | Sequence[Callbacks] | None = None,
    **overrides: Any,
) -> Run:
    """Trains a named set (or hparams of one's own) and returns the run; continues one that is there.

    Args:
        hparams: a name such as "ppo_cartpole", or an HParams object.
        env: environment in place of the set's own: an id, or a function (a class, too) that returns a
            Gymnasium environment; a new one in each call. `render_mode` and `env_kwargs` are given to it by
            name where they are needed. The run knows it as `module:qualname`.
        output_dir: the run goes to `output_dir/run_0`, or is `output_dir` itself where that is one; default
            `runs/NAME`, and in its name the overrides, the seed and the workers where they are given. May be
            an address (`gs://...`).
        seed: of everything random.
        sys: local, gpu or tpu.
        eval_episodes: episodes of each evaluation.
        record_video: whether an episode is filmed at each evaluation (`video_period`).
        record_data: folder of a data set to which the episodes of training are added (`rl.data`).
        track: wandb, mlflow or trackio, which are told the rows and hyperparameters (`rl.report.trackers`).
        num_workers: processes that act while this one learns; 0: none.
        ray_address: Ray cluster that they are to run on; None: this machine.
        callbacks: one object or several, which are told of rows, evaluations and checkpoints, and may add
            to the rows and end the training.
        overrides: single hyperparameters; nested ones as `model={"hidden": (64, 64)}`.

    Raises:
        UsageError: anything that the command line would refuse.
        NotFinite: training came to NaN or infinity; the checkpoint before it is kept.
        EnvironmentFailed: environments failed more often than `env_restarts`; a checkpoint is kept.
        NotSent: the last state could not be sent to a remote output; it says where it is.
        KeyboardInterrupt, SystemExit: SIGINT, or SIGTERM or SIGHUP, ended the training; a checkpoint is kept.
    """
    if env is not None:
        overrides = {"env": give_env(env), **overrides}
    name, resolved = _resolved(hparams, overrides)
    resolved = with_environment(resolved)
    check_integers(("eval_episodes", eval_episodes, 1), ("seed", seed, 0), ("num_workers", num_workers, 0))
    if ray_address is not None and not num_workers:
        raise UsageError(f"ray_address={ray_address}: give num_workers with it")
    calls = Calls(several(callbacks), Policy)
    if record_data is not None:
        check_recorded(str(record_data), num_workers)
    if track is not None:
        check_tracker(track)
    workers = _workers(resolved, num_workers, ray_address)
    use_system(sys)
    if record_video:
        headless_setup()
    if output_dir is None:
        output_dir = _default_output(name, overrides, seed, num_workers)
    (storage,) = storages_of(output_dir, [0]).values()
    storage.check_writable()
    if not storage.has("hparams.json"):
        tell_hints(resolved)
    request = Request(
        resolved,
        name,
        output_dir=str(output_dir),
        sys=sys,
        seed=int(seed),
        record_video=record_video,
        record_data=None if record_data is None else str(record_data),
        track=track,
        eval_episodes=int(eval_episodes),
        calls=calls,
        workers=workers,
        user_modules=tuple(each for each in registering_modules(resolved) if each != "__main__"),
    )
    request = dataclasses.replace(request, command=_call(request, overrides))
    if not resolved.env:
        check_unplayed(request, storage.folder)
    with StopRequest() as stop, storage.to_train():
        result = train_one(request, storage, stop)
    if storage.unsent:
        raise NotSent(storage.unsent)
    stop.raise_asked()
    place = result.run_dir if type(storage) is Storage else storage.address
    return Run(result, place, given_function(resolved.env))


@in_python()
def make_hparams(names: str, **overrides: Any) -> HParams:
    """Returns the hyperparameters of a named set (several as `a-b`) with overrides, to be looked at, changed
    and given to `train`.

    Raises:
        UsageError: an unknown name, or a value that it does not take.
    """
    return resolve(names, overrides).thawed()


def _resolved(hparams: str | HParams, overrides: dict[str, Any]) -> tuple[str, HParams]:
    """Returns a name for them, and the frozen hparams with the overrides; the caller's stay as they are."""
    if not isinstance(hparams, str | HParams):
        raise UsageError(f"hparams={hparams!r}: needs the name of a set, or what rl.make_hparams returns")
    try:
        if isinstance(hparams, str):
            return hparams, resolve(hparams, overrides)
        copy = hparams.thawed()
        copy.assign(overrides)
    except UnknownHParam as error:
        raise _meant(error) from error
    copy.check_training()
    return type(hparams).__name__, copy.freeze()


def _meant(error: UnknownHParam) -> UsageError:
    """Returns the error for a name that is no hyperparameter, but may stand for an argument of `train`."""
    if error.key in FLAGS:
        return UnknownHParam(error.key, f"that is a flag of train.py; from Python {FLAGS[error.key]}")
    parameters = inspect.signature(train).parameters.values()
    arguments = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    near = difflib.get_close_matches(error.key.lower(), arguments, n=1, cutoff=0.8)
    return UnknownHParam(error.key, f"did you mean {near[0]}?") if near else error


def _call(request: Request, overrides: dict[str, Any]) -> str:
    """Returns the call of `train` that made a request, as Python code, without arguments of default value."""
    workers = request.workers
    given = vars(request) | {
        "num_workers": workers.number if workers else 0,
        "ray_address": workers.address if workers else None,
    }
    parameters = inspect.signature(train).parameters.values()
    defaults = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    defaults = {name: value for name, value in defaults.items() if name in given}
    said = {name: given[name] for name, value in defaults.items() if given[name] != value} | overrides
    said = {name: os.fspath(each) if isinstance(each, os.PathLike) else each for name, each in said.items()}
    words = [f"{name}={value!r}" for name, value in said.items() if name.isidentifier()]
    dotted = {name: value for name, value in said.items() if not name.isidentifier()}
    return f"rl.train({', '.join([repr(request.name), *words, *([f'**{dotted!r}'] if dotted else [])])})"


def _default_output(name: str, overrides: dict[str, Any], seed: int, num_workers: int) -> str:
    """Names the folder as the command line does. Raises UsageError for functions without a name, which would
    share one."""
    env = overrides.get("env")
    if env is not None and nameless(env):
        raise UsageError(f"env={env}: name an output_dir, functions without a name share a default")
    rest = [f"{key}={value}" for key, value in overrides.items() if key not in ("env", "train_steps")]
    return default_output(name, env, ",".join(rest), seed, num_workers)


def _workers(hparams: HParams, number: int, address: str | None) -> Workers | None:
    """Makes what a run is told of its workers. Raises UsageError where they cannot import its environment, or
    what the caller has registered for it."""
    if not number:
        return None
    check_importable(hparams.env)
    modules = callers_modules(hparams)
    if "__main__" in modules:
        raise UsageError(
            "workers cannot import what this program itself registers for the run: move it to a module of "
            "its own, and import that"
        )
    return Workers(number, address, modules)


@in_python()
def load(
    run_dir: str | Path,
    which: str = "best",
    eval_policy: str | None = None,
    env: str | Callable[..., gymnasium.Env] | None = None,
    precision: str | None = None,
) -> Policy:
    """Loads the policy of a run: its best evaluation's (`which="best"`) or its last checkpoint's (`"last"`).

    run_dir: its folder or address (`gs://...`); or the output folder that it is `run_0` of.
    eval_policy: "greedy" for the policy's best actions, "sample" for ones drawn from its distribution; None:
        as the run was evaluated.
    env: the function that makes the run's environments, where it was trained on one (a class of an imported
        module is found by its name), or an id.
    precision: "float32" or "bfloat16", what hidden layers compute in; None: as the run's `model.precision`
        says.

    Raises:
        UsageError: there is no run, its checkpoints are damaged, or it has no distribution to draw from.
    """
    if not isinstance(run_dir, str | os.PathLike):
        raise UsageError(f"load: {run_dir!r} is no run: give its folder or address")
    with reading(str(run_dir)) as storage:
        named = None if env is None else give_env(env)
        agent = saved_agent(storage.folder, eval_policy=eval_policy, env=named, precision=precision)
        step = read_weights(agent, storage.folder, which)
        name = (read_saved(storage.folder) or {}).get("name")
    return Policy(agent, {"name": name, "address": storage.address, "which": which, "step": step})
