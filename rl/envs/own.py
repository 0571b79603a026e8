"""What a caller brings: functions that make environments, wrappers by name; and text, which is left out.

A saved run may be a stranger's. What it names is used only where the caller imported its module, and called
only where it is a class of Gymnasium's (`check_trusted`): `subprocess:run` would be more than an environment.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from rl.envs.registry import PETTINGZOO
from rl.errors import UsageError, nearest, one_line, where_raised

MakeEnv = Callable[..., gymnasium.Env]
PETTINGZOOS_OWN = ("pettingzoo", "mpe2")  # packages of its authors, which a saved run may name


class Made(NamedTuple):
    """What is asked of a `gymnasium.envs.registration.EnvSpec`, for an environment that a function makes."""

    entry_point: MakeEnv
    max_episode_steps: int | None = None  # unknown: the function's own affair
    vector_entry_point: None = None


def give_env(make: str | MakeEnv) -> str:
    """Returns the name, `module:qualname`, by which the environments that `make` returns are known from now
    on; an id is its own.

    Raises:
        UsageError: it is no function.
    """
    if isinstance(make, str):
        return make
    if isinstance(make, gymnasium.Env):
        raise UsageError(
            f"env={make}: several environments are needed, give a function that makes one, such as "
            "lambda: gymnasium.make(...)"
        )
    if not callable(make):
        raise UsageError(f"env={make!r}: needs an id, or a function that returns a Gymnasium environment")
    kind = make if isinstance(make, type) or inspect.isroutine(make) else type(make)  # else: an object
    name = f"{kind.__module__}:{kind.__qualname__}"
    before = _GIVEN.get(name)
    _GIVEN[name] = Made(make)
    if before is not None and before.entry_point != make and nameless(name):
        _SHARED.add(name)
    return name


def given(env_id: str) -> bool:
    """Returns whether it is the name of a function that the caller gave in this process."""
    return env_id in _GIVEN


def given_function(env_id: str) -> MakeEnv | None:
    """Returns the function that the caller gave last by that name; None where there is none."""
    return _GIVEN[env_id].entry_point if env_id in _GIVEN else None


@contextlib.contextmanager
def as_given(env_id: str, make: MakeEnv | None) -> Iterator[None]:
    """Has a name stand for a function that was given by it, in what is done in it, whatever others have been
    given by that name since. None: it stands for what it stands for."""
    there = _GIVEN.get(env_id)
    if make is None or there is None or there.entry_point == make:
        yield
        return
    _GIVEN[env_id] = Made(make)
    try:
        yield
    finally:
        _GIVEN[env_id] = there


def nameless(env_id: str) -> bool:
    """Returns whether a function that the caller gave is not what Python finds by its name: lambdas share
    one, as do the functions within a function, `functools.partial`s, and the methods of several objects."""
    module, _, name = env_id.rpartition(":")
    try:
        found = operator.attrgetter(name)(sys.modules.get(module))
    except AttributeError:
        found = None
    return env_id in _GIVEN and found != _GIVEN[env_id].entry_point


def made(env_id: str) -> Made | None:
    """Returns what makes an environment by that name, if a function does: one given, or of a module, which
    has been imported."""
    if env_id in _GIVEN:
        return _GIVEN[env_id]
    module, _, name = env_id.rpartition(":")
    found = getattr(sys.modules.get(module), name, None)
    if not callable(found):
        return None
    if env_id not in _FOUND or _FOUND[env_id].entry_point is not found:
        _FOUND[env_id] = Made(found)
    return _FOUND[env_id]


def make_one(env_id: str, by: Made, kwargs: Mapping[str, Any]) -> gymnasium.Env:
    """Returns an environment of the caller's function.

    Raises:
        UsageError: it does not take the options, or returns something else.
    """
    options = dict(kwargs)
    limit = options.pop("max_episode_steps", None)
    parameters = inspect.signature(by.entry_point).parameters
    anything = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    lacking = [] if anything else [key for key in options if key not in parameters]
    if "render_mode" in lacking:
        raise UsageError(f"{env_id} has no parameter 'render_mode', which it needs to be drawn")
    if lacking:
        known = nearest(lacking[0], set(parameters) - {"render_mode"})
        raise UsageError(f"env_kwargs: {env_id} has no parameter {lacking[0]!r}: {known}")
    unset = [
        name
        for name, each in parameters.items()
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and name not in options
    ]
    if unset:
        values = ",".join(f"{name}:VALUE" for name in unset)
        raise UsageError(f"{env_id} needs {', '.join(unset)}: give --hparam_override env_kwargs={{{values}}}")
    env = by.entry_point(**options)
    if not isinstance(env, gymnasium.Env):
        raise UsageError(
            f"{env_id} returned {type(env).__name__}, no Gymnasium environment{_if_of_many(env)}"
        )
    return env if limit in (None, -1) else gymnasium.wrappers.TimeLimit(env, limit)


def _if_of_many(env: object) -> str:
    """Returns what to do with an environment of PettingZoo's kind in Gymnasium's place; else nothing."""
    if not hasattr(env, "possible_agents"):
        return ""
    return f": PettingZoo's are given as {PETTINGZOO}MODULE, a module whose parallel_env or env makes one"


def check_importable(env_id: str) -> None:
    """Raises UsageError where another process would not find the function given by this name."""
    module, _, name = env_id.rpartition(":")
    if env_id in _GIVEN and (
        module == "__main__" or getattr(sys.modules.get(module), name, None) is not _GIVEN[env_id].entry_point
    ):
        raise UsageError(
            f"workers cannot import {env_id}: define it in a module of its own, by a name (no lambda, no "
            "function within a function)"
        )


def names_in(module: str, base: type) -> list[str]:
    """Returns what an imported module has, as `module:name`: classes derived from `base`, wrappers also of
    other modules, as packages show theirs; of environments also the ids that it has registered."""
    everyones = base is gymnasium.Wrapper
    found = [
        f"{module}:{name}"
        for name, each in vars(sys.modules.get(module, object)).items()
        if isinstance(each, type) and issubclass(each, base) and (everyones or each.__module__ == module)
    ]
    if base is gymnasium.Env:
        for name, spec in gymnasium.registry.items():
            by = spec.entry_point
            of = by.partition(":")[0] if isinstance(by, str) else getattr(by, "__module__", "")
            found += [f"{module}:{name}"] if module and of == module else []
    return sorted(found)


def wrapper(name: str) -> type[gymnasium.Wrapper]:
    """Returns the class `module:Wrapper`, the module imported.

    Raises:
        UsageError: there is none, or it is no Gymnasium wrapper.
    """
    module, _, qualname = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), qualname)
    except AttributeError as error:
        near = nearest(name, names_in(module, gymnasium.Wrapper))
        raise UsageError(f"env_wrappers: there is no {name}: {near}") from error
    except ImportError as error:
        raise UsageError(f"env_wrappers: cannot find {name}: {error}") from error
    except (Exception, SystemExit) as error:  # whatever a module of the user's raises
        raise UsageError(f"env_wrappers: cannot import {module}: {where_raised(error)}") from error
    if not (isinstance(found, type) and issubclass(found, gymnasium.Wrapper)):
        raise UsageError(f"env_wrappers: {name} is no class derived from gymnasium.Wrapper")
    return found


def wrapped(env: gymnasium.Env, names: Sequence[str]) -> gymnasium.Env:
    """Returns `env` in the wrappers of these names, the last one outermost.

    Raises:
        UsageError: a wrapper cannot be found, or cannot be made of an environment alone.
    """
    for name in names:
        try:
            env = wrapper(name)(env)
        except _MISTAKES as error:
            hint = "one that needs arguments: derive a class that gives them"
            if text_parts(env.observation_space):
                hint = "rl.envs.own:WithoutText before it leaves text out"
            raise UsageError(f"env_wrappers: {name} cannot wrap {env}: {one_line(error)} ({hint})") from error
        except UsageError:
            raise
        except (Exception, SystemExit) as error:  # whatever a constructor of the user's raises
            what = where_raised(error)
            raise UsageError(f"env_wrappers: {name} cannot wrap {env}: {what}") from error
    return env


def without_text(env: gymnasium.Env) -> gymnasium.Env:
    """Returns `env`, whose Dict observations have no parts that are text."""
    return WithoutText(env) if text_parts(env.observation_space) else env


class WithoutText(gymnasium.ObservationWrapper):
    """Leaves parts of Dict observations out that are text, such as MiniGrid's `mission`."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = _without_text(env.observation_space)

    def observation(self, observation: Any) -> Any:
        """Returns the parts that are left."""
        return _kept(self.observation_space, observation)


