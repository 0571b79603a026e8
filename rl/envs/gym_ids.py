"""What Gymnasium has: its ids, those of this package's own environments, and how an environment looks."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rl.envs.registry import PETTINGZOO, registry
from rl.errors import UsageError, nearest, one_line, where_raised
from rl.other_names import environment_meant

IN_GRAPH = "rl.envs.graph_gym:"  # what Gymnasium makes by it is computed by TensorFlow
NEVER = 2**31 - 1  # steps of an episode that no run comes to

if TYPE_CHECKING:
    import gymnasium

EXTRAS = ("mujoco", "box2d")  # the package's extras that bring Gymnasium environments


class Look(NamedTuple):
    """What an environment shows of itself."""

    masks: bool  # whether its info says which actions are legal
    text: list[str]  # parts of its observations that are left out, since they are text
    observation_space: Any  # as host environments give it
    action_space: Any


def gym_look(env_id: str, env_kwargs: dict[str, Any], wrappers: Sequence[str] = ()) -> Look | None:
    """Returns how Gymnasium's environment looks, in the wrappers of these names (`rl.envs.own`), asked of
    each id once; None where it cannot be made, which is for whoever makes it to say. Raises UsageError where
    its first reset, or its close, fails."""
    from rl.envs.host import action_view, observation_view
    from rl.envs.own import text_parts, without_text, wrapped
    from rl.envs.wrappers import masks_in_info

    spec, key = gym_spec(env_id), (env_id, repr(env_kwargs), tuple(wrappers))
    if key not in _LOOKS or _LOOKS[key][0] is not spec:  # an id may be registered anew
        try:
            env = wrapped(gym_make(env_id, env_kwargs), wrappers)
            text = text_parts(env.observation_space)
            env = without_text(env)
            views = observation_view(env.observation_space), action_view(env.action_space)
        except UsageError:
            return None
        try:
            look = Look(masks_in_info(env), text, *views)
        finally:
            _close(env)
        _LOOKS[key] = (spec, look)
    return _LOOKS[key][1]


def _close(env: Any) -> None:
    """Closes an environment. Raises UsageError where that fails, as it would at the end of each run."""
    from rl.envs.host import name_of

    try:
        env.close()
    except (Exception, SystemExit) as error:  # whatever it raises
        raise UsageError(f"{name_of(env)}: its close() failed, {where_raised(error)}") from error


def gym_make(env_id: str, kwargs: dict[str, Any]) -> Any:
    """Makes Gymnasium's environment of that id, or the one that the caller's function of that name makes.

    Raises:
        UsageError: as `call_gym`, or it lacks a space.
    """
    import gymnasium

    from rl.envs.own import make_one

    by = gym_spec(env_id)
    if isinstance(by, gymnasium.envs.registration.EnvSpec):
        if str(by.entry_point).startswith(IN_GRAPH) and "max_episode_steps" in kwargs:
            kwargs = {**kwargs, "limit": kwargs["max_episode_steps"]}  # of its own, beside Gymnasium's
        env = call_gym(env_id, lambda: gymnasium.make(env_id, disable_env_checker=True, **kwargs))
    else:
        env = call_gym(env_id, lambda: make_one(env_id, by, kwargs))
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.spaces.Space):
            raise UsageError(f"environment {env_id} has no {name}: set one of gymnasium.spaces in __init__")
    return env


def left_out(hparams: Any) -> list[str]:
    """Returns parts of the observations of a run of these hparams that are text, which it goes without."""
    if not gym_has(hparams.env) or pictures_of_ale(hparams.env, hparams.env_kwargs):
        return []
    look = gym_look(hparams.env, hparams.env_kwargs, hparams.env_wrappers)
    return [] if look is None else look.text


def gym_masks(env_id: str, env_kwargs: dict[str, Any], wrappers: Sequence[str] = ()) -> bool:
    """Returns whether Gymnasium's environment says in its info which actions are legal."""
    look = gym_look(env_id, env_kwargs, wrappers)
    return look is not None and look.masks


