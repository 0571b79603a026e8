"""What workers import of a caller's own."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from rl.agents.algos.act_select.registry import registry as act_selects
from rl.hparams.merge import resolve
from rl.models.registry import registry as models
from rl.registry import Entry
from rl.workers.imported import callers_modules, registering_modules


def test_what_a_caller_has_registered_is_found_by_the_names_in_hparams(monkeypatch):
    for registry, name, module in ((models, "mine", "my.nets"), (act_selects, "my_select", "my_select")):
        entry = Entry(name, "", module, name, f"{module}.py")
        monkeypatch.setitem(registry._entries(), name, entry)
    for name, made_by in (("Mine-v0", "my_envs:Mine"), ("Yours-v0", pytest.Item)):
        monkeypatch.setitem(gymnasium.registry, name, EnvSpec(name, made_by))
    assert callers_modules(resolve("dqn_cartpole")) == ()
    found = resolve("dqn", {"env": "Mine-v0", "model.name": "mine", "act_select": "my_select"})
    assert callers_modules(found) == ("my.nets", "my_select", "my_envs")
    assert registering_modules(found) == ("my.nets", "my_select")  # an environment's package needs no import
    assert callers_modules(resolve("dqn", {"env": "Yours-v0"})) == ("_pytest.nodes",)
