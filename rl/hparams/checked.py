"""Checked values: what types and ranges there are, and every mistake as one line."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from rl import other_names
from rl.errors import UsageError, nearest
from rl.hparams.accepted import accepted


def _whole(value: Any) -> Any:
    """Returns 1000000 for 1e6 where an integer is asked for."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(value: Any) -> Any:
    """Returns Python's numbers and lists for NumPy's, and text for a path, which strict types do not take."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


PositiveInt = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=0), BeforeValidator(_whole)]  # zero allowed
PositiveFloat = Annotated[float, Field(gt=0)]
Coefficient = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Checked(BaseModel):
    """A model whose every mistake is a `UsageError` of one line, and which can be frozen."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, strict=True, allow_inf_nan=False)
    prefix: ClassVar[str] = ""  # where these fields stand among all hparams, such as "model."
    _frozen: bool = PrivateAttr(default=False)

    @field_validator("*", mode="before")
    @classmethod
    def _fit(cls, value: Any, info: ValidationInfo) -> Any:
        """Returns a tuple for a list, an integer for a whole number, where the field is of that type alone:
        files have neither, and types are strict. Of one field: an assignment validates no other."""
        wanted = cls.model_fields[str(info.field_name)].annotation
        if get_origin(wanted) is tuple and isinstance(value, list):
            return tuple(value)
        return _whole(value) if wanted is int else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        if self._frozen:
            raise AttributeError(f"hparams are frozen: {self.prefix}{name} cannot change during a run")
        if name not in type(self).model_fields:
            raise unknown_hparam(self.prefix + name, self.keys())
        try:
            super().__setattr__(name, _plain(value))
        except ValidationError as error:
            raise usage_error(error, type(self)) from error

    def assign(self, values: Mapping[str, Any]) -> None:
        """Assigns each value; names are dotted, or a nested model's values are a mapping of their own.

        Raises:
            UsageError: unknown name, wrong type, value out of range.
        """
        for key, value in values.items():
            target, name = self, key
            while "." in name:
                outer, _, name = name.partition(".")
                nested = getattr(target, outer) if outer in type(target).model_fields else None
                if not isinstance(nested, Checked):
                    raise unknown_hparam(self.prefix + key, self.keys())
                target = nested
            if name not in type(target).model_fields:
                raise unknown_hparam(self.prefix + key, self.keys())
            current = getattr(target, name)
            if isinstance(current, Checked) and isinstance(value, Mapping):
                current.assign(value)
            else:
                setattr(target, name, value)

    def freeze(self) -> Self:
        """Checks the whole (`check`) and forbids further assignments, here and in nested models.

        Raises:
            UsageError: values that do not fit together.
        """
        self.check()
        for name in type(self).model_fields:
            nested = getattr(self, name)
            if isinstance(nested, Checked):
                nested.freeze()
        self._frozen = True
        return self

    def thawed(self) -> Self:
        """Returns a copy that takes assignments again, in which the same names are explicitly set."""
        copied = self.model_copy(deep=True)
        copied._thaw()
        return copied

    def _thaw(self) -> None:
        self._frozen = False
        for name in type(self).model_fields:
            nested = getattr(self, name)
            if isinstance(nested, Checked):
                nested._thaw()

    @property
    def frozen(self) -> bool:
        """Returns whether assignments are forbidden."""
        return self._frozen

    def check(self) -> None:
        """Raises UsageError where values, each in its range, do not fit together; subclasses add theirs."""

    @classmethod
    def keys(cls) -> list[str]:
        """Returns all names an override may give, dotted, in the order of definition."""
        names = []
        for name, field in cls.model_fields.items():
            nested = field.annotation
            if isinstance(nested, type) and issubclass(nested, Checked):
                names += nested.keys()
            else:
                names.append(cls.prefix + name)
        return names

    def flat(self) -> dict[str, Any]:
        """Returns dotted name -> value, nested models unfolded."""
        values: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            values.update(value.flat() if isinstance(value, Checked) else {self.prefix + name: value})
        return values


def in_files(value: Any) -> bool:
    """Returns whether a run's files (JSON) give a value back as it is, or a tuple of such as a list."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(in_files, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(in_files, value))
    return value is None or isinstance(value, (str, int))


class UnknownHParam(UsageError):
    """A name that no hyperparameter has.

    Args:
        key: the name.
        words: what is meant by it, perhaps.
    """

    def __init__(self, key: str, words: str):
        super().__init__(f"unknown hparam {key!r}: {words}")
        self.key = key


def unknown_hparam(key: str, known: list[str]) -> UnknownHParam:
    """Returns the error for a name that is none of `known`."""
    meant = other_names.hparam_meant(key, known)
    words = meant or f"{nearest(key, known)} (all: python train.py --list hparams SET)"
    return UnknownHParam(key, words)


def usage_error(error: ValidationError, kind: type[Checked]) -> UsageError:
    """Returns one line for the first mistake that pydantic found in a `kind`: name, value, what is
    accepted."""
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    field, key = path[0] if path else "", kind.prefix + (path[0] if path else "")
    nested = kind.model_fields[field].annotation if field in kind.model_fields else None
    while isinstance(nested, type) and issubclass(nested, Checked) and len(path) > 1:
        kind, path = nested, path[1:]
        field, key = path[0], kind.prefix + path[0]
        nested = kind.model_fields[field].annotation if field in kind.model_fields else None
    if field not in kind.model_fields:
        return unknown_hparam(key, kind.keys())
    if first["type"] == "value_error":
        return UsageError(f"hparam {key}={first['input']!r}: {first['ctx']['error']}")
    shown = f"{key} holds {first['input']!r}" if len(path) > 1 else f"{key}={first['input']!r}"
    return UsageError(f"hparam {shown}: needs {accepted(kind, field)}")
