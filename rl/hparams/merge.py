"""From what the user types (`--hparams a-b --hparam_override ... --env ...`) to one frozen set of hparams."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rl import other_names
from rl.errors import UsageError
from rl.hparams.files import is_file, read_set
from rl.hparams.hparams import Checked, HParams, usage_error
from rl.hparams.overrides import override_text, parse_overrides
from rl.hparams.registry import get_hparams, registry


def resolve(names: str, overrides: str | Mapping[str, Any] = "", **flags: Any) -> HParams:
    """Returns the named sets merged, overrides and flags applied, checked and frozen.

    Args:
        names: names of sets joined by "-", merged left to right, the later wins; or a file (`named`).
        overrides: the text of `--hparam_override`, or a mapping of dotted names (or nested mappings).
        **flags: hparams that have a flag of their own, such as env and train_steps; they win, None is unset.

    Raises:
        UsageError: one line saying which name, type, range or combination is wrong.
    """
    hparams = named(names)
    given = parse_overrides(overrides) if isinstance(overrides, str) else overrides
    hparams.assign(given)
    hparams.assign({key: value for key, value in flags.items() if value is not None})
    hparams.check_training()
    return hparams.freeze()


def named(names: str) -> HParams:
    """Returns a fresh, unfrozen object of the sets named `a-b-c`, merged left to right; or of the set that a
    TOML file makes of them (`rl/hparams/files.py`).

    Raises:
        UsageError: unknown names, or a file that cannot be read or says what no set takes.
    """
    if is_file(names):
        base, values = read_set(names)
        try:
            hparams = named(base)
            hparams.assign(values)
        except UsageError as error:
            raise UsageError(f"{names}: {error}") from error
        return hparams
    if names.endswith(".py"):
        raise UsageError(f"--hparams {names}: give it as --user_modules {names}, and the name of a set of it")
    if "/" in names or names.endswith((".json", ".yaml", ".yml")):
        raise UsageError(
            f"--hparams {names}: hyperparameters in a file are TOML (mine.toml: a base, and what differs); a "
            "run goes on with its own by --output_dir"
        )
    parts = [part.strip() for part in names.split("-")]
    if not all(parts):
        raise UsageError(f"cannot read --hparams {names!r}: needs names of sets joined by '-'")
    merged = _fresh(parts[0])
    for before, name in itertools.pairwise(parts):
        later = _fresh(name)
        if not isinstance(later, type(merged)) and not isinstance(merged, type(later)):
            raise UsageError(
                f"cannot merge --hparams {names!r}: {before!r} has {type(merged).__name__} and "
                f"{name!r} has {type(later).__name__}, which are for different algorithms"
            )
        merged = merge(merged, later)
    return merged


def merge(earlier: HParams, later: HParams) -> HParams:
    """Returns a fresh object of the more derived class with what either explicitly set; `later` wins.

    Values that are only a class's default override nothing.
    """
    kind = type(later) if isinstance(later, type(earlier)) else type(earlier)
    merged = kind()
    for each in (earlier, later):
        merged.assign(explicit(each))
    return merged


def explicit(hparams: Checked) -> dict[str, Any]:
    """Returns dotted name -> value of what was assigned or given to a constructor, defaults left out."""
    values: dict[str, Any] = {}
    for name in type(hparams).model_fields:
        value = getattr(hparams, name)
        if isinstance(value, Checked):
            values.update(explicit(value))
        elif name in hparams.model_fields_set:
            values[hparams.prefix + name] = value
    return values


def as_typed(names: str, overrides: str) -> tuple[str, str]:
    """Returns `--hparams` and `--hparam_override` that say the same without a file.

    Raises:
        UsageError: as `named`, or a value that overrides cannot say.
    """
    if not is_file(names):
        return names, overrides
    base, values = read_set(names)
    hparams, given = named(base), {}
    for name, value in values.items():
        part = getattr(hparams, name) if name in type(hparams).model_fields else None
        inner = isinstance(part, Checked) and isinstance(value, Mapping)
        given.update({f"{name}.{key}": each for key, each in value.items()} if inner else {name: value})
    return base, override_text({**given, **parse_overrides(overrides)})


def difference(hparams: HParams, base: HParams) -> dict[str, tuple[Any, Any]]:
    """Returns dotted name -> (value in `base`, value in `hparams`) where they differ; None: it has no such
    name."""
    ours, theirs = hparams.flat(), base.flat()
    names = [*ours, *(name for name in theirs if name not in ours)]
    return {name: (theirs.get(name), ours.get(name)) for name in names if theirs.get(name) != ours.get(name)}


def _fresh(name: str) -> HParams:
    try:
        make = get_hparams(name)
    except UsageError as error:
        family = _family(name)
        if family is None:
            raise
        raise UsageError(f"{error}; or --hparams {family} --env ID") from error
    try:
        hparams = make()
    except ValidationError as error:  # a constructor call inside the set; assignments raise UsageError
        kind = next((each for each in _classes(Checked) if each.__name__ == error.title), HParams)
        raise UsageError(f"hparams set {name!r}: {usage_error(error, kind)}") from error
    except UsageError as error:
        raise UsageError(f"hparams set {name!r}: {error}") from error
    if not isinstance(hparams, HParams):
        raise UsageError(f"hparams set {name!r} returned {type(hparams).__name__}, not HParams")
    return hparams


def _family(name: str) -> str | None:
    """Returns the set for any environment that an unknown name begins with: "sac" of "sac_ant"; None where
    there is none, or the name is known."""
    if name in registry:
        return None
    while "_" in name:
        name = name.rpartition("_")[0]
        if name in registry:
            hparams = get_hparams(name)()
            if hparams.algo and not hparams.env:
                return name
    return None


def _classes(kind: type[Checked]) -> list[type[Checked]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _classes(child))]


def hparam_meant(flag: str, names: str | None) -> str | None:
    """Returns words on an unknown flag that stands for a hyperparameter of the sets `names`, in our words or
    in another library's: lr for "--learning-rate"; None where it stands for none."""
    if not flag.startswith("--"):
        return None
    known = {*HParams.keys(), *(ours.name for rows in other_names.HPARAMS.values() for ours in rows)}
    if names is not None:
        with contextlib.suppress(UsageError):
            known = set(named(names).keys())
    name, shown = flag.removeprefix("--").replace("-", "_").lower(), "--hparam_override {}=VALUE"
    if name in known:
        return f"did you mean {shown.format(name)}?"
    return other_names.hparam_meant(name, known, shown)