def text_parts(space: spaces.Space) -> list[str]:
    """Returns the names of the parts of a Dict space that are text (dotted, where Dicts are nested); none
    if nothing else would be left."""
    if not isinstance(space, spaces.Dict):
        return []
    found = []
    for key, each in space.spaces.items():
        found += [key] if _is_text(each) else [f"{key}.{part}" for part in text_parts(each)]
    return [] if all(_is_text(each) for each in space.spaces.values()) else found


def _is_imported(name: str) -> bool:
    """Says whether a module of that name is, or one of that path, by whatever name; a path without a folder
    says no more than a name."""
    if not name.endswith(".py"):
        return name in sys.modules
    tail = tuple(part for part in Path(name).parts if part != "..")
    alone = (Path(name).stem, "__main__") if len(tail) == 1 else ()
    files = {key: Path(getattr(each, "__file__", None) or "") for key, each in list(sys.modules.items())}
    return any(
        file.parts[-len(tail) :] == tail and (not alone or key in alone) for key, file in files.items()
    )


def check_imported_modules(where: object, names: Iterable[str]) -> None:
    """Raises UsageError where a run was trained with user modules that this process has not imported: an id
    that they registered may be another environment here."""
    for name in names:
        if not _is_imported(name):
            raise UsageError(
                f"{where} was trained with --user_modules {name}: name it again, or import it first, if you "
                "trust that run"
            )


