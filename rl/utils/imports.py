"""TensorFlow's first import, without what it says; what to do where it is not installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile

# Of requirements.txt, what every run imports.
_REQUIRED = {
    "ai_edge_litert",
    "gymnasium",
    "keras",
    "lz4",
    "numpy",
    "pydantic",
    "rich",
    "tensorboard",
    "tensorflow",
}


def not_set_up(error: ModuleNotFoundError) -> str | None:
    """What to do about a module that `setup.sh` would have installed, in one line; None for any other."""
    package = (error.name or "").partition(".")[0]
    if package not in _REQUIRED or importlib.util.find_spec(package) is not None:
        return None
    advice = "source .venv/bin/activate, or ./setup.sh where there is no .venv yet"
    return f"{package} is not installed for {sys.executable}: {advice}"


def import_tensorflow() -> None:
    """Imports TensorFlow without the lines it writes to stderr each time, whatever its settings.

    Later it says warnings and errors alone, unless TF_CPP_MIN_LOG_LEVEL is set.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            importlib.import_module("tensorflow")
        except BaseException:  # then what was written may say why
            written.seek(0)
            os.write(stderr, written.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
