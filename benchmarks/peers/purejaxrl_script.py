"""Loads a script of a PureJaxRL checkout against the installed gymnax, changing nothing in the checkout.

PureJaxRL was written for gymnax's five-value step; gymnax 1.0 returns six. The adapter joins the two done
flags again. Modules that the scripts import, but that these runs do not use, are replaced by empty ones.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import gymnax
import jax

UNUSED = ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix", "wandb")

jax.tree_map = jax.tree_util.tree_map  # its name when the scripts were written


class FiveValueStep:
    """A gymnax environment whose step returns one done flag."""

    def __init__(self, env: Any):
        self.inner = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def step(self, key: Any, state: Any, action: Any, params: Any = None) -> tuple:
        observation, state, reward, terminated, truncated, _ = self.inner.step(key, state, action, params)
        return observation, state, reward, terminated | truncated, {}


def load(checkout: str, script: str) -> dict[str, Any]:
    """The namespace of one script, its main part left out."""
    make = gymnax.make

    def adapted(name: str) -> tuple[FiveValueStep, Any]:
        env, params = make(name)
        return FiveValueStep(env), params

    for name in UNUSED:
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["brax"].envs = sys.modules["brax.envs"]  # type: ignore[attr-defined]
    for name in ("EpisodeWrapper", "AutoResetWrapper"):
        setattr(sys.modules["brax.envs.wrappers.training"], name, None)
    folder = os.path.join(checkout, "purejaxrl")
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True  # the next import would leave a cache in the checkout
    import wrappers

    sys.dont_write_bytecode = False
    # The scripts take the same wrappers from gymnax where they do not bring their own.
    old = types.ModuleType("gymnax.wrappers.purerl")
    for name in ("FlattenObservationWrapper", "LogWrapper"):
        setattr(old, name, getattr(wrappers, name))
    sys.modules["gymnax.wrappers.purerl"] = old
    namespace: dict[str, Any] = {"__name__": "purejaxrl_script"}
    with open(os.path.join(folder, script)) as file:
        exec(compile(file.read(), script, "exec"), namespace)
    namespace["gymnax"] = types.SimpleNamespace(make=adapted)
    return namespace


def compiled(train: Any, seed: int, seeds: int = 1) -> tuple[Any, Any]:
    """(the compiled training run, its key); of several seeds, which run side by side by vmap, their keys."""
    key = jax.random.PRNGKey(seed)
    if seeds > 1:
        train, key = jax.vmap(train), jax.random.split(key, seeds)
    return jax.jit(train).lower(key).compile(), key
