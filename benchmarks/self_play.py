"""How trained players of games score: against fixed opponents from both sides, and against every reply.

    python benchmarks/self_play.py RUN_DIR ... --opponents random uct_100 --games 400
    python benchmarks/self_play.py RUN_DIR ... --every_reply     # small games: all that can be played

A win scores 1, a draw 0.5. Prints a line for each run and opponent; plays the last checkpoint.
"""

from __future__ import annotations

import shared

from rl.imports import import_tensorflow


def main() -> int:
    parser = shared.parser(__doc__)
    parser.add_argument("runs", nargs="+", type=shared.run_folder, metavar="RUN_DIR")
    parser.add_argument("--opponents", nargs="*", default=["random"], metavar="NAME")
    parser.add_argument("--games", type=shared.integer(1), default=400, help="against each (default 400)")
    parser.add_argument("--seed", type=shared.integer(0), default=1, help="of these games")
    parser.add_argument("--which", default="last", choices=["last", "best"], help="checkpoint")
    parser.add_argument("--every_reply", action="store_true", help="small games alone")
    args = parser.parse_args()
    import_tensorflow()
    import rl
    from rl.runners.all_games import all_games
    from rl.runners.evaluate import Evaluator

    for run_dir in args.runs:
        agent = rl.load(run_dir, args.which).agent
        for opponent in args.opponents:
            evaluator = Evaluator(agent, args.games, agent.hparams.env_kwargs | {"opponent": opponent})
            score = evaluator.scores(evaluator.run(args.seed))
            evaluator.close()
            print(f"{run_dir} against {opponent}: {score}", flush=True)
        if args.every_reply:
            print(f"{run_dir} against every reply: {[all_games(agent, side) for side in (0, 1)]}", flush=True)
    return 0


if __name__ == "__main__":
    shared.answer(main)
