"""A process in which many commands are given one after another, and what they compile is kept: for damage to
files, of which hundreds of cases need the same run. All that a command does with files it does here too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from faulted.runs import LIMIT, ROOT, outputs_to
from rl.signals import end_with_parent


class House:
    """The process: a fork of this one."""

    def __init__(self) -> None:
        asked, self._asking = os.pipe()
        self._told, telling = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _live(parent, asked, telling)
        os.close(asked)
        os.close(telling)

    def run(self, words: Sequence[str], output: Path) -> int | None:
        """Gives a command; returns its exit code, None where it hangs."""
        os.write(self._asking, (json.dumps([list(words), str(output)]) + "\n").encode())
        os.set_blocking(self._told, False)
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                answer = os.read(self._told, 64)
                return int(answer) if answer else 1  # it has died
            time.sleep(0.005)
        return None

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._asking)
        os.close(self._told)


class Housed:
    """A command that was given in a house, as `faulted.runs.Run`; it has ended."""

    house: House | None = None  # of this process

    def __init__(self, words: Sequence[str], output: Path):
        self.words, self.output = [str(word) for word in words], output
        Housed.house = Housed.house or House()
        self._code = Housed.house.run(self.words, output)
        if self._code in (None, 1):  # what is left of it is not to be trusted
            Housed.house.end()
            Housed.house = None

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def wait(self) -> int | None:
        return self._code

    def left(self) -> list[int]:
        """None of its processes: it starts none."""
        return []

    def end(self) -> None:
        pass


def _live(parent: int, asked: int, telling: int) -> None:
    """The house's life: it ends with the campaign."""
    try:
        os.setsid()
        end_with_parent(parent, signal.SIGKILL)
        os.chdir(ROOT)
        sys.argv = ["train.py"]
        _keep_what_is_compiled()
        with os.fdopen(asked) as lines:
            for line in lines:
                words, output = json.loads(line)
                os.write(telling, b"%d" % _given(words, Path(output)))
    finally:
        os._exit(1)


def _given(words: list[str], output: Path) -> int:
    from rl.cli import main

    outputs_to(output)
    try:
        code = main(words)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _keep_what_is_compiled() -> None:
    """Has the commands of this process share runners, evaluators and graphs of equal hyperparameters."""
    from rl import saved_run
    from rl.runners import health, trainer
    from rl.runners import kept as of_a_run

    kept: dict[Any, Any] = {}

    def once(key: Any, make: Callable[[], Any]) -> Any:
        if key not in kept:
            kept[key] = make()
        return kept[key]

    def key_of(hparams: Any) -> str:
        return json.dumps(hparams.to_dict(), sort_keys=True)

    build, algo = of_a_run.build_runner, saved_run.get_algo
    evaluator, finite, graph = of_a_run.Evaluator, health.FiniteCheck, trainer.Trainer._policy_graph

    def runner(hparams: Any, seed: int, *rest: Any) -> Any:
        key = "runner", key_of(hparams)
        found = once(key, lambda: build(hparams, seed, *rest))
        start = once((*key, "start"), lambda: {name: v.numpy() for name, v in found.variables.items()})
        for name, variable in found.variables.items():
            variable.assign(start[name])
        found.begin_window()
        return found

    def agent(name: str) -> Callable[..., Any]:
        def make(hparams: Any, *rest: Any) -> Any:
            trained = kept.get(("runner", key_of(hparams)))
            return algo(name)(hparams, *rest) if trained is None else trained.agent

        return make

    def evaluating(of: Any, episodes: int, *rest: Any) -> Any:
        found = once(("evaluator", id(of), episodes), lambda: evaluator(of, episodes, *rest))
        found.close = lambda: None
        return found

    of_a_run.build_runner, saved_run.get_algo = runner, agent
    of_a_run.Evaluator = evaluating  # type: ignore[misc, assignment]
    health.FiniteCheck = lambda of: once(  # type: ignore[misc, assignment]
        ("finite", *map(id, of.values())), lambda: finite(of)
    )
    trainer.Trainer._policy_graph = lambda self: once(  # type: ignore[method-assign]
        ("graph", id(self.agent)), lambda: graph(self)
    )
