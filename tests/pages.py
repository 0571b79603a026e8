"""What our pages tell one to type, in the order written: the one parser of README.md, docs/ and others."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import NamedTuple

from rl.cli import FAMILIES, registry_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "k8s/README.md"),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
_FENCE = re.compile(r"^(```.*?^```)$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(python|make|pip|git|docker|kubectl|tensorboard|source|for|\./setup\.sh|--\w+)\b")
_INLINE = re.compile(r"`(python (?:train\.py|-m rl\.(?:export|plot|tune)) [^`]+)`")
_FILE = re.compile(r"`([\w/]+\.(?:py|toml))`")
_CODE = re.compile(r"```(?:python|toml)\n")


class Step(NamedTuple):
    """One thing to do.

    kind: "shell" for a command, "python" for a block to run, "file" for one to save as `name`, "text" for an
    indented block that is none of these.
    """

    kind: str
    text: str
    name: str = ""

    @property
    def words(self) -> list[str]:
        """Of a command, without its comment."""
        return shlex.split(self.text, comments=True)


def steps(page: str) -> list[Step]:
    """All steps of a page: blocks within fences, indented blocks, and commands of ours within lines."""
    found: list[Step] = []
    before = ""  # the paragraph before, which may name a file
    for part in _FENCE.split((ROOT / page).read_text(encoding="utf-8")):
        if _CODE.match(part):
            code, names = part.partition("\n")[2].removesuffix("```"), _FILE.findall(before)
            found.append(Step("file", code, names[-1]) if names else Step("python", code))
            continue
        if part.startswith("```"):
            found += _commands(part.partition("\n")[2].removesuffix("```"))
            continue
        for before in filter(str.strip, re.split(r"\n\s*\n", part.strip("\n"))):
            if before.startswith("    "):
                found += _commands(textwrap.dedent(before))
            else:
                found += [Step("shell", " ".join(each.split())) for each in _INLINE.findall(before)]
    return found


def _commands(block: str) -> list[Step]:
    lines = block.replace("\\\n", " ").strip("\n").splitlines()
    if all(map(_COMMAND.match, lines)):
        return [Step("shell", line) for line in lines]
    return [Step("text", block)]


def forget_parts(folder: Path) -> None:
    """Takes out of all registries what files in that folder have registered."""
    for family in FAMILIES:
        known = registry_of(family)._entries()
        for name in [name for name, entry in known.items() if entry.path.startswith(str(folder))]:
            del known[name]
