"""Where a run computes: `get_system("local" | "gpu" | "tpu")`."""

from rl.systems.system import System, get_system, strategy, use_system

__all__ = ["System", "get_system", "strategy", "use_system"]
