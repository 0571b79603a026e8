"""Environments by id: `make_env` for training, `make_gym_env` and `make_eval_envs` for evaluation.

An id is Gymnasium's ("CartPole-v1"), or one that EnvPool alone has ("Pong-v5", "coinrun"). Three backends may
have it: `graph` (in-graph, compiled together with the agent), `envpool` (C++ threads) and `gym` (Gymnasium).
"pettingzoo:..." is PettingZoo's (`rl/envs/pettingzoo_envs.py`). Importing this module imports none of them.

An environment of Gymnasium that says in its `info["action_mask"]` which actions are legal says it in its
observations here (`rl/envs/wrappers.py:ActionMask`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rl.envs.gym_ids import (
    call_gym,
    cut_after,
    draws_by_opengl,
    gym_has,
    gym_look,
    gym_make,
    gym_masks,
    gym_vector,
    is_callers_own,
    is_graph_form,
    pictures_of_ale,
    unknown,
)
from rl.envs.registry import PETTINGZOO, registry
from rl.errors import UsageError, nearest

if TYPE_CHECKING:
    import gymnasium

    from rl.envs.graph.base import GraphEnv
    from rl.envs.host import HostEnv
    from rl.hparams.hparams import HParams

BACKENDS = ("graph", "envpool", "gym")  # in the order in which `auto` asks them
HOST_BACKENDS = BACKENDS[1:]
VECTOR_FROM = 8  # environments from which Gymnasium's own vector form of CartPole beats a loop


def chosen_backend(env_id: str, backend: str, wrappers: Sequence[str] = ()) -> str:
    """Returns which of `BACKENDS`, or "pettingzoo", is to train; arguments and errors as of `make_env`."""
    if env_id.startswith(PETTINGZOO):
        if wrappers or backend not in ("auto", "host"):
            raise UsageError(f"{env_id}: leave env_backend at auto, and env_wrappers out")
        return "pettingzoo"
    if backend not in ("auto", "host", *BACKENDS):
        raise UsageError(f"unknown env_backend {backend!r}: {nearest(backend, ('auto', *BACKENDS))}")
    if wrappers:
        if backend in ("graph", "envpool"):
            raise UsageError(f"env_wrappers are Gymnasium's, not of backend {backend}: take env_backend gym")
        backend = "gym"
    if backend in ("auto", "host") and is_callers_own(env_id):
        return "gym"
    # A backend that is not asked is not imported.
    asked = {"auto": BACKENDS, "host": HOST_BACKENDS}.get(backend, (backend,))
    chosen = next((each for each in asked if _HAS[each](env_id)), None)
    if chosen is None:
        having = [each for each in BACKENDS if each not in asked and _HAS[each](env_id)]
        if not having:
            raise unknown(env_id)
        what = f"is not in backend {backend}: take env_backend {' or '.join(['auto', *having])}"
        if backend == "host":
            what = "exists in-graph alone: workers play one of your own once gymnasium.register has it, too"
        raise UsageError(f"environment {env_id} {what}")
    return chosen


def make_env(
    env_id: str,
    backend: str,
    num_envs: int,
    env_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    previous_action_reward: bool = False,
    frame_stack: int | None = None,
    wrappers: Sequence[str] = (),
    view: str = "rows",
) -> GraphEnv | HostEnv:
    """Returns the environment to train in.

    Args:
        env_id: Gymnasium or EnvPool id; "module:id" imports the module first, "module:function" is a function
            that makes one (`rl/envs/own.py`).
        backend: `graph`, `envpool`, `gym`, or `auto`: the first of these three that has the id, but `gym`
            where a module of the caller's own has registered it. EnvPool is passed over where Gymnasium's
            environment of that id looks otherwise, masks actions (EnvPool's do not say which are legal) or
            takes options that EnvPool's does not. `host`: the same without `graph`.
        num_envs: B, at least 1.
        env_kwargs: options of that environment.
        max_episode_steps: steps after which an episode is truncated; None takes the environment's own limit.
        previous_action_reward: whether observations tell the action and the reward before them
            (`rl/envs/wrappers.py`).
        frame_stack: pictures that an observation is made of (`rl/envs/frames.py`); None: 4 for Atari, else 1.
        wrappers: names of Gymnasium wrappers, applied in this order; with them `auto` is `gym`.
        view: one of `rl.envs.agents.VIEWS`: how an environment of many agents is seen.

    Raises:
        UsageError: unknown id or backend, a backend that lacks the id, options that the environment does not
            take, a package that is missing.
    """
    for what, value in (("num_envs", num_envs), ("max_episode_steps", max_episode_steps)):
        if value is not None and value < 1:
            raise UsageError(f"{what} must be at least 1, not {value}")
    kwargs = dict(env_kwargs or {})
    _check_wrappable(env_id, kwargs, wrappers)
    chosen = chosen_backend(env_id, backend, wrappers)
    env: Any = None
    if backend in ("auto", "host") and chosen == "envpool" and gym_has(env_id):
        env = _like_gymnasium(env_id, num_envs, kwargs, max_episode_steps)
        chosen = "gym" if env is None else chosen
    if wrappers:
        env = _separate(env_id, num_envs, kwargs, max_episode_steps, wrappers)
    if chosen == "graph":
        from rl.envs.graph_host import make_graph

        env = make_graph(env_id, num_envs, kwargs, max_episode_steps, view)
    elif chosen == "pettingzoo":
        from rl.envs.pettingzoo_host import pettingzoo_host

        env = pettingzoo_host(env_id, num_envs, kwargs, max_episode_steps, view)
    elif env is None:
        env = _MAKE[chosen](env_id, num_envs, kwargs, max_episode_steps)
    env = _stacked(env, chosen, env_id, kwargs, frame_stack)
    return _telling(env, chosen) if previous_action_reward else env


def make_gym_env(
    env_id: str,
    env_kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
    max_episode_steps: int | None = None,
    previous_action_reward: bool = False,
    wrappers: Sequence[str] = (),
) -> gymnasium.Env:
    """Returns the Gymnasium environment of that id, for evaluation and videos.

    With the defaults it is unmodified, but for an action mask in its info, which its observations show, and
    text, which they do not. Wrappers as in `make_env`.

    Raises:
        UsageError: Gymnasium has no such id, the options are not its own, or a package is missing.
    """
    if not gym_has(env_id):
        if _envpool_has(env_id):
            raise UsageError(f"environment {env_id} is EnvPool's alone: Gymnasium has none to play or render")
        raise unknown(env_id)
    from rl.envs.own import without_text, wrapped
    from rl.envs.wrappers import ActionMask, PreviousActionReward

    env: gymnasium.Env
    kwargs = dict(env_kwargs or {}) | ({} if render_mode is None else {"render_mode": render_mode})
    if max_episode_steps is not None:
        kwargs["max_episode_steps"] = max_episode_steps
    if pictures_of_ale(env_id, dict(env_kwargs or {})) and render_mode is not None:
        from rl.envs.ale_host import drawn

        name, options = env_id.rpartition(":")[2], dict(env_kwargs or {})
        env = call_gym(env_id, lambda: drawn(name, options, render_mode, max_episode_steps))
    elif render_mode is not None and draws_by_opengl(env_id):
        from rl.envs.apart import ApartEnv

        env = call_gym(env_id, lambda: ApartEnv(env_id, kwargs))
    else:
        env = gym_make(env_id, kwargs)
    modes = (env.metadata or {}).get("render_modes")
    if render_mode == "human" and modes and render_mode not in modes:
        env.close()
        raise UsageError(f"{env_id} draws {', '.join(modes)}, and opens no window: take --record_video")
    if render_mode == "rgb_array" and env_id.startswith("MinAtar/"):
        from rl.envs.graph_gym import DrawnChannels

        env = DrawnChannels(env)
    env = without_text(wrapped(env, wrappers))
    if gym_masks(env_id, dict(env_kwargs or {}), wrappers):
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
    wrappers: Sequence[str] = (),
    view: str = "rows",
) -> HostEnv:
    """Returns `num_envs` environments to evaluate in, as one host environment; `reset(seed)` seeds them.

    They are those of `make_gym_env`, EnvPool's where Gymnasium has none of that id, or in-graph ones, stepped
    all by one call, where Gymnasium has none or the same (`is_graph_form`); with `wrappers` and `view` as in
    `make_env`. An episode is truncated after `max_episode_steps`; None: at the environment's own limit, at
    `step_limit` without one.

    Raises:
        UsageError: as `make_gym_env`; options that would make episodes or scores other than the game's.
    """
    for option, instead in _TRAINING_ALONE.items():
        if (env_kwargs or {}).get(option):
            raise UsageError(f"option {option} is for training alone: give {instead} in place of env_kwargs")
    _check_wrappable(env_id, dict(env_kwargs or {}), wrappers)
    plain = not (render_mode or wrappers or frame_stack or "max_episode_steps" in (env_kwargs or {}))
    if gym_has(env_id) and pictures_of_ale(env_id, dict(env_kwargs or {})) and render_mode is None:
        from rl.envs.ale_host import ALEHost

        host: Any = ALEHost(env_id.rpartition(":")[2], num_envs, dict(env_kwargs or {}), max_episode_steps)
    elif _graph_has(env_id) and (not gym_has(env_id) or (plain and is_graph_form(env_id))):
        from rl.envs.graph_host import GraphHost, make_graph

        if render_mode == "human":
            raise UsageError(f"{env_id} is in-graph, and opens no window: take --record_video")
        options = dict(env_kwargs or {})
        host = GraphHost(make_graph(env_id, num_envs, options, max_episode_steps, view))
    elif env_id.startswith(PETTINGZOO):
        from rl.envs.pettingzoo_host import pettingzoo_host

        made = env_id, num_envs, dict(env_kwargs or {}), max_episode_steps
        host = pettingzoo_host(*made, view, render_mode, evaluates=True)
    elif gym_has(env_id) or not _envpool_has(env_id):
        from rl.envs.gym_host import GymHost

        each = env_id, env_kwargs, render_mode, max_episode_steps
        envs = [make_gym_env(*each, wrappers=wrappers) for _ in range(num_envs)]
        cut = cut_after(env_id, env_kwargs or {}) if max_episode_steps is None else None
        if cut is None:
            host = GymHost(envs)
        else:  # around it: an in-graph environment may have a limit that Gymnasium does not know
            from gymnasium.wrappers import TimeLimit

            host = GymHost([TimeLimit(env, cut) for env in envs], cut)
    else:
        from rl.envs.envpool_host import EnvPoolHost

        host = EnvPoolHost(env_id, num_envs, dict(env_kwargs or {}), max_episode_steps, render_mode)
    host = _stacked(host, host.backend, env_id, dict(env_kwargs or {}), frame_stack)
    return _telling(host, "host") if previous_action_reward else host  # a HostEnv, also of in-graph ones


def eval_envs_of(
    hparams: HParams,
    num_envs: int,
    env_kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
) -> HostEnv:
    """Returns the environments of `make_eval_envs` for a run of these hparams.

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
        hparams.env_wrappers,
        hparams.view,
    )


