"""Environments by id: `make_env` for training, `make_gym_env` and `make_eval_envs` for evaluation.

An id is Gymnasium's ("CartPole-v1"), or one that EnvPool alone has ("Pong-v5", "coinrun"). Three backends may
have it: `graph` (in-graph, compiled together with the agent), `envpool` (C++ threads) and `gym` (Gymnasium).
Importing this module imports none of them.

An environment of Gymnasium that says in its `info["action_mask"]` which actions are legal says it in its
observations here (`rl/envs/wrappers.py:ActionMask`).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.envs.registry import get_env, registry
from rl.errors import UsageError, nearest

if TYPE_CHECKING:
    import gymnasium

    from rl.envs.graph.base import GraphEnv
    from rl.envs.host import HostEnv
    from rl.hparams.hparams import HParams

BACKENDS = ("graph", "envpool", "gym")  # in the order in which `auto` asks them
HOST_BACKENDS = BACKENDS[1:]
VECTOR_FROM = 8  # environments from which Gymnasium's own vector form of CartPole beats a loop


def chosen_backend(env_id: str, backend: str) -> str:
    """Which of `BACKENDS` makes an environment to train in. Arguments and errors as of `make_env`."""
    if backend not in ("auto", "host", *BACKENDS):
        raise UsageError(f"unknown env_backend {backend!r}: {nearest(backend, ('auto', *BACKENDS))}")
    # A backend that is not asked is not imported.
    asked = {"auto": BACKENDS, "host": HOST_BACKENDS}.get(backend, (backend,))
    chosen = next((each for each in asked if _HAS[each](env_id)), None)
    if chosen is None:
        having = [each for each in BACKENDS if each not in asked and _HAS[each](env_id)]
        if not having:
            raise _unknown(env_id)
        others = " or ".join(["auto", *having])
        if backend == "host":
            raise UsageError(
                f"environment {env_id} exists in-graph alone: workers (--num_workers) cannot play it"
            )
        raise UsageError(f"environment {env_id} is not in backend {backend}: take env_backend {others}")
    return chosen


def make_env(
    env_id: str,
    backend: str,
    num_envs: int,
    env_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    previous_action_reward: bool = False,
    frame_stack: int | None = None,
) -> GraphEnv | HostEnv:
    """The environment to train in.

    Args:
        env_id: Gymnasium or EnvPool id; "module:id" imports the module first.
        backend: `graph`, `envpool`, `gym`, or `auto`: the first of these three that has the id (not `envpool`
            where Gymnasium's environment masks actions: EnvPool's do not say which are legal). `host`: the
            same without `graph`.
        num_envs: B, at least 1.
        env_kwargs: options of that environment.
        max_episode_steps: steps after which an episode is truncated; None takes the environment's own limit.
        previous_action_reward: whether observations tell the action and the reward before them
            (`rl/envs/wrappers.py`).
        frame_stack: pictures that an observation is made of (`rl/envs/frames.py`); None: 4 for Atari, else 1.

    Raises:
        UsageError: unknown id or backend, a backend that lacks the id, options that the environment does not
            take, a package that is missing.
    """
    for what, value in (("num_envs", num_envs), ("max_episode_steps", max_episode_steps)):
        if value is not None and value < 1:
            raise UsageError(f"{what} must be at least 1, not {value}")
    chosen = chosen_backend(env_id, backend)
    kwargs = dict(env_kwargs or {})
    if (
        backend in ("auto", "host")
        and chosen == "envpool"
        and _gym_has(env_id)
        and _gym_masks(env_id, kwargs)
    ):
        chosen = "gym"
    env = _MAKE[chosen](env_id, num_envs, kwargs, max_episode_steps)
    env = _stacked(env, chosen, env_id, kwargs, frame_stack)
    return _telling(env, chosen) if previous_action_reward else env


def make_gym_env(
    env_id: str,
    env_kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
    max_episode_steps: int | None = None,
    previous_action_reward: bool = False,
) -> gymnasium.Env:
    """The Gymnasium environment of that id, for evaluation and videos.

    With the defaults it is unmodified, but for an action mask in its info, which its observations show.

    Raises:
        UsageError: Gymnasium has no such id, the options are not its own, or a package is missing.
    """
    import gymnasium

    if not _gym_has(env_id):
        if _envpool_has(env_id):
            raise UsageError(
                f"environment {env_id} is EnvPool's alone: Gymnasium has none to evaluate or render"
            )
        raise _unknown(env_id)
    from rl.envs.wrappers import ActionMask, PreviousActionReward

    env: gymnasium.Env
    kwargs = dict(env_kwargs or {})
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    if max_episode_steps is not None:
        kwargs["max_episode_steps"] = max_episode_steps
    if _pictures_of_ale(env_id, dict(env_kwargs or {})) and render_mode is not None:
        from rl.envs.ale_host import drawn

        name, options = env_id.rpartition(":")[2], dict(env_kwargs or {})
        env = _call_gym(env_id, lambda: drawn(name, options, render_mode, max_episode_steps))
    elif render_mode is not None and _draws_by_opengl(env_id):
        from rl.envs.apart import ApartEnv

        env = _call_gym(env_id, lambda: ApartEnv(env_id, kwargs))
    else:
        env = _call_gym(env_id, lambda: gymnasium.make(env_id, disable_env_checker=True, **kwargs))
    if render_mode == "rgb_array" and env_id.startswith("MinAtar/"):
        from rl.envs.graph_gym import DrawnChannels

        env = DrawnChannels(env)
    if _gym_masks(env_id, dict(env_kwargs or {})):
        env = ActionMask(env)
    return PreviousActionReward(env) if previous_action_reward else env


def make_eval_envs(
    env_id: str,
    num_envs: int,
    env_kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
    previous_action_reward: bool = False,
    frame_stack: int | None = None,
    max_episode_steps: int | None = None,
) -> HostEnv:
    """`num_envs` environments to evaluate in, as one host environment; `reset(seed)` seeds them.

    They are those of `make_gym_env`, or EnvPool's where Gymnasium has none of that id. An episode is
    truncated after `max_episode_steps`; None: at the environment's own limit, at `step_limit` without one.

    Raises:
        UsageError: as `make_gym_env`; options that would make episodes or scores other than the game's.
    """
    for option, instead in _TRAINING_ALONE.items():
        if (env_kwargs or {}).get(option):
            raise UsageError(f"option {option} is for training alone: give {instead} in place of env_kwargs")
    if _gym_has(env_id) and _pictures_of_ale(env_id, dict(env_kwargs or {})) and render_mode is None:
        from rl.envs.ale_host import ALEHost

        host: Any = ALEHost(env_id.rpartition(":")[2], num_envs, dict(env_kwargs or {}), max_episode_steps)
    elif _gym_has(env_id) or not _envpool_has(env_id):
        from rl.envs.gym_host import GymHost

        cut = _cut(env_id, env_kwargs or {}) if max_episode_steps is None else None
        limit = max_episode_steps if cut is None else cut
        envs = [make_gym_env(env_id, env_kwargs, render_mode, limit) for _ in range(num_envs)]
        host = GymHost(envs) if cut is None else GymHost(envs, cut)
    else:
        from rl.envs.envpool_host import EnvPoolHost

        host = EnvPoolHost(env_id, num_envs, dict(env_kwargs or {}), max_episode_steps, render_mode)
    host = _stacked(host, host.backend, env_id, dict(env_kwargs or {}), frame_stack)
    return _telling(host, host.backend) if previous_action_reward else host


def eval_envs_of(
    hparams: HParams,
    num_envs: int,
    env_kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
) -> HostEnv:
    """The environments of `make_eval_envs` for a run of these hparams.

    env_kwargs: options of the environment; None takes those of the hparams.

    Raises:
        UsageError: as `make_eval_envs`.
    """
    return make_eval_envs(
        hparams.env,
        num_envs,
        hparams.env_kwargs if env_kwargs is None else env_kwargs,
        render_mode,
        hparams.previous_action_reward,
        hparams.frame_stack,
        hparams.max_episode_steps,
    )


def check_window(env_id: str) -> None:
    """Raises UsageError where evaluation is on EnvPool, whose environments open no window."""
    if not _gym_has(env_id) and _envpool_has(env_id):
        raise UsageError(f"--render: {env_id} is EnvPool's, which opens no window: take --record_video")


def _stacked(env: Any, backend: str, env_id: str, env_kwargs: dict[str, Any], frames: int | None) -> Any:
    """The environment, whose observations are the last few pictures."""
    from rl.envs.envpool_tasks import usual_frame_stack

    usual = usual_frame_stack(env_id, env_kwargs) if backend == "envpool" else 1
    if _pictures_of_ale(env_id, env_kwargs):
        usual = 4
    frames = usual if frames is None else frames
    if frames == 1:
        return env
    if backend == "graph":
        raise UsageError(f"frame_stack={frames} is for host environments: take env_backend gym or envpool")
    from rl.envs.frames import FrameStackHost

    return FrameStackHost(env, frames)


def _telling(env: Any, backend: str) -> Any:
    """The environment, whose observations tell the action and the reward before them as well."""
    if backend == "graph":
        from rl.envs.graph.wrappers import PreviousActionReward

        return PreviousActionReward(env)
    from rl.envs.wrappers import PreviousActionRewardHost

    return PreviousActionRewardHost(env)


def _make_graph(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> GraphEnv:
    env_class = get_env(env_id)
    options = [each for each in inspect.signature(env_class).parameters if each not in _GRAPH_ARGUMENTS]
    for key in env_kwargs:
        if key not in options:
            hint = nearest(key, options) if options else "it takes none"
            raise UsageError(f"in-graph {env_id} has no option {key!r}: {hint} (or take env_backend gym)")
    return env_class(num_envs, max_episode_steps, **env_kwargs)


def _make_envpool(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> HostEnv:
    from rl.envs.envpool_host import EnvPoolHost

    return EnvPoolHost(env_id, num_envs, env_kwargs, max_episode_steps)


def _make_gym(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> HostEnv:
    from rl.envs.gym_host import GymHost, GymVectorHost

    if _pictures_of_ale(env_id, env_kwargs):
        from rl.envs.ale_host import ALEHost

        return ALEHost(env_id.rpartition(":")[2], num_envs, env_kwargs, max_episode_steps)
    if num_envs >= VECTOR_FROM and not _gym_masks(env_id, env_kwargs):
        env = _gym_vector(env_id, num_envs, env_kwargs, max_episode_steps)
        if env is not None:
            return GymVectorHost(env)
    return GymHost([make_gym_env(env_id, env_kwargs, None, max_episode_steps) for _ in range(num_envs)])


def _cut(env_id: str, env_kwargs: Mapping[str, Any]) -> int | None:
    """Steps after which evaluation cuts an episode of Gymnasium's environment; None where it has a limit."""
    from rl.envs.gym_host import UNLIMITED

    if not _gym_has(env_id) or _pictures_of_ale(env_id, dict(env_kwargs)):  # unknown; ale-py has its own
        return None
    limit = env_kwargs.get("max_episode_steps", _gym_spec(env_id).max_episode_steps)
    return UNLIMITED if limit in (None, -1) else None  # -1: Gymnasium's word for none


