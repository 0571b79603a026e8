"""What a notebook calls: `train` and `load`."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.envs.host import HostEnv, Purpose, action_encoder, purpose_seed
from rl.envs.make import eval_envs_of
from rl.envs.of_data import with_environment
from rl.envs.own import check_importable, give_env
from rl.errors import NotSent, UsageError
from rl.experiment import tell_hints, train_one
from rl.hparams.hparams import HParams
from rl.hparams.merge import resolve
from rl.report.callbacks import Callbacks
from rl.report.runs import RETURN, find_runs, run_columns
from rl.report.trackers import check_tracker
from rl.report.video import headless_setup
from rl.request import Request
from rl.runners.actor import Actor
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.recording import policy_recorder
from rl.runners.trainer import Result
from rl.saved_run import read_saved, read_weights, reading, saved_agent
from rl.signals import StopRequest
from rl.spaces import ACTION_MASK
from rl.storage.address import check_recorded, default_output
from rl.storage.storage import Storage, storages_of
from rl.systems import use_system
from rl.types import Nest
from rl.workers.plan import Workers

ACTORS = 4  # compiled policies that a `Policy` keeps, of the batch sizes it was last called with


class Run:
    """A training run on disk.

    Attributes:
        run_dir: its folder; of a remote one the address.
        step: environment steps made.
        best_return: mean return of the best evaluation, None where there was none.
        result: details of the training just made.
    """

    def __init__(self, result: Result, run_dir: Path | str):
        self.result = result
        self.run_dir, self.step, self.best_return = run_dir, result.step, result.best_return

    def policy(self, which: str = "best", eval_policy: str | None = None) -> Policy:
        """Returns the trained policy, `load(run_dir, which, eval_policy)`."""
        return load(self.run_dir, which, eval_policy)

    def metrics(self) -> Any:
        """Returns the rows of metrics that it has logged so far: a frame indexed by step where pandas is
        installed, else a dict of columns, name -> float array [rows]. NaN: a row does not have it.

        Raises:
            UsageError: it cannot be read.
        """
        with reading(self.run_dir) as storage:
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


class Policy:
    """A trained policy: called with an observation, or a batch of them, it returns actions, as its hparam
    `eval_policy` says: its best ones, or ones drawn from its distribution, the same in the same calls.

    Observations and actions are those of the environment that it was trained for, pictures stacked where it
    was trained on stacks: the last `frame_stack` ones along the last axis, oldest first. A recurrent policy
    remembers what it was called with; `reset` begins a new episode.
    """

    def __init__(self, agent: Agent[Any], origin: dict[str, Any] | None = None):
        self.agent = agent
        self.origin = {"name": None, "address": "", **(origin or {})}  # of `policy_recorder`
        self._actors: dict[int, Actor] = {}
        self._calls = 0  # each with random numbers of its own
        self.encode = action_encoder(agent.action_space)  # the agent's actions as the environment takes them
        if agent.hparams.env:
            env = eval_envs_of(agent.hparams, 1)
            self.encode = env.encode
            env.close()

    def __call__(self, observation: Nest, batched: bool = False, action_mask: Any = None) -> Nest:
        """Returns the action for one observation, or `[N, ...]` actions for `[N, ...]` observations if
        `batched`.

        action_mask: [A], or [N, A]: 0 for discrete actions that are illegal, as the environment's
            `info["action_mask"]` says where its observations do not; None: all are legal.

        Raises:
            ValueError: the observation has not the parts or the shape of the environment's, or a mask is
                given to a policy that was trained without.
        """
        import tensorflow as tf

        batch = _masked_batch(self.agent.observation_space, observation, batched, action_mask)
        count = _count(batch)
        actor = self._actors.pop(count, None)
        if actor is None:
            sampled = self.agent.hparams.eval_policy == "sample"
            actor = Actor(self.agent, count, training=False, seed=0, sampled=sampled)
        self._actors[count] = actor  # the newest last
        if len(self._actors) > ACTORS:
            del self._actors[next(iter(self._actors))]
        actor.begin(self._calls, 1)
        self._calls += 1
        action = self.encode(actor(batch, 0, 0)[0])
        return action if batched else tf.nest.map_structure(lambda x: x[0], action)

    def environments(self, count: int) -> HostEnv | None:
        """Returns `count` environments as evaluation plays them; None for a policy that was trained without
        one."""
        return eval_envs_of(self.agent.hparams, count) if self.agent.hparams.env else None

    def reset(self) -> None:
        """Forgets what a recurrent policy remembers; does nothing for others."""
        for actor in self._actors.values():
            actor.forget()

    def evaluate(
        self, episodes: int = 10, seed: int = 0, record_data: str | Path | None = None
    ) -> Evaluation:
        """Plays whole episodes on the Gymnasium environment it was trained for.

        record_data: the folder of a data set to which they are added (`rl.data`).
        seed: which episodes: others for each seed, and none that training evaluated or tested.

        Raises:
            UsageError: it learned from data, and of no environment that could be played.
        """
        if not self.agent.hparams.env:
            raise UsageError("there is no environment to evaluate in: load it with env=")
        with contextlib.closing(Evaluator(self.agent, episodes)) as evaluator:
            if record_data is None:
                return evaluator.run(purpose_seed(Purpose.USER, seed))
            who = {**self.origin, "seed": seed}
            with policy_recorder(str(record_data), self.agent, **who) as recorder:
                recorder.begin()
                return evaluator.run(purpose_seed(Purpose.USER, seed), recorder=recorder)


def _count(batch: Nest) -> int:
    """Returns the N of arrays [N, ...]."""
    import tensorflow as tf

    return len(tf.nest.flatten(batch)[0])


def _masked_batch(space: spaces.Space, observation: Nest, batched: bool, mask: Any) -> Nest:
    """Makes what `_batch` does, with the mask among its parts where the environment says it in its info
    alone: so `rl.envs.wrappers.ActionMask` gave it to the agent in training."""
    of_mask = space.spaces.get(ACTION_MASK) if isinstance(space, spaces.Dict) else None
    told = isinstance(observation, Mapping) and ACTION_MASK in observation
    if of_mask is None or told:
        if mask is not None:
            raise ValueError("leave action_mask out: observations say it, or the policy was trained without")
        return _batch(space, observation, batched)
    parts = observation if isinstance(observation, Mapping) else {"observation": observation}
    own = spaces.Dict({name: each for name, each in space.spaces.items() if name != ACTION_MASK})
    batch = _batch(own, parts, batched)
    if mask is not None:
        return {**batch, ACTION_MASK: _batch(of_mask, mask, batched)}
    first = next(iter(batch.values()))
    return {**batch, ACTION_MASK: np.ones((_count(first), *of_mask.shape), of_mask.dtype)}


def _batch(space: spaces.Space, observation: Nest, batched: bool) -> Nest:
    """Makes arrays [N, ...] from an observation of `space`, or from a batch of them; lists will do as
    well."""
    if isinstance(space, spaces.Dict):
        given = list(observation) if isinstance(observation, Mapping) else []
        if missing := [name for name in space.spaces if name not in given]:
            raise ValueError(f"an observation is needed that has the parts {missing}, not only {given}")
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
    callbacks: Callbacks | None = None,
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
        track: wandb, mlflow or trackio, which are told what TensorBoard gets (`rl.report.trackers`).
        num_workers: processes that act while this one learns; 0: none.
        ray_address: Ray cluster that they are to run on; None: this machine.
        callbacks: is told of rows, evaluations and checkpoints, and may end the training.
        overrides: single hyperparameters; nested ones as `model={"hidden": (64, 64)}`.

    Raises:
        UsageError: anything that the command line would refuse.
        NotFinite: training came to NaN or infinity; the checkpoint before it is kept.
        EnvironmentFailed: environments failed more often than `env_restarts`; a checkpoint is kept.
        NotSent: the last state could not be sent to a remote output; it says where it is.
    """
    if env is not None:
        overrides = {"env": give_env(env), **overrides}
    name, resolved = _resolved(hparams, overrides)
    resolved = with_environment(resolved)
    if eval_episodes < 1 or seed < 0 or num_workers < 0:
        raise UsageError(
            f"eval_episodes={eval_episodes} must be at least 1, seed={seed} and num_workers={num_workers} "
            "at least 0"
        )
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
        seed=seed,
        record_video=record_video,
        record_data=None if record_data is None else str(record_data),
        track=track,
        eval_episodes=eval_episodes,
        command=f"rl.train({name!r})",
        callbacks=callbacks,
        workers=workers,
    )
    with StopRequest() as stop, storage.to_train():
        result = train_one(request, storage, stop)
    if storage.unsent:
        raise NotSent(storage.unsent)
    return Run(result, result.run_dir if type(storage) is Storage else storage.address)


