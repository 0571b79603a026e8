"""TensorFlow's and Keras' first import, quiet and quick; what to do where they are not installed."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.util
import os
import sys
import tempfile
import types
import typing
from collections.abc import Iterator
from typing import Any

from rl import cores, programs
from rl.errors import UsageError

# Of requirements.txt, what every run imports.
_REQUIRED = {
    "ai_edge_litert",
    "gymnasium",
    "h5py",
    "keras",
    "lz4",
    "numpy",
    "pydantic",
    "rich",
    "tensorboard",
    "tensorflow",
}


# What Keras and TensorFlow import where it is installed, for pictures, notebooks and servers.
_UNUSED = ("IPython", "matplotlib", "matplotlib.patches", "matplotlib.pyplot", "requests")


@contextlib.contextmanager
def needing_packages() -> Iterator[None]:
    """Raises UsageError, which says what to do, where a module is missing that `setup.sh` installs."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _REQUIRED or importlib.util.find_spec(package) is not None:
            raise
        advice = "source .venv/bin/activate, or ./setup.sh where there is no .venv yet"
        raise UsageError(f"{package} is not installed for {sys.executable}: {advice}") from error


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras without the lines they write to stderr each time, whatever their settings.

    Later TensorFlow raises its errors and logs none, unless TF_CPP_MIN_LOG_LEVEL is set: loading a program
    that is kept (`rl.programs`), it would log on some processors that their own features may be missing.

    Python does not look for garbage meanwhile, nor ever again among what is alive afterwards, 600,000
    objects: that took a quarter of the processor time of a start.
    """
    if "tensorflow" in sys.modules:
        return
    programs.keep()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if cores.usable() < cores.bound():  # TensorFlow itself looks at no container's limit
        for pool in ("INTEROP", "INTRAOP"):
            os.environ.setdefault(f"TF_NUM_{pool}_THREADS", str(cores.usable()))
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            with _no_garbage(), _each_annotation_compiled_once(), _put_off(*_UNUSED):
                importlib.import_module("tensorflow")
                importlib.import_module("keras")
        except BaseException:  # then what was written may say why
            written.seek(0)
            os.write(stderr, written.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextlib.contextmanager
def _each_annotation_compiled_once() -> Iterator[None]:
    """Keeps what `typing` compiles inside.

    TensorFlow's generated modules write the same 200 annotations 18,000 times, in quotes."""
    vars(typing)["compile"] = functools.cache(compile)  # which its own code finds before the builtin
    try:
        yield
    finally:
        del vars(typing)["compile"]


@contextlib.contextmanager
def _put_off(*names: str) -> Iterator[None]:
    """Gives imports of these modules inside a stand-in, which imports the real one when something of it is
    used. Afterwards they are imported as ever.

    A module within a package comes after it. What is not installed, or was imported before, is left alone."""
    absent = [name for name in names if name.partition(".")[0] not in sys.modules]
    stand_ins = {name: _stand_in(name) for name in absent if importlib.util.find_spec(name.partition(".")[0])}
    for name, module in stand_ins.items():
        package, _, short = name.rpartition(".")
        if package:
            setattr(stand_ins[package], short, module)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _stand_in(name: str) -> types.ModuleType:
    """Returns an empty module that has what the module of that name has."""
    module = types.ModuleType(name)

    def of_the_real_one(attribute: str) -> Any:
        if attribute.startswith("__"):  # what looks through all modules asks for these
            raise AttributeError(attribute)
        if sys.modules.get(name) is module:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    vars(module)["__getattr__"] = of_the_real_one
    return module


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Looks for garbage before, not inside, and afterwards only among what is newer."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if enabled:
            gc.enable()
