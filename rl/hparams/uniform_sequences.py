"""What the memory of sequences reads, of algorithms that sample all sequences alike and whole."""

from __future__ import annotations

from typing import ClassVar


class UniformSequences:
    """No priorities, no burn-in: nothing to choose."""

    prioritized: ClassVar[bool] = False
    burn_in: ClassVar[int] = 0
    priority_exponent: ClassVar[float] = 0.0
    priority_epsilon: ClassVar[float] = 1e-6
    importance_sampling_exponent: ClassVar[float] = 0.0
    importance_sampling_exponent_end: ClassVar[float] = 0.0
