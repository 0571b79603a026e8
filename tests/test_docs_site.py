"""The site of the pages: it has all of them, its links hold, and a browser shows it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import browser
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


def leaves(nav):
    """The pages of a navigation."""
    for entry in nav:
        (value,) = entry.values()
        yield from leaves(value) if isinstance(value, list) else [value]


def test_the_navigation_has_every_page_once():
    """But for those of the algorithms: tools/docs_site.py adds them."""
    listed = list(leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    one = {page for page in pages if not page.startswith("algos/")} | {"algos/README.md"}
    assert one <= set(listed) and len(set(listed)) == len(listed)
    assert all((ROOT / page).exists() for page in set(listed) - one)
    results = {str(path.relative_to(ROOT)) for path in (ROOT / "benchmarks" / "results").glob("*.md")}
    assert results <= set(listed)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_it_is_built_without_warnings_and_shown(tmp_path):
    """Broken links, anchors that are none and pages without a place are warnings."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stderr[-3000:]
    found = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.html")}
    assert {
        "algos/td3_bc.html",
        "source/rl/agents/algos/dqn.py.html",
        "benchmarks/results/speed.html",
    } <= found
    if browser.needed.args[0]:
        return
    pages = [
        "index.html",
        "reference.html",
        "migration.html",
        "algos/ppo.html",
        "benchmarks/results/index.html",
    ]
    with browser.served(tmp_path / "site") as address:
        for page in pages:
            assert 'class="md-content"' in browser.shown(f"{address}/{page}", "--virtual-time-budget=2000"), (
                page
            )
