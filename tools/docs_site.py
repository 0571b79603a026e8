"""Makes a site of this repository's pages where they stand: hooks of MkDocs, which mkdocs.yml names.

README.md and others outside docs/ are pages of the site too. What a page links to is there as well: sources
become pages with their text. So links hold in the repository and on the site, wherever that is put.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "k8s/README.md", "benchmarks/README.md", "benchmarks/results/*.md")
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".html": "html", ".js": "javascript"}
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=(?:#[^)\s]*)?\))")


def place(path: str) -> str:
    """Returns where a file of the repository stands on the site, as MkDocs names sources."""
    if path.endswith((".md", ".png", ".svg")):
        return path.removeprefix("docs/")
    return f"source/{path}.md"


def linked(page: str, target: str) -> str | None:
    """Returns the file of the repository that a page (its path) links to; None where it links elsewhere."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if "://" in target or path.startswith(".."):
        return None
    return path if (ROOT / path).is_file() else None


def on_config(config: Any) -> Any:
    """Adds the algorithms' pages to the navigation, behind the page that lists them."""
    names = sorted(path.stem for path in (ROOT / "docs/algos").glob("*.md") if path.stem != "README")
    for section in config.nav:
        section.get("Algorithms", []).extend({name: f"algos/{name}.md"} for name in names)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages outside docs/, and what all pages link to."""
    inside = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    outside = [str(path.relative_to(ROOT)) for pattern in OUTSIDE for path in sorted(ROOT.glob(pattern))]
    for path in outside:
        files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    for page in inside + outside:
        for target in _LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            file = linked(page, target)
            if file is not None and place(file) not in files.src_uris:
                files.append(_generated(config, file))
    return files


def _generated(config: Any, path: str) -> File:
    """Makes a file of the site from one of the repository that is no page."""
    if place(path) == path:
        return File.generated(config, path, abs_src_path=str(ROOT / path))
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".ipynb"):
        return File.generated(config, place(path), content="\n\n".join(map(_cell, json.loads(text)["cells"])))
    fence = f"```` {LANGUAGES.get(Path(path).suffix, 'text')}"
    head = "---\nsearch: {exclude: true}\nhide: [navigation, toc]\n---\n"
    return File.generated(config, place(path), content=f"{head}# {path}\n\n{fence}\n{text}\n````\n")


def _cell(cell: dict[str, Any]) -> str:
    """Returns a notebook's cell in Markdown."""
    text = "".join(cell["source"])
    return text if cell["cell_type"] == "markdown" else f"```` python\n{text}\n````"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Points links at where their files stand on the site."""
    here = page.file.src_uri
    source = here if (ROOT / here).is_file() else f"docs/{here}"

    def moved(found: re.Match[str]) -> str:
        path = linked(source, found[0])
        return found[0] if path is None else posixpath.relpath(place(path), posixpath.dirname(here) or ".")

    return markdown if here.startswith("source/") else _LINK.sub(moved, markdown)
