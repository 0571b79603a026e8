"""TensorFlow's and Keras' first import, quiet and quick; what to do where they are not installed."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator

from rl import programs
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
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            with _no_garbage():
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
