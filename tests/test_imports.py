"""What is said of packages that are not there."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
import typing

import pytest

from rl import cli, imports
from rl.errors import UsageError


def missing(module):
    with imports.needing_packages():
        raise ModuleNotFoundError("there is none", name=module)


def test_only_what_the_set_up_installs_is_its_matter(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "keras" else find(name))
    with pytest.raises(UsageError, match=r"keras is not installed for .*source .venv/bin/activate"):
        missing("keras.ops")
    for other in ("rl.nothing", "somebodys", "numpy.inside", None):  # numpy itself is there
        with pytest.raises(ModuleNotFoundError, match="there is none"):
            missing(other)


@pytest.mark.parametrize("level", [None, "0"])
def test_tensorflow_is_quiet_unless_it_is_asked_not_to_be(monkeypatch, level):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    monkeypatch.setattr(imports.programs, "keep", lambda: None)
    if level is not None:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    imported = {}

    def note(name):
        imported[name] = os.environ["TF_CPP_MIN_LOG_LEVEL"]

    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "tensorflow", raising=False)
        patch.setattr(importlib, "import_module", note)
        imports.import_tensorflow()
    assert imported == {"tensorflow": level or "3", "keras": level or "3"}


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_no_garbage_is_looked_for_while_it_imports_nor_later_among_what_it_imported(
    monkeypatch, enabled, fails
):
    found = []

    def note(name):
        found.append(gc.isenabled())
        if fails:
            raise ImportError(name)

    monkeypatch.setattr(imports.programs, "keep", lambda: None)
    monkeypatch.setattr(gc, "freeze", lambda: found.append("frozen"))
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with (
            monkeypatch.context() as patch,
            pytest.raises(ImportError) if fails else contextlib.nullcontext(),
        ):
            patch.delitem(sys.modules, "tensorflow", raising=False)
            patch.setattr(importlib, "import_module", note)
            imports.import_tensorflow()
        assert found == ([False] if fails else [False, False, "frozen"]) and gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_what_is_put_off_is_imported_when_it_is_used(tmp_path, monkeypatch):
    folder = tmp_path / "seldom_used"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text("value = 3")
    monkeypatch.syspath_prepend(tmp_path)
    names = ["seldom_used", "seldom_used.part"]
    found = {}
    with imports._put_off(*names, "nowhere_at_all"):
        exec("import seldom_used.part as one\nfrom seldom_used import part as other", found)
        assert not hasattr(found["one"], "__file__")  # nothing that looks through all modules imports it
        with pytest.raises(ModuleNotFoundError):
            exec("import nowhere_at_all")
    assert not set(names) & set(sys.modules)
    try:
        assert found["one"].value == found["other"].value == 3
        assert importlib.import_module("seldom_used.part").__file__ == str(folder / "part.py")
        with pytest.raises(AttributeError, match="nothing"):
            found["one"].nothing  # noqa: B018
    finally:
        for name in names:
            sys.modules.pop(name, None)


def test_an_annotation_is_compiled_once_while_it_imports():
    with imports._each_annotation_compiled_once():
        one, other = (typing.ForwardRef("list[int]") for _ in range(2))
        assert one.__forward_code__ is other.__forward_code__
    assert typing.ForwardRef("list[int]").__forward_code__ is not one.__forward_code__


def test_other_modules_that_are_missing_keep_their_traceback(monkeypatch):
    def run(_):
        import somebodys_module_that_is_nowhere  # noqa: F401

    monkeypatch.setattr(cli, "_run", run)
    with pytest.raises(ModuleNotFoundError, match="somebodys"):
        cli.main([])
