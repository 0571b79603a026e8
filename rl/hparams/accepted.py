"""Words for what a hyperparameter takes, from the schema that pydantic has of its class."""

from __future__ import annotations

import functools
from typing import Any

from pydantic import BaseModel


def accepted(kind: type[BaseModel], field: str) -> str:
    """Returns words for what a field takes, such as "an integer >= 1"."""
    schema = _fields(kind)[field]
    nested = kind.model_fields[field].annotation
    if isinstance(nested, type) and issubclass(nested, BaseModel):
        return "hparams of its own: " + ", ".join(f"{field}.{name}" for name in nested.model_fields)
    return _schema_words(schema)


@functools.cache
def _fields(kind: type[BaseModel]) -> dict[str, Any]:
    """Returns the schema of every field of a class; pydantic takes 20 ms to make it."""
    properties: dict[str, Any] = kind.model_json_schema()["properties"]
    return properties


def _schema_words(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_schema_words(each) for each in schema["anyOf"])
    if "const" in schema:
        return f"{schema['const']} alone"
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if schema.get("prefixItems"):
        return "a list of " + ", ".join(map(_schema_words, schema["prefixItems"]))
    if schema.get("type") == "array":
        return f"a list, each item {_schema_words(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"a mapping such as {{key:value}}, each value {_schema_words(schema['additionalProperties'])}"
    words = {
        "integer": "an integer",
        "number": "a number",
        "boolean": "true or false",
        "string": "text",
        "null": "none",
        "object": "a mapping such as {key:value}",
    }.get(schema.get("type", ""), "a value")
    limits = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    bounds = [f"{sign} {schema[name]:g}" for name, sign in limits.items() if name in schema]
    return f"{words} {' and '.join(bounds)}" if bounds else words


def is_whole(kind: type[BaseModel], field: str) -> bool:
    """Returns whether the numbers that a field takes are integers."""
    schema = _fields(kind)[field]
    return any(each.get("type") == "integer" for each in schema.get("anyOf", [schema]))