def make_hparams(names: str, **overrides: Any) -> HParams:
    """Returns the hyperparameters of a named set (several as `a-b`) with overrides, to be looked at, changed
    and given to `train`.

    Raises:
        UsageError: an unknown name, or a value that it does not take.
    """
    return resolve(names, overrides).thawed()


def _resolved(hparams: str | HParams, overrides: dict[str, Any]) -> tuple[str, HParams]:
    """Returns a name for them, and the frozen hparams with the overrides; the caller's stay as they are."""
    if isinstance(hparams, str):
        return hparams, resolve(hparams, overrides)
    copy = hparams.thawed()
    copy.assign(overrides)
    return type(hparams).__name__, copy.freeze()


def _default_output(name: str, overrides: dict[str, Any], seed: int, num_workers: int) -> str:
    """Names the folder as the command line does. Raises UsageError for functions without a name, which would
    share one."""
    env = overrides.get("env")
    if "<" in str(env):
        raise UsageError(f"env={env}: name an output_dir, functions without a name share a default")
    rest = [f"{key}={value}" for key, value in overrides.items() if key not in ("env", "train_steps")]
    return default_output(name, env, ",".join(rest), seed, num_workers)


def _workers(hparams: HParams, number: int, address: str | None) -> Workers | None:
    """Makes what a run is told of its workers. Raises UsageError where they cannot import its environment."""
    if not number:
        return None
    check_importable(hparams.env)
    home = type(hparams).__module__  # which they import, where it is the caller's
    return Workers(number, address, () if home.partition(".")[0] == "rl" else (home,))


def load(
    run_dir: str | Path,
    which: str = "best",
    eval_policy: str | None = None,
    env: str | Callable[..., gymnasium.Env] | None = None,
) -> Policy:
    """Loads the policy of a run: its best evaluation's (`which="best"`) or its last checkpoint's (`"last"`).

    run_dir: its folder or address (`gs://...`); or the output folder that it is `run_0` of.
    eval_policy: "greedy" for the policy's best actions, "sample" for ones drawn from its distribution; None:
        as the run was evaluated.
    env: the function that makes the run's environments, where it was trained on one (a class of an imported
        module is found by its name), or an id.

    Raises:
        UsageError: there is no run, its checkpoints are damaged, or it has no distribution to draw from.
    """
    with reading(run_dir) as storage:
        named = None if env is None else give_env(env)
        agent = saved_agent(storage.folder, eval_policy=eval_policy, env=named)
        step = read_weights(agent, storage.folder, which)
        name = (read_saved(storage.folder) or {}).get("name")
    return Policy(agent, {"name": name, "address": storage.address, "which": which, "step": step})
