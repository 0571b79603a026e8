"""Simulations/s of our tree searches beside mctx's, in the same learned model of dense layers.

    python benchmarks/tree_search.py --mctx MCTX/bin/python [--kind puct --roots 64 --simulations 32]

MCTX is a Python with mctx and jax (`pip install mctx`). Both search from the same states, without noise, with
the same weights; the last number says of how many roots all moves are visited equally often by both. They
take turns, `--rounds` times, each on one core (`--core`), and the medians are printed. Nothing is written.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import shared

from rl.imports import import_tensorflow

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

import numpy as np  # noqa: E402
from mctx_search import GAMMA, first_states, made_weights, options, simulations_per_second  # noqa: E402


def ours(args) -> dict:
    """What `mctx_search.py` prints, of our searches."""
    import_tensorflow()  # as the command line does, so that XLA computes as in train.py
    import tensorflow as tf

    from rl.ops import random, search
    from rl.ops.gumbel_search import gumbel

    weights = {name: tf.constant(x) for name, x in made_weights(args.moves, args.width).items()}
    state, seed = tf.constant(first_states(args.roots, args.width)), random.key(0)

    def predict(state):
        return tf.nn.softmax(state @ weights["policy"]), (state @ weights["value"])[:, 0]

    def recurrent(state, move, seed):
        x = tf.nn.relu(tf.concat([state, tf.one_hot(move, args.moves)], -1) @ weights["hidden"])
        state, reward = tf.tanh(x @ weights["state"]), (x @ weights["reward"])[:, 0]
        return search.Step(state, reward, tf.fill(reward.shape, GAMMA), *predict(state))

    @tf.function(jit_compile=True, autograph=False)
    def run():
        prior, value = predict(state)
        if args.kind == "gumbel":
            zeros = tf.zeros_like(prior)
            return gumbel(recurrent, state, prior, value, args.simulations, zeros, seed).visits
        return search.puct(recurrent, state, prior, args.simulations, seed, 1.25, value).visits

    rate = simulations_per_second(lambda: run().numpy(), args)
    return {"simulations_per_s": round(rate), "visits": run().numpy().tolist()}


def main() -> None:
    parser = options(shared.parser(__doc__))
    parser.add_argument("--mctx", help="a Python with mctx; without it, ours alone is timed, here")
    parser.add_argument("--rounds", type=shared.integer(1), default=5)
    parser.add_argument("--core", type=shared.integer(0), default=0)
    args = parser.parse_args()
    if args.mctx is None:
        print("JSON " + json.dumps(ours(args)))
        return
    shared.check_program("--mctx", args.mctx)
    shared.check_cores("--core", [args.core])
    alike = [
        f"--{name}={getattr(args, name)}"
        for name in ("kind", "roots", "simulations", "moves", "width", "seconds")
    ]
    commands = {
        "ours": [sys.executable, str(Path(__file__).resolve()), *alike],
        "mctx": [args.mctx, str(HERE / "peers" / "mctx_search.py"), *alike],
    }
    found: dict[str, list[dict]] = {name: [] for name in commands}
    for _ in range(args.rounds):
        for name, command in commands.items():
            pinned = ["taskset", "-c", str(args.core), *command]
            done = subprocess.run(pinned, check=True, capture_output=True, text=True, env=shared.ENVIRON)
            printed = done.stdout
            line = next(each for each in printed.splitlines() if each.startswith("JSON "))
            found[name].append(json.loads(line.removeprefix("JSON ")))
    rates = {
        name: statistics.median(each["simulations_per_s"] for each in runs) for name, runs in found.items()
    }
    visits = [np.array(found[name][0]["visits"]) for name in ("ours", "mctx")]
    same = int((visits[0] == visits[1]).all(-1).sum())
    print(f"{args.kind}: ours {rates['ours']:,.0f}, mctx {rates['mctx']:,.0f} simulations/s, "
          f"ratio {rates['ours'] / rates['mctx']:.2f}; {same} of {args.roots} roots alike")  # fmt: skip


if __name__ == "__main__":
    shared.answer(main)