def check_trusted(where: object, env_id: str | None, wrappers: Iterable[str]) -> None:
    """Raises UsageError where a saved run names what this process has not imported or may not call.

    env_id: None: the caller named it.
    """
    from rl.hparams.hparams import check_imported

    if env_id in _SHARED:
        raise UsageError(
            f"{where} was trained on {env_id}, by which several functions were given here: give its own "
            "again as env="
        )
    for name in [*([env_id] if env_id else []), *wrappers]:
        module, colon, _ = name.rpartition(":")
        if name.startswith(PETTINGZOO):
            module = colon = _pettingzoo_module(name)
        if not colon or name in _GIVEN:
            continue
        if "<" in name:  # <lambda>, <locals>
            raise UsageError(
                f"{where} was trained on {name}, which cannot be imported: give it again as env="
            )
        try:
            check_imported(module)
            importlib.import_module(module)  # of this package's, it may not be yet
        except ImportError as error:
            raise UsageError(
                f"{where} was trained on {name}: import {module} first (--user_modules), if you trust "
                "that run"
            ) from error
    found = made(env_id) if env_id and env_id.rpartition(":")[2] not in gymnasium.registry else None
    if found is not None and env_id not in _GIVEN and not _is_environment(found.entry_point):
        raise UsageError(
            f"{where} was trained on {env_id}, a function: runs may name none to call, give it as env= "
            "(on the command line: --env, for train.py with the run's --hparams)"
        )


def modules_of(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the modules outside this package and Gymnasium that must be imported before a saved run may
    name these environments and wrappers (`check_trusted`)."""
    found = (
        _pettingzoo_module(name) if name.startswith(PETTINGZOO) else name.rpartition(":")[0] for name in names
    )
    return tuple(each for each in found if each.partition(".")[0] not in ("", "rl", "gymnasium"))


def _pettingzoo_module(env_id: str) -> str:
    """Returns the module that a PettingZoo id has imported; "" where it is one of PettingZoo's own."""
    name = env_id.removeprefix(PETTINGZOO)
    return "" if "/" in name or name.partition(".")[0] in PETTINGZOOS_OWN else name


def _is_environment(kind: Any) -> bool:
    """Returns whether it is a class of environments; this package's own, which are there by id, may do
    more."""
    if not (isinstance(kind, type) and issubclass(kind, gymnasium.Env)):
        return False
    return not issubclass(kind, gymnasium.Wrapper) and kind.__module__.partition(".")[0] != "rl"


def _is_text(space: spaces.Space) -> bool:
    """Returns whether elements are text: of Text spaces, and of others that say so (MiniGrid's own)."""
    return isinstance(space, spaces.Text) or (space.dtype is not None and np.dtype(space.dtype).kind == "U")


def _without_text(space: spaces.Space) -> spaces.Space:
    if not text_parts(space):
        return space
    assert isinstance(space, spaces.Dict)
    return spaces.Dict({key: _without_text(each) for key, each in space.spaces.items() if not _is_text(each)})


def _kept(space: spaces.Space, observation: Any) -> Any:
    if not isinstance(space, spaces.Dict):
        return observation
    return {key: _kept(each, observation[key]) for key, each in space.spaces.items()}


# What wrappers raise where they do not fit, or lack arguments.
_MISTAKES = (
    TypeError,
    ValueError,
    AssertionError,
    AttributeError,
    NotImplementedError,
    gymnasium.error.Error,
)
_GIVEN: dict[str, Made] = {}  # functions that the caller gave in this process
_SHARED: set[str] = set()  # names by which several of them were given, and by which Python finds none
_FOUND: dict[str, Made] = {}  # those found by name
