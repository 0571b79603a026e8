"""The model card of a trained policy: Markdown with the header that hubs read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rl.plot.methods import digits
from rl.report.runs import RunData
from rl.report.statistics import Estimate, estimated

VERSIONS = ("python", "tensorflow", "keras", "gymnasium", "envpool", "rl", "git_commit")


class Facts(NamedTuple):
    """What a card says of a policy."""

    run: RunData
    step: int  # of the policy: environment steps, or updates of a run that learned from data alone
    returns: np.ndarray | None  # of the episodes just played; None: there is no environment to play in
    versions: dict[str, Any]  # of the training
    film: str | None  # its path in the folder
    repo: str | None  # where it can be had


def mean_return(returns: np.ndarray) -> Estimate:
    """Returns the mean over episodes, with a 95 % bootstrap interval over them."""
    return estimated(lambda tasks: tasks[0].mean(-1), [np.asarray(returns, np.float64)])


def card(facts: Facts) -> str:
    """Returns the text of README.md."""
    run = facts.run
    algo = str(run.hparams.get("algo"))
    parts = [_header(facts, algo), f"# {run.name}: {algo} on {run.env}"]
    parts.append(f"A policy trained for {facts.step:,} steps with seed {run.seed}.")
    parts += [*_result(facts), *_use(facts)]
    rows = [(name, *map(_code, pair)) for name, pair in run.difference.items()]
    parts += ["## Hyperparameters", "Those that differ from the default; `hparams.json` has all."]
    parts.append(_table(("name", "default", "here"), rows))
    known = [(name, facts.versions.get(name) or "-") for name in VERSIONS]
    parts += ["## Versions", _table(("", "trained with"), known)]
    return "\n\n".join(parts) + "\n"


def _header(facts: Facts, algo: str) -> str:
    """The YAML that hubs read; JSON's strings are YAML's."""
    quoted = json.dumps
    lines = ["---", "library_name: rl", "tags:", "- reinforcement-learning"]
    lines += [f"- {quoted(each)}" for each in (algo, facts.run.env)]
    if facts.returns is not None:
        places = max(digits(facts.returns.mean()), 2)
        value = f"{facts.returns.mean():.{places}f} +/- {facts.returns.std():.{places}f}"
        task = "{type: reinforcement-learning, name: reinforcement-learning}"
        env = quoted(facts.run.env)
        lines += ["model-index:", f"- name: {quoted(facts.run.name)}", "  results:", f"  - task: {task}"]
        lines += [f"    dataset: {{name: {env}, type: {env}}}", "    metrics:"]
        lines += [f"    - {{type: mean_reward, name: mean_reward, value: {quoted(value)}, verified: false}}"]
    return "\n".join([*lines, "---"])


def _result(facts: Facts) -> Iterator[str]:
    yield "## Result"
    if facts.returns is None:
        yield "It learned from data, and has not been played."
        return
    how, count = facts.run.hparams.get("eval_policy"), len(facts.returns)
    least, greatest, places = facts.returns.min(), facts.returns.max(), digits(facts.returns.mean())
    yield (
        f"Mean return **{mean_return(facts.returns).text(places)}** over {count} episodes ({how} actions), "
        f"from {least:.{places}f} to {greatest:.{places}f}."
    )
    yield (
        "The interval is a 95 % bootstrap over episodes of this one policy: it does not say what training "
        "with another seed would come to."
    )
    if facts.film is not None:
        yield f"A film of an episode: [{facts.film}]({facts.film})."


def _use(facts: Facts) -> Iterator[str]:
    folder = "THIS_FOLDER" if facts.repo is None else "folder"
    lines = ["```python", "import rl", ""]
    if facts.repo is not None:
        lines[1:2] = ["from huggingface_hub import snapshot_download", "", "import rl"]
        lines.append(f"folder = snapshot_download({facts.repo!r})")
    plays = bool(facts.run.hparams.get("env"))
    given = (f'"{folder}"' if facts.repo is None else "folder") + ("" if plays else ", env=ENVIRONMENT")
    lines += [f"policy = rl.load({given})", "action = policy(observation)"]
    lines += ["print(policy.evaluate(episodes=20).returns.mean())"] * plays
    yield "## Use"
    yield "\n".join([*lines, "```"])
    if not plays:  # its spaces are those of the data, which are not in the folder
        yield "It names no environment: ENVIRONMENT is one that looks as its data do, an id or a function."


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [" | ".join(row) for row in (header, ["---"] * len(header), *rows)]
    return "\n".join(f"| {line} |" for line in lines)


def _code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`" if text else "-"