def pictures_of_ale(env_id: str, env_kwargs: dict[str, Any]) -> bool:
    """Returns whether it is an Atari game to be seen as agents customarily do (not raw, in `obs_type`)."""
    return env_id.rpartition(":")[2].startswith("ALE/") and "obs_type" not in env_kwargs


def draws_by_opengl(env_id: str) -> bool:
    """Tells whether an environment's pictures need OpenGL, as MuJoCo's do."""
    return str(gym_spec(env_id).entry_point).startswith(("gymnasium.envs.mujoco", "rl.envs.half_cheetah"))


def gym_spec(env_id: str) -> Any:
    """Returns Gymnasium's EnvSpec of that id, or what stands for it (`rl.envs.own.Made`). Call `gym_has`
    before: it imports the module that registers the id."""
    import gymnasium

    from rl.envs.own import made

    name = env_id.rpartition(":")[2]
    by = None if name in gymnasium.registry else made(env_id)
    return gymnasium.spec(name) if by is None else by


def call_gym(env_id: str, call: Callable[[], Any]) -> Any:
    """Returns what `call` returns; what Gymnasium and its environments raise on bad input becomes one
    clear line."""
    import gymnasium

    try:
        return call()
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        extra = next((each for each in EXTRAS if each in str(error).lower()), None)
        if extra is not None:
            raise missing_extra(env_id, extra) from error
        raise UsageError(
            f"environment {env_id} needs a package that is missing: {one_line(error)}"
        ) from error
    except UsageError:
        raise
    except (gymnasium.error.Error, TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"Gymnasium cannot make {env_id}: {one_line(error)}") from error
    # Whatever a constructor of the user's raises, of which the kind may say more; also what would end this
    # program as if all were well.
    except (Exception, SystemExit) as error:
        raise UsageError(f"Gymnasium cannot make {env_id}: {where_raised(error)}") from error


def gym_has(env_id: str) -> bool:
    """Returns whether Gymnasium has that id, after the import of the module that it names; or that module,
    or the caller, a function of that name (`rl.envs.own`)."""
    from rl.envs.own import given, made

    module, colon, name = env_id.rpartition(":")
    if given(env_id):
        return True
    if env_id.startswith(PETTINGZOO):  # no module to import
        return False
    if colon:
        if not module:
            raise UsageError(f"environment {env_id}: needs a module before the colon, or no colon")
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(f"environment {env_id}: cannot import {module}: {one_line(error)}") from error
        except (Exception, SystemExit) as error:  # whatever a module of the user's raises
            what = where_raised(error)
            raise UsageError(f"environment {env_id}: cannot import {module}: {what}") from error
    elif name.startswith("ALE/"):  # registers its ids when it is imported, not by itself
        if importlib.util.find_spec("ale_py") is None:
            raise missing_extra(env_id, "atari")
        importlib.import_module("ale_py")
    elif name.startswith("MinAtar/"):  # the same of the original games; without them there are our own
        from rl.envs.minatar_gym import register_minatar

        register_minatar()
    import gymnasium

    # Our own files of Gymnasium environments bring TensorFlow, which a worker can often do without.
    return name in gymnasium.registry or (bool(colon) and made(env_id) is not None) or name in gym_ids()


def is_callers_own(env_id: str) -> bool:
    """Returns whether a module of the caller's own has registered that id with Gymnasium alone: neither this
    package, nor an installed one, whose environments other backends may have under the same id."""
    import gymnasium

    if env_id in registry and registry.entry(env_id).module.partition(".")[0] != "rl":
        return False  # it has an in-graph one of that id, too
    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    entry = None if spec is None else spec.entry_point
    if entry is None:
        return False
    top = (entry if isinstance(entry, str) else entry.__module__).partition(":")[0].partition(".")[0]
    if top in ("rl", "gymnasium"):
        return False
    module = sys.modules.get(top)
    found = None if module is not None else importlib.util.find_spec(top)
    file = getattr(module, "__file__", None) or (found and found.origin) or ""
    return not {"site-packages", "dist-packages"} & set(Path(file).parts)


def gym_ids() -> list[str]:
    """Returns Gymnasium's ids, with those of this package's `*_gym.py` files, which it imports."""
    import gymnasium

    for path in sorted(Path(__file__).parent.glob("*_gym.py")):
        importlib.import_module(f"rl.envs.{path.stem}")
    return list(gymnasium.registry)


