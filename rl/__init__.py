"""Reinforcement learning on TensorFlow 2 and Keras 3: one command, or `rl.train(...)` from Python.

    import rl
    run = rl.train("ppo_cartpole", output_dir="runs/ppo_cartpole")
    policy = run.policy()            # or rl.load("runs/ppo_cartpole")
    action = policy(observation)

Importing this package imports neither TensorFlow nor Keras; the first call does. It does set XLA_FLAGS, for
all of XLA in the process, unless TensorFlow is imported already (`rl.programs.choose_kernels`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rl.errors import UsageError
from rl.programs import choose_kernels
from rl.version import __version__ as __version__

choose_kernels()  # here, so that all processes that import any part of the package compute alike

if TYPE_CHECKING:
    from rl.api import Run, load, make_hparams, train
    from rl.policy import Policy
    from rl.report.callbacks import Callbacks

__all__ = ["Callbacks", "Policy", "Run", "UsageError", "load", "make_hparams", "train"]


def __getattr__(name: str) -> Any:
    if name == "Callbacks":
        from rl.report.callbacks import Callbacks

        return Callbacks
    if name in __all__:
        from rl.imports import import_tensorflow

        import_tensorflow()  # as quietly as the command line does
        from rl import api

        return getattr(api, name)
    raise AttributeError(f"module 'rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
