"""How players of a game for two score against each other, each with the searches that it is given.

    python benchmarks/matches.py ConnectFour-v0 PLAYER PLAYER ... --games 400

PLAYER is one of

    RUN_DIR             a trained run: its network's best move
    RUN_DIR:64          a run of alphazero, which searches with 64 simulations, without noise
    random, uct_100     as the option `opponent` of games
    pgx:DIR:64          pgx's example (benchmarks/peers/pgx_alphazero.py), by --pgx_python and --pgx_checkout;
                        :0 is its network's best move

The first one plays each of the others. A game begins with `--opening` random moves, and is played from there
twice, each player once on either side. A win scores 1, a draw 0.5; printed are the first one's mean score, an
interval of 95 % by bootstrap over openings, and wins, draws and losses. With `--every_reply` the first one, a
run without a search, also plays all games that its best moves can come to, whatever the other side does, in
games as small as TicTacToe-v0.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import shared

from rl.errors import UsageError
from rl.imports import import_tensorflow
from rl.report.statistics import estimated

Player = Callable[[np.ndarray, int], np.ndarray]  # from boards [B, cells] and a seed to moves [B]
PEER = Path(__file__).resolve().parent / "peers" / "pgx_alphazero.py"


def of_run(game: Any, run_dir: Path, simulations: int) -> Player:
    """The last checkpoint of a run."""
    import tensorflow as tf

    import rl
    from rl.agents.algos.alphazero import AlphaZero
    from rl.envs.graph.model import OfTwo
    from rl.envs.graph.multi_agent import AgentRows, seen_by
    from rl.ops import random

    agent = rl.load(run_dir, "last").agent
    if agent.hparams.env != game.env_id or tf.nest.flatten(agent.initial_state(1)):
        raise UsageError(
            f"{run_dir}: trained on {agent.hparams.env}, or remembers: no player of {game.env_id}"
        )
    if simulations and not isinstance(agent, AlphaZero):
        raise UsageError(f"{run_dir}: {agent.hparams.algo} does not search, leave :{simulations} out")
    step = tf.constant(0, tf.int64)

    @tf.function(jit_compile=True, autograph=False)
    def chosen(boards: Any, seed: Any) -> Any:
        if not simulations:
            seen = seen_by(game.env, boards, game.env.turn(boards), False)
            return agent.act(seen, (), seed, step, False)[0]
        model = OfTwo(AgentRows(game.env))
        return tf.argmax(agent.searched(model, boards, list(random.split(seed, 2)), False).acting, -1)

    if simulations:
        hparams = agent.hparams.thawed()
        hparams.simulations = simulations
        agent.hparams = hparams.freeze()
    return lambda boards, seed: chosen(tf.constant(boards), random.key(seed)).numpy()


def of_name(game: Any, name: str) -> Player:
    """An opponent that stays as it is."""
    import tensorflow as tf

    from rl.envs.graph.multi_agent import seen_by
    from rl.envs.graph.opponents import opponents_called
    from rl.ops import random

    opponent = opponents_called(name, game.env)
    if opponent is None:
        raise UsageError(f"unknown player {name!r}: give a run's folder, random, uct_100 or pgx:DIR:64")

    @tf.function(jit_compile=True, autograph=False)
    def chosen(boards: Any, seed: Any) -> Any:
        return opponent.act(boards, seen_by(game.env, boards, game.env.turn(boards), False), (), seed)[0]

    return lambda boards, seed: chosen(tf.constant(boards), random.key(seed)).numpy()


class Peer:
    """pgx's example, in a process of its own."""

    def __init__(self, args: Any, folder: str, simulations: int):
        command = [args.pgx_python, str(PEER), "play", "--checkout", args.pgx_checkout, "--folder", folder]
        self._process = subprocess.Popen(
            [*command, f"--simulations={simulations}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=shared.ENVIRON,
        )  # fmt: skip
        self._answer("READY")

    def __call__(self, boards: np.ndarray, seed: int) -> np.ndarray:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(boards.tolist()) + "\n")
        self._process.stdin.flush()
        return np.array(json.loads(self._answer("MOVES ")), np.int32)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self, mark: str) -> str:
        """Its next line with this mark; others are the example's own. Raises RuntimeError if it has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(mark):
                return line.removeprefix(mark)
        raise RuntimeError(f"{PEER.name} ended with {self._process.wait()}")


class Game:
    """The rules, of B games side by side."""

    def __init__(self, env_id: str, count: int):
        from rl.envs.graph.board_games import BoardGame
        from rl.envs.graph.multi_agent import AgentsView
        from rl.envs.graph_host import make_graph

        view = make_graph(env_id, count, {}, None)
        if not isinstance(view, AgentsView) or not isinstance(view.env, BoardGame):
            raise UsageError(f"{env_id} is no board game for two, such as ConnectFour-v0")
        self.env_id, self.env, self.count = env_id, view.env, count

    def moved(self, boards: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The boards after moves, what the mover is paid, and which games are over."""
        import tensorflow as tf

        board, paid, over = self.env.play(tf.constant(boards), tf.constant(moves, tf.int32))
        return board.numpy(), paid.numpy(), over.numpy()

    def opened(self, moves: int, generator: np.random.Generator) -> np.ndarray:
        """Boards after so many random moves that do not end the game. Raises UsageError for too many."""
        import tensorflow as tf

        if moves > self.env.cells // 2:  # with more, there may be no other ones
            raise UsageError(f"--opening {moves}: {self.env_id} takes at most {self.env.cells // 2}")
        boards = np.zeros((self.count, self.env.cells), np.int32)
        for _ in range(moves):
            going = np.zeros(self.count, bool)
            after = boards
            while not going.all():
                legal = np.asarray(self.env.legal_moves(tf.constant(boards)))
                tried = np.argmax(legal * generator.uniform(0.5, 1.0, legal.shape), 1)
                moved, _, over = self.moved(boards, tried)
                taken = ~going & ~over
                after = np.where(taken[:, None], moved, after)
                going |= taken
            boards = after
        return boards


