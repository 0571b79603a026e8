"""Plays an environment of Gymnasium with an exported policy by LiteRT: `python serve_litert.py FOLDER`.

FOLDER: what `python -m rl.export RUN --format litert` has written. Needs gymnasium and ai-edge-litert alone.
"""

import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
from ai_edge_litert.interpreter import Interpreter

folder = Path(sys.argv[1])
described = json.loads((folder / "policy.json").read_text())
if described["env_wrappers"]:
    sys.exit(f"error: put {described['env']} into its wrappers first: {', '.join(described['env_wrappers'])}")
options = described["env_kwargs"] | {"max_episode_steps": described["max_episode_steps"]}
env = gymnasium.make(described["env"], **options)
(port,) = described["inputs"]  # of a policy without memory, for observations of one part
interpreter = Interpreter(str(folder / "policy.tflite"))
policy = interpreter.get_signature_runner()

for episode in range(5):
    observation, _ = env.reset(seed=episode)
    episode_return, ended = 0.0, False
    while not ended:
        action = policy(observation=np.asarray(observation, port["dtype"])[None])["action"]
        observation, reward, terminated, truncated, _ = env.step(action[0])
        episode_return, ended = episode_return + float(reward), terminated or truncated
    print(f"episode {episode}: return {episode_return:g}")
