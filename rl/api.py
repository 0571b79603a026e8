"""What `train.py` calls, and what a notebook calls: `train`, `load` and `run`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import get_algo
from rl.envs.make import check_window, make_eval_envs
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.hparams.merge import difference, resolve
from rl.hparams.overrides import apply_overrides, parse_overrides
from rl.runners.actor import Actor
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.player import Player
from rl.runners.trainer import Result, Trainer, best_return
from rl.systems.system import get_system
from rl.types import Nest
from rl.utils.checkpoint import CheckpointManager, read_manifest, read_single
from rl.utils.files import ensure_writable_dir
from rl.utils.progress import summary_table
from rl.utils.signals import StopRequest
from rl.utils.versions import command_line, write_run_files
from rl.utils.video import has_display, headless_setup
from rl.workers.plan import Workers

# May differ between a run and its continuation. Some still shape what is to come: schedules run to
# `train_steps`, rows and evaluations stand where the periods say, `compile` rounds differently.
FREE_TO_CHANGE = {
    "train_steps",
    "log_period",
    "eval_period",
    "video_period",
    "checkpoint_period",
    "keep_checkpoints",
    "histograms",
    "compile",
    "act_backend",
    "worker_timeout",
}
TEST_SEED = 1_000_003  # test episodes are not the ones that chose the best checkpoint


class Run:
    """A training run on disk.

    Attributes:
        run_dir: its folder.
        step: environment steps made.
        best_return: mean return of the best evaluation, None where there was none.
        result: details of the training just made.
    """

    def __init__(self, result: Result):
        self.result = result
        self.run_dir, self.step, self.best_return = result.run_dir, result.step, result.best_return

    def policy(self, which: str = "best") -> Policy:
        """The trained policy, `load(run_dir, which)`."""
        return load(self.run_dir, which)


class Policy:
    """A trained policy: called with an observation, or a batch of them, it returns actions, greedily.

    Observations and actions are those of the environment that it was trained for, pictures stacked where it
    was trained on stacks: the last `frame_stack` ones along the last axis, oldest first. A recurrent policy
    remembers what it was called with; `reset` begins a new episode.
    """

    def __init__(self, agent: Agent):
        self.agent = agent
        self._actors: dict[int, Actor] = {}
        env = make_eval_envs(agent.hparams.env, 1, agent.hparams.env_kwargs)
        self._encode = env.encode
        env.close()

    def __call__(self, observation: Nest, batched: bool = False) -> Nest:
        """The action for one observation, or `[N, ...]` actions for `[N, ...]` observations if `batched`.

        Raises:
            ValueError: the observation has not the shape of the environment's.
        """
        import tensorflow as tf

        batch = _batch(self.agent.observation_space, observation, batched)
        count = len(tf.nest.flatten(batch)[0])
        if count not in self._actors:
            self._actors[count] = Actor(self.agent, count, training=False, seed=0)
        actor = self._actors[count]
        actor.begin(0, 1)
        action = self._encode(actor(batch, 0, 0)[0])
        return action if batched else tf.nest.map_structure(lambda x: x[0], action)

    def reset(self) -> None:
        """Forgets what a recurrent policy remembers; does nothing for others."""
        for actor in self._actors.values():
            actor.forget()

    def evaluate(self, episodes: int = 10, seed: int = TEST_SEED) -> Evaluation:
        """Whole episodes on the Gymnasium environment it was trained for."""
        evaluator = Evaluator(self.agent, episodes)
        try:
            return evaluator.run(seed)
        finally:
            evaluator.close()


def _batch(space: spaces.Space, observation: Nest, batched: bool) -> Nest:
    """Arrays [N, ...] from an observation of `space`, or from a batch of them; lists will do as well."""
    if isinstance(space, spaces.Dict):
        return {key: _batch(each, observation[key], batched) for key, each in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, observation, strict=True)
        return tuple(_batch(each, part, batched) for each, part in pairs)
    array = np.asarray(observation, space.dtype)
    if array.shape[1 if batched else 0 :] != space.shape or array.ndim != len(space.shape) + batched:
        wanted = ("N", *space.shape) if batched else space.shape
        raise ValueError(f"an observation of shape {list(wanted)} is needed, not {list(array.shape)}")
    return array if batched else array[None]


def train(
    hparams: str | HParams,
    *,
    output_dir: str | Path | None = None,
    seed: int = 0,
    sys: str = "local",
    eval_episodes: int = 10,
    record_video: bool = False,
    num_workers: int = 0,
    ray_address: str | None = None,
    **overrides: Any,
) -> Run:
    """Trains a named set (or hparams of one's own) and returns the run; continues one that is there.

    Args:
        hparams: a name such as "ppo_cartpole", or an HParams object.
        output_dir: the run goes to `output_dir/run_0`; default `runs/NAME`.
        seed: of everything random.
        sys: local, gpu or tpu.
        eval_episodes: episodes of each evaluation.
        record_video: whether an episode is filmed at each evaluation (`video_period`).
        num_workers: processes that act while this one learns; 0: none.
        ray_address: Ray cluster that they are to run on; None: this machine.
        overrides: single hyperparameters; nested ones as `model={"hidden": (64, 64)}`.

    Raises:
        UsageError: anything that the command line would refuse.
    """
    if isinstance(hparams, str):
        name, resolved = hparams, resolve(hparams, overrides)
    else:
        name, resolved = type(hparams).__name__, type(hparams)(**hparams.model_dump())  # the caller's stays
        apply_overrides(resolved, overrides)
        resolved.freeze()
    if eval_episodes < 1 or seed < 0 or num_workers < 0:
        raise UsageError(
            f"eval_episodes={eval_episodes} must be at least 1, seed={seed} and num_workers={num_workers} "
            "at least 0"
        )
    workers = Workers(num_workers, ray_address) if num_workers else None
    _use_system(sys)
    if record_video:
        headless_setup()
    folder = Path(output_dir if output_dir is not None else Path("runs") / name) / "run_0"
    with StopRequest() as stop:
        words = f"rl.train({name!r})"
        return Run(
            _train_one(resolved, name, folder, seed, eval_episodes, record_video, stop, words, workers)
        )


def load(run_dir: str | Path, which: str = "best") -> Policy:
    """The policy of a run: its best evaluation's (`which="best"`) or its last checkpoint's (`"last"`).

    Raises:
        UsageError: there is no run, or its checkpoints are damaged.
    """
    run_dir = Path(run_dir)
    if not (run_dir / "hparams.json").exists() and (run_dir / "run_0" / "hparams.json").exists():
        run_dir = run_dir / "run_0"
    agent = _saved_agent(run_dir)
    _read_weights(agent, run_dir, which)
    return Policy(agent)


def run(
    hparams: HParams,
    *,
    output_dir: str,
    sys: str,
    seed: int,
    copies: int,
    training: bool,
    render: bool,
    record_video: bool,
    eval_episodes: int,
    test_episodes: int,
    command: list[str],
    hparams_name: str,
    overrides: str,
    workers: Workers | None = None,
) -> int:
    """The command line's work: trains (or not) and tests each copy, prints a table; returns the exit code."""
    _use_system(sys)
    headless = headless_setup()
    if render and headless and not has_display():
        raise UsageError(
            "--render: there is no display here; --record_video writes the episodes as mp4 instead"
        )
    if render:
        check_window(hparams.env)
    rows = []
    folders = [Path(output_dir) / f"run_{copy}" for copy in range(copies)]
    for copy, run_dir in enumerate(folders):  # all of them before the first one costs time
        if training:
            _check_same_run(hparams, run_dir, seed + copy)
        else:
            _check_overrides(hparams, run_dir, overrides)
    with StopRequest() as stop:
        for copy, run_dir in enumerate(folders):
            result = None
            if training:
                words = command_line(command)
                each = seed + copy, eval_episodes, record_video
                result = _train_one(hparams, hparams_name, run_dir, *each, stop, words, workers)
            if not stop.requested:
                tests = _test(hparams, run_dir, test_episodes, render, record_video)
                rows.append(_summary(run_dir, result, tests, test_episodes))
            elif result is not None:
                rows.append(_summary(run_dir, result, {}, 0))
            if stop.requested:
                break
    if rows:
        summary_table(rows, title="")
    return stop.exit_code


def _use_system(name: str) -> None:
    """Sets the devices up. Raises UsageError where they are not there, or not built for yet."""
    if get_system(name).name == "tpu":
        raise UsageError("--sys tpu: a TPU is here, but training on it is not built yet: use --sys local")


def _check_overrides(hparams: HParams, run_dir: Path, overrides: str) -> None:
    """Raises UsageError where the run to be tested was trained with other values than are asked for."""
    saved = _read_saved(run_dir)
    there = {} if saved is None else _flatten(HParams.from_dict(saved["hparams"]).to_dict())
    here = _flatten(hparams.to_dict())
    for key in parse_overrides(overrides):
        if key in there and key not in FREE_TO_CHANGE and there[key] != here.get(key):
            raise UsageError(
                f"{run_dir} was trained with {key}={there[key]}, not {here.get(key)}: leave the override out"
            )


def _train_one(
    hparams: HParams,
    name: str,
    run_dir: Path,
    seed: int,
    eval_episodes: int,
    record_video: bool,
    stop: StopRequest,
    command: str,
    workers: Workers | None,
) -> Result:
    _check_same_run(hparams, run_dir, seed)
    trainer = Trainer(hparams, run_dir, seed, eval_episodes, record_video, workers)
    try:
        ensure_writable_dir(run_dir)
        saved = {
            "name": name,
            "seed": seed,
            "hparams": hparams.to_dict(),
            "difference_from_default": {
                key: list(pair) for key, pair in difference(hparams, HParams()).items()
            },
        }
        write_run_files(run_dir, saved, command)
        return trainer.train(stop, hparams.flat())
    finally:
        trainer.close()


def _check_same_run(hparams: HParams, run_dir: Path, seed: int) -> None:
    """Raises UsageError where `run_dir` holds a run that this one would not continue but spoil."""
    saved = _read_saved(run_dir)
    if saved is None or CheckpointManager(run_dir / "checkpoints").latest_step() is None:
        return
    there, here = HParams.from_dict(saved["hparams"]), hparams  # what is younger than the run has its default
    flat_there, flat_here = _flatten(there.to_dict()), _flatten(here.to_dict())
    keys = [key for key in {**flat_there, **flat_here} if key not in FREE_TO_CHANGE]
    changed = [key for key in keys if flat_there.get(key) != flat_here.get(key)]
    differences = [f"{key} is {flat_there.get(key)} there, {flat_here.get(key)} here" for key in changed[:3]]
    if saved["seed"] != seed:
        differences.insert(0, f"seed is {saved['seed']} there, {seed} here")
    if differences:
        raise UsageError(
            f"{run_dir} holds another run ({'; '.join(differences)}): choose another --output_dir, "
            "or repeat that run's own settings to continue it"
        )


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and key not in ("env_kwargs", "train_env_kwargs"):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _read_saved(run_dir: Path) -> dict[str, Any] | None:
    path = run_dir / "hparams.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise UsageError(f"cannot read {path} ({error.strerror}): choose another --output_dir") from error
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read {path} ({error}): was it edited? choose another --output_dir"
        ) from error


