"""Plays an environment of Gymnasium with an exported policy by ONNX Runtime: `python serve_onnx.py FOLDER`.

FOLDER: what `python -m rl.export RUN --format onnx` has written. Needs gymnasium and onnxruntime alone.
"""

import importlib
import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
import onnxruntime


def make(name, limit, options):
    """Makes an environment by an id of Gymnasium's, or by `module:function` of one's own."""
    module, _, function = name.rpartition(":")
    own = getattr(importlib.import_module(module), function, None) if module else None
    if own is None:
        return gymnasium.make(name, max_episode_steps=limit, **options)
    return own(**options) if limit in (None, -1) else gymnasium.wrappers.TimeLimit(own(**options), limit)


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
if not (folder / "policy.json").is_file() or not (folder / "policy.onnx").is_file():
    sys.exit(f"error: there is no policy.onnx in {folder}: python -m rl.export RUN --format onnx writes one")
described = json.loads((folder / "policy.json").read_text())
if described["env_wrappers"]:
    sys.exit(f"error: put {described['env']} into its wrappers first: {', '.join(described['env_wrappers'])}")
if len(described["inputs"]) > 1:
    names = ", ".join(each["name"] for each in described["inputs"])
    sys.exit(
        f"error: this example gives one observation, the policy takes {names}: policy.json says what they are"
    )
sys.path.insert(0, "")  # modules of one's own lie where this is called
try:
    env = make(described["env"], described["max_episode_steps"], described["env_kwargs"])
except (ImportError, gymnasium.error.Error) as error:
    sys.exit(f"error: the policy's environment {described['env']!r} is not here: {error}")
(port,) = described["inputs"]
session = onnxruntime.InferenceSession(folder / "policy.onnx")

for episode in range(5):
    observation, _ = env.reset(seed=episode)
    episode_return, ended = 0.0, False
    while not ended:
        (action,) = session.run(["action"], {"observation": np.asarray(observation, port["dtype"])[None]})
        observation, reward, terminated, truncated, _ = env.step(action[0])
        episode_return, ended = episode_return + float(reward), terminated or truncated
    print(f"episode {episode}: return {episode_return:g}")
