"""What Gymnasium has: its ids, those of this package's own environments, and how an environment looks."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rl.errors import UsageError

EXTRAS = ("mujoco", "box2d")  # the package's extras that bring Gymnasium environments


class Look(NamedTuple):
    """What an environment shows of itself."""

    masks: bool  # whether its info says which actions are legal
    observation_space: Any  # as host environments give it
    action_space: Any


def gym_look(env_id: str, env_kwargs: dict[str, Any]) -> Look | None:
    """How Gymnasium's environment looks, asked of each id once; None where it cannot be made, which is for
    whoever makes it to say."""
    import gymnasium

    from rl.envs.host import action_view, observation_view
    from rl.envs.wrappers import masks_in_info

    spec, key = gym_spec(env_id), (env_id, repr(env_kwargs))
    if key not in _LOOKS or _LOOKS[key][0] is not spec:  # an id may be registered anew
        try:
            env = call_gym(env_id, lambda: gymnasium.make(env_id, disable_env_checker=True, **env_kwargs))
            look = Look(
                masks_in_info(env), observation_view(env.observation_space), action_view(env.action_space)
            )
            env.close()
        except UsageError:
            return None
        _LOOKS[key] = (spec, look)
    return _LOOKS[key][1]


def gym_masks(env_id: str, env_kwargs: dict[str, Any]) -> bool:
    """Whether Gymnasium's environment says in its info which actions are legal."""
    look = gym_look(env_id, env_kwargs)
    return look is not None and look.masks


def pictures_of_ale(env_id: str, env_kwargs: dict[str, Any]) -> bool:
    """Whether it is an Atari game to be seen as agents customarily do (not raw, in `obs_type`)."""
    return env_id.rpartition(":")[2].startswith("ALE/") and "obs_type" not in env_kwargs


def draws_by_opengl(env_id: str) -> bool:
    return str(gym_spec(env_id).entry_point).startswith("gymnasium.envs.mujoco")


def gym_spec(env_id: str) -> Any:
    import gymnasium

    return gymnasium.spec(env_id.rpartition(":")[2])  # the module before the colon was imported by `gym_has`


def call_gym(env_id: str, call: Callable[[], Any]) -> Any:
    """What `call` returns; what Gymnasium and its environments raise on bad input becomes one clear line."""
    import gymnasium

    try:
        return call()
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        extra = next((each for each in EXTRAS if each in str(error).lower()), None)
        if extra is not None:
            raise missing_extra(env_id, extra) from error
        raise UsageError(f"environment {env_id} needs a package that is missing: {_line(error)}") from error
    except (gymnasium.error.Error, TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"Gymnasium cannot make {env_id}: {_line(error)}") from error


def gym_has(env_id: str) -> bool:
    module, colon, name = env_id.rpartition(":")
    if colon:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(f"environment {env_id}: cannot import {module}: {_line(error)}") from error
    elif name.startswith("ALE/"):  # registers its ids when it is imported, not by itself
        if importlib.util.find_spec("ale_py") is None:
            raise missing_extra(env_id, "atari")
        importlib.import_module("ale_py")
    elif name.startswith("MinAtar/"):  # the same of the original games; without them there are our own
        from rl.envs.minatar_gym import register_minatar

        register_minatar()
    import gymnasium

    # Our own files of Gymnasium environments bring TensorFlow, which a worker can often do without.
    return name in gymnasium.registry or name in gym_ids()


def gym_ids() -> list[str]:
    """Gymnasium's ids, with those of this package's `*_gym.py` files."""
    import gymnasium

    for path in sorted(Path(__file__).parent.glob("*_gym.py")):
        importlib.import_module(f"rl.envs.{path.stem}")
    return list(gymnasium.registry)


def missing_extra(env_id: str, extra: str) -> UsageError:
    return UsageError(
        f"environment {env_id} needs the extra {extra!r}: pip install '.[{extra}]' (repository root)"
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


_LOOKS: dict[tuple[str, str], tuple[Any, Look]] = {}
