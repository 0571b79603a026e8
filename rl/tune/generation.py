"""`train.py` until its next evaluation: one generation of a population's member."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rl.cli import answered, checked, hparam_flags, parse
from rl.registry import import_user_modules


def main(argv: Sequence[str] | None = None) -> int:
    """Trains, or goes on with, the run of `train.py`'s flags until an evaluation has been made and saved;
    returns the exit code."""

    def work() -> int:
        args = parse(sys.argv[1:] if argv is None else argv)
        import_user_modules(args.user_modules)
        checked(args)
        import rl
        from rl.hparams.overrides import parse_overrides

        class OneEvaluation(rl.Callbacks):
            """Ends the training after an evaluation."""

            def on_evaluation(self, step: int, evaluation: object) -> bool:
                """See `rl.Callbacks`."""
                return True

        flags = {name: value for name, value in hparam_flags(args).items() if value is not None}
        run = rl.train(
            args.hparams,  # by name, which the run records
            output_dir=args.output_dir,
            seed=args.seed,
            sys=args.sys,
            eval_episodes=args.eval_episodes,
            callbacks=OneEvaluation(),
            **{**parse_overrides(args.hparam_override), **flags},
        )
        return run.result.exit_code

    return answered(work)
