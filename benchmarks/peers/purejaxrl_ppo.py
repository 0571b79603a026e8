"""PureJaxRL's PPO on gymnax's CartPole-v1, or a MinAtar game with --env; argument: a PureJaxRL checkout.

--seeds: how many are trained side by side, by vmap; steps and updates are then those of all.
"""

from __future__ import annotations

import time

import arguments
import jax
import numpy as np
import purejaxrl_script
from meter import Meter, checkout_version

args = arguments.parse(__doc__, 200_000, checkout=str, envs=8, env="CartPole-v1", seeds=1)
minatar = args.env.endswith("-MinAtar")
version = f"{checkout_version(args.checkout)}, jax {jax.__version__}"
meter = Meter("purejaxrl", version, f"ppo_{args.env}", 0)
rounds = -(-args.steps // (args.envs * 128))
config = {
    "LR": 5e-3 if minatar else 1e-3,
    "NUM_ENVS": args.envs,
    "NUM_STEPS": 128,
    "TOTAL_TIMESTEPS": args.envs * 128 * rounds,
    "UPDATE_EPOCHS": 4,
    "NUM_MINIBATCHES": 8 if minatar else 4,
    "GAMMA": 0.99,
    "GAE_LAMBDA": 0.95,
    "CLIP_EPS": 0.2,
    "ENT_COEF": 0.01,
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": 0.5,
    "ACTIVATION": "relu" if minatar else "tanh",
    "ENV_NAME": args.env,
    "ANNEAL_LR": False,
    "DEBUG": False,
}
train = purejaxrl_script.load(args.checkout, "ppo.py")["make_train"](config)
meter.start()
begun = time.perf_counter()
run, key = purejaxrl_script.compiled(train, args.seed, args.seeds)
compile_s = time.perf_counter() - begun
meter.mark(0)
out = jax.block_until_ready(run(key))
meter.mark(args.seeds * config["TOTAL_TIMESTEPS"], args.seeds * rounds * 4 * config["NUM_MINIBATCHES"])

ended = np.asarray(out["metrics"]["returned_episode"]).reshape(-1)  # of each seed in the order of steps
returns = np.asarray(out["metrics"]["returned_episode_returns"]).reshape(-1)[ended]
meter.report(float(returns[-100:].mean()), compile_s=round(compile_s, 2), envs=args.envs)