def _gym_vector(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> gymnasium.vector.VectorEnv | None:
    """Gymnasium's own vector form of an environment, if it has one of our autoreset and Box observations."""
    import gymnasium

    if _gym_spec(env_id).vector_entry_point is None:
        return None
    kwargs = dict(env_kwargs)
    if max_episode_steps is not None:
        kwargs["max_episode_steps"] = max_episode_steps
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    env = _call_gym(env_id, lambda: gymnasium.make_vec(env_id, num_envs, vectorization_mode=mode, **kwargs))
    resets_next = env.metadata.get("autoreset_mode") == gymnasium.vector.AutoresetMode.NEXT_STEP
    if resets_next and isinstance(env.single_observation_space, gymnasium.spaces.Box):
        return env
    env.close()
    return None


def _gym_masks(env_id: str, env_kwargs: dict[str, Any]) -> bool:
    """Whether Gymnasium's environment says in its info which actions are legal; asked of each id once."""
    import gymnasium

    from rl.envs.wrappers import masks_in_info

    spec, key = _gym_spec(env_id), (env_id, repr(env_kwargs))
    if key not in _MASKS or _MASKS[key][0] is not spec:  # an id may be registered anew
        try:
            env = _call_gym(env_id, lambda: gymnasium.make(env_id, disable_env_checker=True, **env_kwargs))
        except UsageError:  # it is for whoever makes the environment to say so
            return False
        _MASKS[key] = (spec, masks_in_info(env))
        env.close()
    return _MASKS[key][1]


def _pictures_of_ale(env_id: str, env_kwargs: dict[str, Any]) -> bool:
    """Whether it is an Atari game to be seen as agents customarily do (not raw, in `obs_type`)."""
    return env_id.rpartition(":")[2].startswith("ALE/") and "obs_type" not in env_kwargs


def _draws_by_opengl(env_id: str) -> bool:
    return str(_gym_spec(env_id).entry_point).startswith("gymnasium.envs.mujoco")


def _gym_spec(env_id: str) -> Any:
    import gymnasium

    return gymnasium.spec(env_id.rpartition(":")[2])  # the module before the colon was imported by `_gym_has`


def _call_gym(env_id: str, call: Callable[[], Any]) -> Any:
    """What `call` returns; what Gymnasium and its environments raise on bad input becomes one clear line."""
    import gymnasium

    try:
        return call()
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        extra = next((each for each in _EXTRAS if each in str(error).lower()), None)
        if extra is not None:
            raise _missing_extra(env_id, extra) from error
        raise UsageError(f"environment {env_id} needs a package that is missing: {_line(error)}") from error
    except (gymnasium.error.Error, TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"Gymnasium cannot make {env_id}: {_line(error)}") from error


def _graph_has(env_id: str) -> bool:
    return env_id in registry


def _envpool_has(env_id: str) -> bool:
    from rl.envs.envpool_tasks import has_task

    return has_task(env_id)


def _gym_has(env_id: str) -> bool:
    module, colon, name = env_id.rpartition(":")
    if colon:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(f"environment {env_id}: cannot import {module}: {_line(error)}") from error
    elif name.startswith("ALE/"):  # registers its ids when it is imported, not by itself
        if importlib.util.find_spec("ale_py") is None:
            raise _missing_extra(env_id, "atari")
        importlib.import_module("ale_py")
    elif name.startswith("MinAtar/"):  # the same of the original games; without them there are our own
        from rl.envs.minatar_gym import register_minatar

        register_minatar()
    import gymnasium

    # Our own files of Gymnasium environments bring TensorFlow, which a worker can often do without.
    return name in gymnasium.registry or name in _gym_ids()


def _gym_ids() -> list[str]:
    """Gymnasium's ids, with those of this package's `*_gym.py` files."""
    import gymnasium

    for path in sorted(Path(__file__).parent.glob("*_gym.py")):
        importlib.import_module(f"rl.envs.{path.stem}")
    return list(gymnasium.registry)


def _unknown(env_id: str) -> UsageError:
    from rl.envs.envpool_tasks import task_ids

    known = {*registry.names(), *_gym_ids(), *task_ids()}
    return UsageError(
        f"unknown environment {env_id!r}: {nearest(env_id, known)} (in-graph ones: --list envs)"
    )


def _missing_extra(env_id: str, extra: str) -> UsageError:
    return UsageError(
        f"environment {env_id} needs the extra {extra!r}: pip install '.[{extra}]' (repository root)"
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


_MASKS: dict[tuple[str, str], tuple[Any, bool]] = {}
_TRAINING_ALONE = {
    "episodic_life": "train_env_kwargs={episodic_life:true}",
    "reward_clip": "reward_augmentation=clip_sign",
}
_GRAPH_ARGUMENTS = ("num_envs", "max_episode_steps")
_EXTRAS = ("mujoco", "box2d")  # the package's extras that bring Gymnasium environments
_HAS: dict[str, Callable[[str], bool]] = {"graph": _graph_has, "envpool": _envpool_has, "gym": _gym_has}
_MAKE: dict[str, Callable[..., Any]] = {"graph": _make_graph, "envpool": _make_envpool, "gym": _make_gym}
