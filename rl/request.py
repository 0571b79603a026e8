"""What was asked for: made by `rl.cli` and `rl.api`, handed on whole to the trainer."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from rl.report.callbacks import Calls
from rl.workers.plan import Workers

if TYPE_CHECKING:
    from rl.hparams.hparams import HParams


@dataclasses.dataclass(frozen=True)
class Request:
    """A command, or a call of `rl.train`: copies of a run to be trained, continued or only tested."""

    hparams: HParams | None  # frozen; None: only tested, and each run says what it is
    name: str | None = None  # of the set
    output_dir: str = ""  # of all copies: a folder or an address
    sys: str = "local"  # local, gpu or tpu
    seed: int = 0  # of the first copy; the next one has the next
    copies: int = 1
    copy: int | None = None  # the only one of them that is this process's; None: all are
    parallel: int = 1  # copies trained side by side
    training: bool = True  # False: only tested
    render: bool = False
    record_video: bool = False
    record_data: str | None = None  # the folder of a data set to which what is played is added
    eval_episodes: int = 10
    test_episodes: int = 10
    eval_policy: str | None = None  # of tests; None: as each run was trained
    track: str | None = None  # the tracker that is told of training, of `rl.report.trackers.TRACKERS`
    overrides: str = ""  # single hyperparameters, as they were typed
    command: str = ""  # as a shell takes it back
    workers: Workers | None = None
    calls: Calls = dataclasses.field(default_factory=Calls, compare=False)  # of the caller's callbacks
    user_modules: tuple[str, ...] = ()  # that other processes import first

    def of_copy(self, copy: int) -> Request:
        """Returns the request of one copy alone, with its seed."""
        return dataclasses.replace(self, seed=self.seed + copy)