def _saved_agent(run_dir: Path, asked: HParams | None = None) -> Agent:
    """The agent as it was trained in `run_dir`, weights not read yet."""
    saved = _read_saved(run_dir)
    if saved is None:
        raise UsageError(
            f"there is no trained agent in {run_dir}: train one there first, or name another folder"
        )
    hparams = HParams.from_dict(saved["hparams"]).freeze()
    if asked is not None and (asked.algo, asked.env) != (hparams.algo, hparams.env):
        raise UsageError(
            f"{run_dir} holds {hparams.algo} on {hparams.env}, not {asked.algo} on {asked.env}: "
            f"ask for --hparams {saved['name']}, or choose another --output_dir"
        )
    env = make_eval_envs(
        hparams.env, 1, hparams.env_kwargs, None, hparams.previous_action_reward, hparams.frame_stack
    )
    views = env.observation_space, env.action_space
    env.close()
    agent: Agent = get_algo(hparams.algo)(hparams, *views, saved["seed"])
    return agent


def _read_weights(agent: Agent, run_dir: Path, which: str) -> int:
    """Reads the policy; returns the step that it is of."""
    if which not in ("best", "last"):
        raise UsageError(f"which={which!r}: a run keeps its 'best' and its 'last' policy")
    if which == "best" and best_return(run_dir) is not None:
        best = run_dir / "checkpoints" / "best"
        read_single(best, agent.policy_variables)
        return read_manifest(best).step
    manager = CheckpointManager(run_dir / "checkpoints")
    if manager.restore(agent.policy_variables, partial=True) is None:
        raise UsageError(f"there is no checkpoint in {run_dir}: train first, or name another --output_dir")
    return manager.restored_step or 0


