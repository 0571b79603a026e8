"""Manifests: dicts with Kubernetes' own names of fields, and their text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

Document = dict[str, Any]

# What no parser takes for a number, a boolean or nothing, but for the words that PyYAML quotes by itself.
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9./_-]+")


def present(**fields: Any) -> Document:
    """Returns the fields that have a value: Kubernetes takes one that is left out for its default."""
    return {name: value for name, value in fields.items() if value is not None}


class _Dumper(yaml.SafeDumper):
    """Quotes strings: kubectl takes more of them for numbers or booleans than PyYAML (y, 3e-4, 08)."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        for key, _ in node.value:
            key.style = None if _PLAIN_KEY.fullmatch(key.value) else '"'
        return node

    def ignore_aliases(self, data: Any) -> bool:
        return True  # what is in two places is written twice


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _quoted)


def as_yaml(objects: Sequence[Document]) -> str:
    """Returns the text of a file: every string quoted, but for names of fields."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=110)
