"""PureJaxRL's DQN on gymnax's CartPole-v1; argument: a PureJaxRL checkout.

The rate covers the whole run, of which the first fifth does not learn: the run is one compiled call.
"""

from __future__ import annotations

import time

import arguments
import jax
import numpy as np
import purejaxrl_script
from meter import Meter, checkout_version

args = arguments.parse(__doc__, 50_000, checkout=str, envs=1)
version = f"{checkout_version(args.checkout)}, jax {jax.__version__}"
meter = Meter("purejaxrl", version, "dqn_cartpole", 0)
config = {
    "NUM_ENVS": args.envs,
    "BUFFER_SIZE": 10_000,
    "BUFFER_BATCH_SIZE": 128,
    "TOTAL_TIMESTEPS": args.steps,
    "EPSILON_START": 1.0,
    "EPSILON_FINISH": 0.05,
    "EPSILON_ANNEAL_TIME": args.steps // 2,
    "TARGET_UPDATE_INTERVAL": 500,
    "LR": 2.5e-4,
    "LEARNING_STARTS": 10_000,
    "TRAINING_INTERVAL": 10,
    "LR_LINEAR_DECAY": False,
    "GAMMA": 0.99,
    "TAU": 1.0,
    "ENV_NAME": "CartPole-v1",
}
train = purejaxrl_script.load(args.checkout, "dqn.py")["make_train"](config)
meter.start()
begun = time.perf_counter()
run, key = purejaxrl_script.compiled(train, args.seed)
compile_s = time.perf_counter() - begun
meter.mark(0)
metrics = jax.block_until_ready(run(key))["metrics"]
meter.mark(int(metrics["timesteps"][-1]), int(metrics["updates"][-1]))
# At each step, the last finished episode's return: over the last 10,000 steps.
returns = np.asarray(metrics["returns"])[-10_000 // args.envs :]
meter.report(float(returns.mean()), compile_s=round(compile_s, 2), envs=args.envs)
