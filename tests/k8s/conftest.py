"""The command, run here, and what it writes for each example."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml
from k8s_examples import EXAMPLES

from k8s.generate import main


@pytest.fixture
def generate(tmp_path, monkeypatch, capsys):
    """Runs the command in an empty folder: exit code, what it printed, and the objects that it wrote."""
    monkeypatch.chdir(tmp_path)

    def run(*flags):
        code = main([str(flag) for flag in flags])
        out, err = capsys.readouterr()
        files = sorted(tmp_path.rglob("*.yaml"))
        texts = {path: path.read_text() for path in files}
        objects = [each for text in texts.values() for each in yaml.safe_load_all(text)]
        return SimpleNamespace(code=code, out=out, err=err, objects=objects, files=files)

    return run


@pytest.fixture(params=EXAMPLES)
def example(request, generate):
    """The objects of each example."""
    written = generate(*EXAMPLES[request.param])
    assert written.code == 0, written.err
    return written
