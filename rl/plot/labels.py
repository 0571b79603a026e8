"""What methods are called: different ones differently."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rl.report.runs import NOT_LEARNING, RunData, flat

SHOWN = 3  # values in which methods of one name differ, as their labels have them where that tells them apart


def learned(run: RunData) -> dict[str, Any]:
    """Returns what learning depends on: hyperparameters, dotted, and whether others played for it."""
    found = {key: value for key, value in flat(run.hparams) if key not in NOT_LEARNING}
    return {"workers": run.workers, **found}


def identity(run: RunData) -> str:
    """Returns a text that runs of one method share, whatever the order in which they were saved."""
    return json.dumps([run.name, learned(run)], sort_keys=True)


def labels(runs: Sequence[RunData]) -> list[str]:
    """Returns what the methods of some runs, one of each, are called: their set, and where several have it,
    as much of what they differ in as tells them apart."""
    names = [run.name for run in runs]
    texts: list[dict[str, str]] = [{} for _ in runs]  # of what differs
    for name in dict.fromkeys(names):
        same = [i for i, each in enumerate(names) if each == name]
        for i, differing in zip(same, _differing([learned(runs[i]) for i in same]), strict=True):
            texts[i] = differing
    shown = [list(each)[:SHOWN] for each in texts]
    while True:
        found = [_label(*each) for each in zip(names, texts, shown, strict=True)]
        alike = [[i for i, each in enumerate(found) if each == label] for label in dict.fromkeys(found)]
        further = [(i, key) for same in alike for key in _telling(same, texts, shown) for i in same]
        if not further:
            return list(_numbered(found))
        for i, key in further:
            shown[i] += [key] * (key in texts[i])


def _differing(methods: Sequence[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Yields for each method the values in which it differs from another one, as text."""
    every = dict.fromkeys(key for each in methods for key in each)
    saved = {key: [json.dumps(each.get(key, ...), default=str) for each in methods] for key in every}
    keys = {key: len(set(values)) for key, values in saved.items() if len(set(values)) > 1}
    short = {key: _short([each.get(key) for each in methods], keys[key]) for key in keys}
    for i, each in enumerate(methods):
        yield {key: short[key][i] for key in each if key in keys}


def _short(values: Sequence[Any], different: int) -> list[str]:
    """Returns values as text, with all their digits only where fewer would make different ones alike."""
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    return texts if len(set(texts)) == different else list(map(str, values))


def _telling(same: Sequence[int], texts: Sequence[dict[str, str]], shown: Sequence[list[str]]) -> list[str]:
    """Returns one value that would tell apart some of the methods of one label; empty where there is none."""
    for i in same:
        for key in texts[i]:
            if key not in shown[i] and any(texts[other].get(key) != texts[i][key] for other in same):
                return [key]
    return []


def _label(name: str, texts: dict[str, str], shown: Sequence[str]) -> str:
    if not texts:
        return name
    more = ", ..." if len(texts) > len(shown) else ""
    return f"{name} ({', '.join(f'{key}={texts[key]}' for key in shown)}{more})"


def _numbered(found: Sequence[str]) -> Iterator[str]:
    """Yields labels, with a number behind those that came before: 1 and 1.0, or names with such endings."""
    for i, label in enumerate(found):
        before = found[:i].count(label)
        yield f"{label} #{before + 1}" if before else label