def where_played(hparams: Any, training: str, evaluation: str | None) -> str:
    """Returns words for where a run of these hparams plays; backends as `rl.envs.make.BACKENDS` has them,
    evaluation None where nothing is evaluated."""
    env, data = hparams.env, hparams.data
    names = {"graph": "in-graph", "envpool": "on EnvPool", "gym": "on Gymnasium"}
    names |= {"pettingzoo": "on PettingZoo", "data": f"from the data in {data}"}
    rest = "; nothing is played: steps are gradient updates" if training == "data" else ""
    if evaluation is None:
        return f"trained {names[training]}, not evaluated: no environment is named (--env){rest}"
    # Also where Gymnasium's is the in-graph one, of which one call steps all copies (`is_graph_form`).
    has = evaluation == "pettingzoo" or gym_has(env)
    lacking = "" if has else ", since Gymnasium has none of that id"
    return f"{env}: trained {names[training]}, evaluated {names[evaluation]}{lacking}{rest}"


def is_graph_form(env_id: str) -> bool:
    """Returns whether Gymnasium's environment of that id is the in-graph one, stepped copy by copy: by a
    call for each, of some milliseconds, where the in-graph one makes a call for all."""
    if not gym_has(env_id):
        return False
    return getattr(gym_spec(env_id), "entry_point", None) == "rl.envs.graph_gym:GraphEnvGym"


def cut_after(env_id: str, env_kwargs: Mapping[str, Any]) -> int | None:
    """Returns the steps after which evaluation cuts an episode of Gymnasium's; None where it has a limit."""
    from rl.envs.gym_host import UNLIMITED

    if not gym_has(env_id) or pictures_of_ale(env_id, dict(env_kwargs)):  # unknown; ale-py has its own
        return None
    limit = env_kwargs.get("max_episode_steps", gym_spec(env_id).max_episode_steps)
    return UNLIMITED if limit in (None, -1) else None  # -1: Gymnasium's word for none


def gym_vector(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None
) -> gymnasium.vector.VectorEnv | None:
    """Makes Gymnasium's own vector form of an environment, of `num_envs` copies; None where there is none
    that resets at the next step and has Box observations. Raises as `call_gym`."""
    import gymnasium

    if gym_spec(env_id).vector_entry_point is None:
        return None
    kwargs = dict(env_kwargs)
    if max_episode_steps is not None:
        kwargs["max_episode_steps"] = max_episode_steps
    if kwargs.get("max_episode_steps", 0) in (None, -1):  # which the vector form takes for a number
        kwargs["max_episode_steps"] = NEVER
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    env = call_gym(env_id, lambda: gymnasium.make_vec(env_id, num_envs, vectorization_mode=mode, **kwargs))
    resets_next = env.metadata.get("autoreset_mode") == gymnasium.vector.AutoresetMode.NEXT_STEP
    if resets_next and isinstance(env.single_observation_space, gymnasium.spaces.Box):
        return env
    env.close()
    return None


def unknown(env_id: str) -> UsageError:
    """Returns the error for an id that no backend has, with the nearest ones."""
    import gymnasium

    from rl.envs.envpool_tasks import task_ids
    from rl.envs.own import names_in

    known = {*registry.names(), *gym_ids(), *task_ids()}
    own = names_in(env_id.rpartition(":")[0], gymnasium.Env)
    if own:
        return UsageError(f"unknown environment {env_id!r}: {nearest(env_id, own)}")
    near = f"{nearest(env_id, known)} (in-graph ones: --list envs; one of your own needs --user_modules)"
    hint = environment_meant(env_id, known) or near
    return UsageError(f"unknown environment {env_id!r}: {hint}")


def missing_extra(env_id: str, extra: str) -> UsageError:
    """Returns the error that names the extra which an environment needs."""
    return UsageError(f"environment {env_id} needs the extra {extra!r}: ./setup.sh --extra {extra}")


_LOOKS: dict[tuple[str, str, tuple[str, ...]], tuple[Any, Look]] = {}