def check_window(hparams: HParams) -> None:
    """Raises UsageError where the environment of evaluations opens no window."""
    eval_envs_of(hparams, 1, render_mode="human").close()


def _stacked(env: Any, backend: str, env_id: str, env_kwargs: dict[str, Any], frames: int | None) -> Any:
    """Returns the environment, whose observations are the last few pictures."""
    from rl.envs.envpool_tasks import usual_frame_stack

    usual = usual_frame_stack(env_id, env_kwargs) if backend == "envpool" else 1
    if pictures_of_ale(env_id, env_kwargs):
        usual = 4
    frames = usual if frames is None else frames
    if frames == 1:
        return env
    if backend == "graph":
        raise UsageError(f"frame_stack={frames} is for host environments: take env_backend gym or envpool")
    from rl.envs.frames import FrameStackHost

    return FrameStackHost(env, frames)


def _telling(env: Any, backend: str) -> Any:
    """Returns the environment, whose observations tell the action and the reward before them as well."""
    if backend == "graph":
        from rl.envs.graph.wrappers import PreviousActionReward

        return PreviousActionReward(env)
    from rl.envs.wrappers import PreviousActionRewardHost

    return PreviousActionRewardHost(env)


def _make_envpool(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> HostEnv:
    from rl.envs.envpool_host import EnvPoolHost

    return EnvPoolHost(env_id, num_envs, env_kwargs, max_episode_steps)


def _like_gymnasium(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> HostEnv | None:
    """EnvPool's environment, None where it is not what Gymnasium has by that id."""
    if pictures_of_ale(env_id, env_kwargs):
        return _make_envpool(env_id, num_envs, env_kwargs, max_episode_steps)
    look = gym_look(env_id, env_kwargs)
    if look is not None and look.masks:
        return None
    try:
        env = _make_envpool(env_id, num_envs, env_kwargs, max_episode_steps)
    except UsageError:
        if look is None:  # neither can make it: the first one's reason
            raise
        return None
    alike = look is None or (
        _shape(env.observation_space) == _shape(look.observation_space)
        and _shape(env.action_space) == _shape(look.action_space)
    )
    if not alike:
        env.close()
    return env if alike else None


def _shape(space: Any) -> Any:
    """Returns what has to be the same of two spaces; bounds of observations need not."""
    from gymnasium import spaces

    from rl.spaces import space_leaves, space_structure

    count = space.n if isinstance(space, spaces.Discrete) else None
    return space_structure(space), space_leaves(space), count


def _make_gym(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> HostEnv:
    from rl.envs.gym_host import GymVectorHost

    if pictures_of_ale(env_id, env_kwargs):
        from rl.envs.ale_host import ALEHost

        return ALEHost(env_id.rpartition(":")[2], num_envs, env_kwargs, max_episode_steps)
    if num_envs >= VECTOR_FROM and not gym_masks(env_id, env_kwargs):
        env = gym_vector(env_id, num_envs, env_kwargs, max_episode_steps)
        if env is not None:
            return GymVectorHost(env)
    return _separate(env_id, num_envs, env_kwargs, max_episode_steps, ())


def _separate(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], limit: int | None, wrappers: Sequence[str]
) -> HostEnv:
    from rl.envs.gym_host import GymHost

    each = env_id, env_kwargs, None, limit
    return GymHost([make_gym_env(*each, wrappers=wrappers) for _ in range(num_envs)])


def _check_wrappable(env_id: str, env_kwargs: dict[str, Any], wrappers: Sequence[str]) -> None:
    """Raises UsageError where there is no Gymnasium environment that wrappers could be put around."""
    if not wrappers:
        return
    if not gym_has(env_id) and (_graph_has(env_id) or _envpool_has(env_id)):
        raise UsageError(f"env_wrappers: Gymnasium has no environment {env_id}: leave them out")
    if pictures_of_ale(env_id, env_kwargs):
        raise UsageError(
            f"env_wrappers: the pictures of {env_id} are made here, by no wrapper; "
            "env_kwargs={obs_type:rgb} has Gymnasium's own environment"
        )


def _graph_has(env_id: str) -> bool:
    return env_id in registry


def _envpool_has(env_id: str) -> bool:
    from rl.envs.envpool_tasks import has_task

    return has_task(env_id)


_TRAINING_ALONE = {
    "episodic_life": "train_env_kwargs={episodic_life:true}",
    "reward_clip": "reward_augmentation=clip_sign",
}
_HAS: dict[str, Callable[[str], bool]] = {"graph": _graph_has, "envpool": _envpool_has, "gym": gym_has}
_MAKE: dict[str, Callable[..., Any]] = {"envpool": _make_envpool, "gym": _make_gym}
