"""A window of iterations, which may be left before its first one."""

from __future__ import annotations

from types import SimpleNamespace

from rl.runners.window import Window


class Runner:
    """Makes an iteration of 8 steps after it was asked twice whether to go on."""

    starting, steps_per_iteration, step = "compiling ...", 8, 0

    def advance(self, count, go_on):
        if not go_on(0):
            return 0
        for made in range(1, count + 1):
            self.step += self.steps_per_iteration
            if not go_on(made):
                break
        return made


def test_what_the_first_iteration_waits_for_is_said_once_however_often_it_is_left():
    said = []
    progress = SimpleNamespace(message=said.append, update=lambda step: None)
    window = Window(Runner(), SimpleNamespace(log_period=32, train_steps=100))
    assert not window.run(progress, lambda: True) and not window.run(progress, lambda: True)
    assert said == ["compiling ..."] and not window.begun
    assert window.run(progress, lambda: False) and window.begun and window.steps == 32
    assert len(said) == 2 and said[1].startswith("first iteration done after ")
    assert window.run(progress, lambda: False) and len(said) == 2