def _test(
    hparams: HParams, run_dir: Path, episodes: int, render: bool, record_video: bool
) -> dict[str, Evaluation]:
    """Test episodes of the best and of the last policy; the best one's may be shown or filmed."""
    agent = _saved_agent(run_dir, hparams)
    tests: dict[str, Evaluation] = {}
    evaluator = Evaluator(agent, episodes)
    try:
        for which in ("last", "best"):  # the best one stays in the agent
            step = _read_weights(agent, run_dir, which)
            tests[which] = evaluator.run(TEST_SEED)
    finally:
        evaluator.close()
    if record_video:
        with contextlib.closing(Player(agent, "rgb_array")) as player:
            for episode in range(episodes):
                label = f"best_step_{step:09d}_episode_{episode}"
                player.film(TEST_SEED + episode, run_dir / "videos", label)
    if render:
        with contextlib.closing(Player(agent, "human")) as player:
            for episode in range(episodes):
                player.play(TEST_SEED + episode)
    return tests


def _summary(
    run_dir: Path, result: Result | None, tests: dict[str, Evaluation], episodes: int
) -> dict[str, Any]:
    row: dict[str, Any] = {"run": str(run_dir)}
    for which, title in (("best", "best checkpoint"), ("last", "last checkpoint")):
        if which in tests:
            returns = tests[which].returns
            row[f"return, {title}"] = f"{returns.mean():.1f} +- {returns.std():.1f} ({episodes} episodes)"
    if result is not None:
        row["steps"] = result.step
        row["time"] = f"{result.seconds:.1f} s"
        if result.steps_per_second:
            row["steps/s"] = round(result.steps_per_second)
    row["tensorboard"] = f"tensorboard --logdir {run_dir.parent}"
    return row
