"""The text of `--hparam_override`: `lr=3e-4,model.hidden=[64,64],prioritized=true,env_kwargs={a:1}`.

Items are separated by commas outside brackets and quotes. A value is true / false, none, an integer, a
decimal number, [a list], {a: mapping}, 'quoted text', or else text as it stands.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from rl.errors import UsageError

_PAIRS = {"[": "]", "{": "}", "(": ")"}
_WORDS = {"true": True, "false": False, "none": None, "null": None}
_INTEGER = re.compile(r"[+-]?\d+(_\d+)*")
# Text that needs no quotes.
_PLAIN = re.compile(r"[^\s,:=\[\]{}()'\"]([^,:=\[\]{}()'\"]*[^\s,:=\[\]{}()'\"])?")
_DECIMAL = re.compile(r"[+-]?(\d+(_\d+)*\.?\d*|\.\d+)([eE][+-]?\d+)?")


def parse_overrides(text: str) -> dict[str, Any]:
    """Returns dotted name -> value.

    Raises:
        UsageError: an item without `=`, an unclosed bracket or quote, a name given twice.
    """
    overrides: dict[str, Any] = {}
    for item in _split(text, ",", text):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            if overrides and not equals:  # model.hidden=64,64
                before = next(reversed(overrides))
                hint = f"is it of {before}? a list has brackets, such as model.hidden=[64,64]"
            else:
                hint = "needs name=value, such as lr=3e-4"
            raise UsageError(f"cannot read {item!r} in --hparam_override: {hint}")
        if key in overrides:
            raise UsageError(f"--hparam_override gives {key} twice")
        overrides[key] = _value(value, text)
    return overrides


def override_text(values: Mapping[str, Any]) -> str:
    """Returns the text that `parse_overrides` reads as these plain values.

    Raises:
        UsageError: there is none, as for text with both kinds of quotes.
    """
    text = ",".join(f"{name}={value_text(value)}" for name, value in values.items())
    try:
        same = list(map(repr, parse_overrides(text).items())) == list(map(repr, values.items()))
    except (UsageError, ValueError, SyntaxError):
        same = False
    if not same:
        raise UsageError(f"--hparam_override cannot say {text}: leave out what has quotes of both kinds")
    return text


def value_text(value: Any) -> str:
    """Returns a plain value as an override gives it, text in quotes where it would be read as something
    else."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(value_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{value_text(key)}:{value_text(each)}" for key, each in value.items()) + "}"
    text = str(value)
    if not isinstance(value, str) or (_PLAIN.fullmatch(text) and _value(text, text) == text):
        return text
    return repr(text)


def _split(text: str, separator: str, whole: str) -> list[str]:
    """Returns parts between separators that stand outside brackets and quotes; one trailing separator is
    allowed."""
    parts, closing, quote = [""], [], ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _PAIRS:
            closing.append(_PAIRS[char])
        elif char in _PAIRS.values():
            if not closing or closing.pop() != char:
                raise UsageError(f"unexpected {char!r} in --hparam_override {whole!r}")
        elif char == separator and not closing:
            parts.append("")
            continue
        parts[-1] += char
    if quote or closing:
        raise UsageError(f"missing {quote or closing[-1]!r} in --hparam_override {whole!r}")
    parts = [part.strip() for part in parts]
    return parts[:-1] if not parts[-1] else parts


def _value(text: str, whole: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return float(text)
        if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
            return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:  # thousands of digits, a quote within quotes, a wrong \x
        raise UsageError(f"cannot read {text[:40]!r} in --hparam_override: {error}") from error
    if text[:1] in ("[", "(") and text[-1:] == _PAIRS[text[0]]:
        return [_value(part, whole) for part in _split(text[1:-1], ",", whole)]
    if text[:1] == "{" and text[-1:] == "}":
        return dict(_mapping_item(part, whole) for part in _split(text[1:-1], ",", whole))
    return text


def _mapping_item(text: str, whole: str) -> tuple[str, Any]:
    parts = _split(text, ":", whole)
    if len(parts) != 2:
        raise UsageError(f"cannot read {text!r} in --hparam_override {whole!r}: needs key:value")
    key, value = parts
    key = str(_value(key, whole)) if key[:1] in ("'", '"') else key
    return key, _value(value, whole)
