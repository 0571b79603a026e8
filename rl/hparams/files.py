"""Sets in files of the user's own: TOML, which names a set and what differs from it; nothing is executed.

base = "ppo_cartpole"       # a named set, or several as a-b
lr = 3e-4                   # any hyperparameter, as --hparam_override takes it
max_grad_norm = "none"      # TOML has no word for it
model.hidden = [128, 128]   # or under [model]
"""

from __future__ import annotations

import datetime
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rl.errors import UsageError, nearest

ENDING = ".toml"
BASE = "base"  # the key that names the set


class FileSet(NamedTuple):
    """What a file says."""

    base: str  # name of a set, or of several as a-b
    values: dict[str, Any]  # hyperparameters, nested ones as the file nests them


def is_file(names: str) -> bool:
    """Says whether what was given for `--hparams` is a file's path; else it is names of sets."""
    return names.endswith(ENDING)


def read_set(path: str) -> FileSet:
    """Reads a file, its values not checked yet.

    Raises:
        UsageError: there is no such file, it is no TOML, or it names no set.
    """
    from rl.storage.files import failure, patiently, read_text, reason  # takes NumPy, which names need not

    try:
        found = tomllib.loads(patiently(lambda: read_text(Path(path))))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"there is no file {path}{_near(Path(path))}") from None
    except OSError as error:
        raise failure(f"cannot read {path}: {reason(error)}", error) from error
    except RecursionError as error:
        raise UsageError(f"cannot read {path}: it nests too deeply") from error
    except ValueError as error:  # of TOML, or of UTF-8
        raise UsageError(f"cannot read {path} as TOML: {error}") from error
    base = found.pop(BASE, None)
    if not isinstance(base, str) or not base:
        raise UsageError(f'{path}: needs {BASE} = "SET", the named set that it changes, such as ppo_cartpole')
    if is_file(base):
        raise UsageError(f'{path}: {BASE} = "{base}" is a file: name a set, or several as a-b')
    try:
        return FileSet(base, {key: _value(value) for key, value in found.items()})
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def write_set(path: Path, base: str, values: Mapping[str, Any], comments: Iterable[str] = ()) -> None:
    """Writes a file that `read_set` reads.

    values: dotted name -> plain value.
    comments: lines that stand above.

    Raises:
        UsageError: it cannot be written.
    """
    from rl.storage.files import failure, reason, write_text_atomic

    lines = [*(f"# {line}".rstrip() for line in comments), f"{BASE} = {_toml(base)}"]
    lines += [f"{name} = {_toml(value)}" for name, value in values.items()]
    try:
        write_text_atomic(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise failure(f"cannot write {path}: {reason(error)}", error) from error


def _near(path: Path) -> str:
    """Returns which files like it there are in its folder, in brackets."""
    names = [each.name for each in path.parent.glob(f"*{ENDING}")] if path.parent.is_dir() else []
    return f" ({nearest(path.name, names)})" if names else ""


def _value(value: Any) -> Any:
    """Returns a value as overrides have it. Raises ValueError for what none takes."""
    if isinstance(value, dict):
        return {key: _value(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, datetime.date | datetime.time):
        raise ValueError(f"{value} is a date or a time, which no hyperparameter takes")
    return None if value == "none" else value


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