def match(game: Game, players: tuple[Player, Player], boards: np.ndarray, seed: int) -> np.ndarray:
    """The scores of the first player, which makes the first move from each board."""
    score, over = np.full(game.count, 0.5), np.zeros(game.count, bool)
    for ply in range(game.env.cells):
        if over.all():
            break
        moves = players[ply % 2](boards, seed + ply)
        moved, paid, ended = game.moved(boards, moves)
        won = paid if ply % 2 == 0 else -paid
        score = np.where(over, score, 0.5 + 0.5 * won)
        boards = np.where(over[:, None], boards, moved)
        over |= ended
    return score


def said(scores: np.ndarray) -> str:
    """A line: scores [2, B] of games from the same openings."""
    found = estimated(lambda pairs: pairs[0].mean(-1), [scores.mean(0)])
    counts = [int((scores == value).sum()) for value in (1.0, 0.5, 0.0)]
    return f"{found.text(3)}, {counts[0]} won, {counts[1]} drawn, {counts[2]} lost"


def every_reply(run: str) -> str:
    """What comes of all games of a run's last checkpoint, as the first player and as the second."""
    import rl
    from rl.runners.all_games import all_games

    agent = rl.load(shared.run_folder(run), "last").agent
    return f"first {all_games(agent, 0)}, second {all_games(agent, 1)}"


def main() -> int:
    parser = shared.parser(__doc__)
    parser.add_argument("env", metavar="ENV")
    parser.add_argument("players", nargs="+", metavar="PLAYER")
    parser.add_argument("--games", type=shared.integer(2), default=400, help="of a pair (default 400)")
    parser.add_argument("--opening", type=shared.integer(0), default=4, help="random moves (default 4)")
    parser.add_argument("--every_reply", action="store_true", help="of the first one, in small games")
    parser.add_argument("--seed", type=shared.integer(0), default=1)
    parser.add_argument("--pgx_python", default="python", help="a Python with pgx")
    parser.add_argument("--pgx_checkout", default=".", help="of pgx")
    args = parser.parse_args()
    import_tensorflow()
    game = Game(args.env, args.games // 2)
    if args.every_reply:
        print(f"{args.players[0]} against every reply: {every_reply(args.players[0])}", flush=True)
    with contextlib.ExitStack() as stack:
        players = [made(game, name, args, stack) for name in args.players]
        boards = game.opened(args.opening, np.random.default_rng(args.seed))
        for name, other in zip(args.players[1:], players[1:], strict=True):
            first = match(game, (players[0], other), boards, args.seed)
            second = 1.0 - match(game, (other, players[0]), boards, args.seed + 1000)
            found = said(np.stack([first, second]))
            print(f"{args.players[0]} against {name}: {found}", flush=True)
    return 0


def made(game: Game, name: str, args: Any, stack: contextlib.ExitStack) -> Player:
    """The player of that name. Raises UsageError if there is none."""
    found = re.fullmatch(r"(pgx:)?(.+?)(?::(\d+))?", name)
    assert found is not None  # any name is something
    simulations = int(found[3] or 0)
    if found[1]:
        shared.check_program("--pgx_python", args.pgx_python)
        return stack.enter_context(contextlib.closing(Peer(args, found[2], simulations)))
    if "/" in found[2] or Path(found[2]).is_dir():
        return of_run(game, shared.run_folder(found[2]), simulations)
    return of_name(game, name)


if __name__ == "__main__":
    shared.answer(main)
