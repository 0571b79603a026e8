"""Words that a user might type, right, nearly right and absurd, as strategies of Hypothesis."""

from __future__ import annotations

import functools

from hypothesis import strategies as st

from rl.cli import build_parser
from rl.hparams.merge import named
from rl.hparams.registry import registry as sets

SETS = tuple(sets.names())
ENVS = ("CartPole-v1", "Pendulum-v1", "Identity-v0", "MinAtar/Breakout-v1", "TicTacToe-v0", "TwoStepGame-v0")
COMPONENTS = ("dqn", "ppo", "uniform", "prioritized", "rollout", "dataset", "sequence", "mlp", "lstm", "cnn")
ABSURD = (
    "",
    " ",
    "-",
    "--",
    "=",
    ",",
    "a=b",
    "[",
    "]",
    "{",
    "'",
    '"',
    "nan",
    "inf",
    "-1",
    "0",
    "1e999",
    "..",
)
PATHS = (
    "runs",
    "runs/run_0",
    "a/b/../c",
    "~",
    "file:///x",
    "gs://",
    "gs://bucket",
    "s3://b/c",
    "/",
    "a\0b",
    "[x]",
)

text = st.text(max_size=12) | st.sampled_from(ABSURD)
numbers = (
    st.integers(-5, 5)
    | st.integers()
    | st.floats(width=32)
    | st.sampled_from([1e-4, 0.5, 1, 16, 64, 10**6, 10**12])
).map(str)
scalars = numbers | text | st.sampled_from(["true", "false", "none", *COMPONENTS, *ENVS])
lists = st.lists(scalars, max_size=4).map(lambda each: f"[{','.join(each)}]")
mappings = st.dictionaries(text, scalars, max_size=3).map(
    lambda each: "{" + ",".join(f"{key}:{value}" for key, value in each.items()) + "}"
)
values = scalars | lists | mappings


@st.composite
def misspelled(draw, words):
    """One of some words, now and then with a letter missing, doubled or replaced."""
    word = draw(st.sampled_from(words))
    if not word or draw(st.integers(0, 4)):
        return word
    place = draw(st.integers(0, len(word) - 1))
    new = draw(st.sampled_from(["", word[place] * 2, "_", "é"]))
    return word[:place] + new + word[place + 1 :]


set_names = st.lists(misspelled(SETS), min_size=1, max_size=3).map("-".join) | text


@functools.cache
def fields(name):
    """Names of the hyperparameters of a set, nested ones dotted."""
    return tuple(named(name).flat())


@st.composite
def overrides(draw):
    """The text of `--hparam_override`."""
    names = fields(draw(st.sampled_from(SETS)))
    item = st.builds("{}={}".format, misspelled(names), values)
    return ",".join(draw(st.lists(item | text, max_size=4)))


@st.composite
def command_lines(draw):
    """Words after `train.py`."""
    known = {
        "--hparams": set_names,
        "--env": misspelled(ENVS) | text,
        "--hparam_override": overrides(),
        "--output_dir": st.sampled_from(PATHS) | text,
        "--record_data": st.sampled_from(PATHS) | text,
        "--list": misspelled(("hparams", "envs", "algos", "memory", "models")) | text,
    }
    flags = [flag for action in build_parser()._actions for flag in action.option_strings]
    words = [] if draw(st.integers(0, 3)) == 0 else ["--hparams", draw(misspelled(SETS))]
    for flag in draw(st.lists(misspelled(flags), max_size=4)):
        words.append(flag)
        count = draw(st.sampled_from([1, 1, 1, 0, 2]))
        words += [draw(known.get(flag, scalars)) for _ in range(count)]
    return words


@st.composite
def toml_files(draw):
    """What a file of the user's own may hold that was meant to be TOML."""
    names = fields(draw(st.sampled_from(SETS)))
    line = (
        st.builds("{} = {}".format, misspelled(names), values) | text | st.sampled_from(["[model]", "[[a]]"])
    )
    head = st.builds('base = "{}"'.format, set_names) | text
    return "\n".join([draw(head), *draw(st.lists(line, max_size=4))])
