"""The entries of a data set's `metadata.json`.

Minari's own entries: `dataset_id`, `minari_version`, `data_format`, `jpeg_encoding`, `observation_space`,
`action_space`, `total_episodes`, `total_steps`, `dataset_size` (MB), `env_spec`, `algorithm_name` and others
that it leaves to authors. This project adds entries, all optional:

    env_id, env_kwargs, env_wrappers, max_episode_steps     the environment, as hparams name it
    train_env_kwargs    options that it had where training was recorded, beside env_kwargs
    policies    list of who played: hparams (set), algorithm, run (folder), step, which (training, best,
                last), seed (of the run that trained, or of the test's episodes)
    versions    of the packages of who recorded first
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium

from rl.data.hdf5 import is_picture
from rl.data.spaces import from_json, parts, to_json
from rl.errors import UsageError
from rl.storage.files import failure, load_json, read_text, reason, write_json_atomic

MAIN, METADATA, CACHE = "main_data.hdf5", "metadata.json", "columns.npz"
_LISTED = (  # entries that lists or objects are read from, and of what
    ("env_kwargs", dict, str),
    ("train_env_kwargs", dict, str),
    ("env_wrappers", list, str),
    ("policies", list, dict),
)
# The oldest version of Minari that reads these data sets, and the oldest that reads images which are no JPEG.
MINARI, MINARI_PICTURES = "0.5.0", "0.5.4"


def read_metadata(data: Path) -> dict[str, Any]:
    """Reads the metadata in the folder `data`, spaces as spaces.

    Raises:
        UsageError: they are damaged, or name a format that cannot be read here.
    """
    path = data / METADATA
    try:
        found = load_json(read_text(path))
        if not isinstance(found, dict):
            raise ValueError("no object of JSON")
        for key, kind, each_kind in _LISTED:
            each = found.get(key) or kind()
            if not isinstance(each, kind) or not all(isinstance(part, each_kind) for part in each):
                raise ValueError(f"{key} is {json.dumps(each)[:80]}")
    except OSError as error:
        raise failure(f"cannot read {path}: {reason(error)}", error) from error
    except ValueError as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    if found.get("data_format") != "hdf5":
        raise UsageError(
            f"{path}: data_format {found.get('data_format')!r} is not read here: take hdf5 "
            "(minari: create_dataset(..., data_format='hdf5'))"
        )
    for key in ("observation_space", "action_space"):
        try:
            found[key] = from_json(found.get(key))
        except ValueError as error:
            raise UsageError(f"{path}: {key}: {error}") from error
    return found


def write_metadata(data: Path, metadata: Mapping[str, Any]) -> None:
    """Writes the metadata into the folder `data`, atomically; as `read_metadata` gives them, spaces as
    spaces. Raises UsageError."""
    observations, actions = metadata["observation_space"], metadata["action_space"]
    pictures = any(is_picture(each) for space in (observations, actions) for _, each in parts(space))
    ours = {
        "dataset_id": metadata.get("dataset_id") or dataset_id(data.resolve().parent.name),
        "minari_version": MINARI_PICTURES if pictures else MINARI,
        "data_format": "hdf5",
        "observation_space": to_json(observations),
        "action_space": to_json(actions),
    }
    write_json_atomic(data / METADATA, {**metadata, **ours})


def options_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of the environment that was played: `env_kwargs`, and `env_wrappers` if there are
    any."""
    kwargs = env_kwargs_of(metadata) | dict(metadata.get("train_env_kwargs") or {})
    wrappers = list(metadata.get("env_wrappers") or [])
    found = {"env_kwargs": kwargs, **({"env_wrappers": wrappers} if wrappers else {})}
    return dict(json.loads(json.dumps(found)))


def env_id_of(metadata: Mapping[str, Any]) -> str | None:
    """Returns the id of the environment that was played; None where nobody knows."""
    if metadata.get("env_id"):
        return str(metadata["env_id"])
    found = _env_spec(metadata).get("id")
    return None if found is None else str(found)


def env_kwargs_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that the environment was made with: of Minari's `env_spec`, where the metadata are
    not this project's, those that are not the id's own."""
    if "env_kwargs" in metadata or metadata.get("env_id"):
        return dict(metadata.get("env_kwargs") or {})
    spec = _env_spec(metadata)
    kwargs, registered = spec.get("kwargs"), gymnasium.registry.get(str(spec.get("id")))
    own = {} if registered is None else json.loads(json.dumps(registered.kwargs, default=str))
    found = kwargs if isinstance(kwargs, dict) else {}
    return {
        key: each
        for key, each in found.items()
        if key != "render_mode" and not (key in own and own[key] == each)
    }


def _env_spec(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Minari's entry; empty where there is none."""
    try:
        found = load_json(metadata["env_spec"])
    except (KeyError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def totals(episodes: int, steps: int, data: Path) -> dict[str, Any]:
    """Returns the entries that count; `dataset_size` is of the files in `data` now."""
    size = sum(each.stat().st_size for each in data.iterdir() if each.is_file())
    return {"total_episodes": episodes, "total_steps": steps, "dataset_size": round(size / 1e6, 1)}


def dataset_id(name: str) -> str:
    """Returns a name as Minari takes it: letters, digits, - and _, and a version at the end."""
    plain = re.sub(r"[^-\w]+", "-", name, flags=re.ASCII).strip("-") or "data"
    return plain if re.search(r"-v\d+$", plain) else f"{plain}-v0"
