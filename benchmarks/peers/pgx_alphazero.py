"""pgx's example of AlphaZero on Connect Four, its files as they are: trained, and as a player of matches.

    PEER_PYTHON benchmarks/peers/pgx_alphazero.py train --checkout PGX --folder DIR --iterations 500
    PEER_PYTHON benchmarks/peers/pgx_alphazero.py play --checkout PGX --folder DIR --simulations 64

PEER_PYTHON has pgx, mctx, dm-haiku, optax, omegaconf and pydantic. pgx publishes no Connect Four model, with
which the example would compare itself: it is given one that likes all moves alike. `play` reads a line of
JSON boards ([B, 42], 0 empty, 1 and 2 the players' pieces, from the upper left) and answers with one of B
moves: what mctx's search (`gumbel_muzero_policy`, as in the example, without noise) chooses with that many
simulations, or the network's best move with 0. `benchmarks/matches.py` starts it.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import runpy
import sys
import time
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Names that jax had when the example was written.
jax.tree_map = jax.tree_util.tree_map
if not hasattr(jax, "device_put_replicated"):
    jax.device_put_replicated = lambda tree, devices: jax.tree_util.tree_map(
        lambda x: jnp.stack([x] * len(devices)), tree
    )
import mctx  # noqa: E402
import pgx  # noqa: E402

MOVES = 7


def example(args: argparse.Namespace, iterations: int, name: str) -> dict[str, Any]:
    """The names of the example's script, which trains where it is called `__main__`."""
    began = time.perf_counter()
    wandb = types.ModuleType("wandb")
    wandb.init = lambda **_: None  # type: ignore[attr-defined]
    wandb.log = lambda row: print(  # type: ignore[attr-defined]
        f"{time.perf_counter() - began:.0f} s", row, flush=True
    )
    sys.modules["wandb"] = wandb
    pgx.make_baseline_model = lambda _: lambda seen: (jnp.zeros([len(seen), MOVES]), jnp.zeros(len(seen)))
    folder = args.checkout.resolve() / "examples" / "alphazero"
    sys.path.insert(0, str(folder))
    sys.argv = ["train.py", "env_id=connect_four", f"seed={args.seed}", f"max_num_iters={iterations}",
                f"eval_interval={args.interval}", f"num_channels={args.channels}",
                f"num_layers={args.blocks}", f"selfplay_batch_size={args.games}",
                f"max_num_steps={args.steps}", f"training_batch_size={args.minibatch}",
                f"num_simulations={args.simulations}"]  # fmt: skip
    return runpy.run_path(str(folder / "train.py"), run_name=name)


def observed(boards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the player to move sees of boards [B, 42], [B, 6, 7, 2], and its legal moves [B, 7]."""
    mover = (boards > 0).sum(1) % 2 + 1
    own = boards == mover[:, None]
    other = (boards > 0) & ~own
    return np.stack([own, other], -1).reshape(-1, 6, 7, 2), boards[:, :MOVES] == 0


def states(env: Any, boards: np.ndarray) -> Any:
    """pgx's states of these boards; the player who began is called 0."""
    fresh = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), len(boards)))
    turn = jnp.asarray((boards > 0).sum(1) % 2, jnp.int32)
    inner = fresh._x._replace(board=jnp.asarray(boards - 1, jnp.int32), color=turn)
    seen, legal = observed(boards)
    return fresh.replace(
        _x=inner, current_player=turn, observation=jnp.asarray(seen), legal_action_mask=jnp.asarray(legal)
    )


def play(args: argparse.Namespace) -> None:
    """Answers boards until there are no more."""
    names = example(args, 0, "pgx_example")  # with its own number of simulations, which nothing here uses
    last = max(args.folder.glob("checkpoints/*/*.ckpt"))
    with last.open("rb") as file:  # of one's own training
        model = _Unpickler(file).load()["model"]
    env, forward, recurrent = names["env"], names["forward"], names["recurrent_fn"]

    @jax.jit
    def chosen(state: Any, key: Any) -> Any:
        (logits, value), _ = forward.apply(*model, state.observation, is_eval=True)
        if args.simulations == 0:
            return jnp.argmax(jnp.where(state.legal_action_mask, logits, -jnp.inf), -1)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        return mctx.gumbel_muzero_policy(
            params=model, rng_key=key, root=root, recurrent_fn=recurrent, num_simulations=args.simulations,
            invalid_actions=~state.legal_action_mask, qtransform=mctx.qtransform_completed_by_mix_value,
            gumbel_scale=0.0,
        ).action  # fmt: skip

    key = jax.random.PRNGKey(0)
    print("READY", flush=True)
    for line in sys.stdin:
        key, own = jax.random.split(key)
        moves = chosen(states(env, np.array(json.loads(line))), own)
        print("MOVES " + json.dumps(np.asarray(moves).tolist()), flush=True)


class _Unpickler(pickle.Unpickler):
    """Reads the example's checkpoints, in which its class of options is named."""

    def find_class(self, module: str, name: str) -> Any:
        return types.SimpleNamespace if name == "Config" else super().find_class(module, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("train", "play"))
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="of checkpoints")
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--interval", type=int, default=50, help="iterations between checkpoints")
    parser.add_argument("--simulations", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--games", type=int, default=64, help="side by side")
    parser.add_argument("--steps", type=int, default=64, help="of each game in an iteration")
    parser.add_argument("--minibatch", type=int, default=256)
    args = parser.parse_args()
    if args.what == "play":
        play(args)
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    args.checkout = args.checkout.resolve()
    os.chdir(args.folder)
    example(args, args.iterations, "__main__")


if __name__ == "__main__":
    main()
