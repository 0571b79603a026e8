"""The command, run here, and what it writes for each example."""

from __future__ import annotations

import contextlib
import io
from types import SimpleNamespace

import pytest
import yaml
from k8s_examples import EXAMPLES

from k8s.generate import main

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def written(folder, flags):
    """Runs the command in a folder: exit code, what it printed, and the objects that it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(flag) for flag in flags])
    files = sorted(folder.rglob("*.yaml"))
    objects = [each for path in files for each in yaml.load_all(path.read_text(), LOADER)]
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue(), objects=objects, files=files)


@pytest.fixture
def generate(tmp_path):
    """The command, run in an empty folder."""
    return lambda *flags: written(tmp_path, flags)


@pytest.fixture(scope="session", params=EXAMPLES)
def example(request, tmp_path_factory):
    """The objects of each example, which several tests look at."""
    found = written(tmp_path_factory.mktemp(request.param), EXAMPLES[request.param])
    assert found.code == 0, found.err
    return found
