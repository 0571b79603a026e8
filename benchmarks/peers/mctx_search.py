"""mctx's tree searches in a learned model of dense layers: simulations/s, and what they visit.

`benchmarks/tree_search.py` runs it beside ours, with the same weights; nothing of it needs this project.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

GAMMA = 0.99


def options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds what both sides take."""
    parser.add_argument("--kind", choices=("gumbel", "puct"), default="gumbel")
    parser.add_argument("--roots", type=int, default=64, help="positions searched side by side")
    parser.add_argument("--simulations", type=int, default=32)
    parser.add_argument("--moves", type=int, default=7)
    parser.add_argument("--width", type=int, default=64, help="of states and of the hidden layer")
    parser.add_argument("--seconds", type=float, default=5.0, help="that are timed, after a call that is not")
    return parser


def made_weights(moves: int, width: int) -> dict[str, np.ndarray]:
    """The model's matrices: of the hidden layer, the next state, reward, policy and value."""
    generator = np.random.default_rng(0)
    shapes = {
        "hidden": (width + moves, width),
        "state": (width, width),
        "reward": (width, 1),
        "policy": (width, moves),
        "value": (width, 1),
    }
    return {
        name: np.float32(generator.normal(size=shape) * np.sqrt(2.0 / shape[0]))
        for name, shape in shapes.items()
    }


def first_states(roots: int, width: int) -> np.ndarray:
    """Where the searches begin, [B, W]."""
    return np.float32(np.tanh(np.random.default_rng(1).normal(size=(roots, width))))


def simulations_per_second(search: Callable[[], Any], args: argparse.Namespace) -> float:
    """Of a call that ends when its result is there."""
    search()
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < args.seconds:
        search()
        calls += 1
    return calls * args.roots * args.simulations / (time.perf_counter() - begun)


def main() -> None:
    import jax
    import jax.numpy as jnp
    import mctx

    args = options(argparse.ArgumentParser(description=__doc__)).parse_args()
    weights = {name: jnp.array(x) for name, x in made_weights(args.moves, args.width).items()}
    state = jnp.array(first_states(args.roots, args.width))

    def predict(state: Any) -> tuple[Any, Any]:
        return state @ weights["policy"], (state @ weights["value"])[:, 0]

    def recurrent(params: Any, key: Any, action: Any, state: Any) -> tuple[Any, Any]:
        x = jnp.concatenate([state, jax.nn.one_hot(action, args.moves)], -1)
        x = jax.nn.relu(x @ weights["hidden"])
        state, reward = jnp.tanh(x @ weights["state"]), (x @ weights["reward"])[:, 0]
        logits, value = predict(state)
        output = mctx.RecurrentFnOutput(
            reward=reward, discount=jnp.full_like(reward, GAMMA), prior_logits=logits, value=value
        )
        return output, state

    def run(key: Any) -> Any:
        logits, value = predict(state)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        if args.kind == "gumbel":
            found = mctx.gumbel_muzero_policy(None, key, root, recurrent, args.simulations, gumbel_scale=0.0)
        else:
            found = mctx.muzero_policy(
                None, key, root, recurrent, args.simulations, dirichlet_fraction=0.0, pb_c_base=1e9
            )
        return found.search_tree.summary().visit_counts

    compiled, key = jax.jit(run), jax.random.PRNGKey(0)
    rate = simulations_per_second(lambda: compiled(key).block_until_ready(), args)
    visits = np.asarray(compiled(key)).tolist()
    print("JSON " + json.dumps({"simulations_per_s": round(rate), "visits": visits}))


if __name__ == "__main__":
    main()
