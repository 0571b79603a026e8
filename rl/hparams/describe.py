"""What each hyperparameter means: the comment beside its definition, which is said nowhere else."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import textwrap
import tokenize
from typing import NamedTuple

from rl.hparams.accepted import accepted
from rl.hparams.hparams import Checked, HParams
from rl.hparams.overrides import value_text


class Described(NamedTuple):
    """A hyperparameter of a set."""

    name: str  # as overrides give it
    value: str  # in the set
    default: str  # of the set's algorithm
    takes: str  # what values, such as "an integer >= 1"
    meaning: str  # one line, empty where its definition has no comment


def described(hparams: HParams) -> list[Described]:
    """Returns all hyperparameters of a set, in the order of their definition, nested ones dotted."""
    return _described(hparams, type(hparams)())


def meanings(kind: type[Checked]) -> dict[str, str]:
    """Returns field -> what its comment says, on its own lines or on those directly above; of inherited
    fields the definition that counts, or the one above that has a comment."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, Checked) and each is not Checked:
            found |= {name: text for name, text in _commented(each).items() if text or name not in found}
    return found


def _described(hparams: Checked, defaults: Checked) -> list[Described]:
    kind = type(hparams)
    texts, rows = meanings(kind), []
    for name in kind.model_fields:
        value, default = getattr(hparams, name), getattr(defaults, name)
        if isinstance(value, Checked):
            rows += _described(value, default)
        else:
            takes = accepted(kind, name)
            rows.append(
                Described(
                    kind.prefix + name, value_text(value), value_text(default), takes, texts.get(name, "")
                )
            )
    return rows


@functools.cache
def _commented(kind: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(kind))
    comments: dict[int, str] = {}  # by line
    alone: set[int] = set()  # lines that are nothing but a comment
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ")
            comments[token.start[0]] = "" if text.startswith(("type: ", "noqa")) else text  # for tools
            if token.line.lstrip().startswith("#"):
                alone.add(token.start[0])
    found = {}
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = node.lineno
            while above - 1 in alone:
                above -= 1
            lines = range(above, (node.end_lineno or node.lineno) + 1)
            found[node.target.id] = " ".join(filter(None, (comments.get(line) for line in lines)))
    return found
