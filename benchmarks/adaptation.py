"""What runs that adapt to tasks return on tasks they never had, before and after each inner step.

    python benchmarks/adaptation.py RUN ... [--tasks 500] [--inner_steps 2]

RUN: the folder of a run of `maml_navigation`, `pearl_navigation` or another set of an algorithm that adapts.
Prints the mean return of what was learned (last checkpoint), and after each inner step (of MAML by the
gradient, of PEARL what is believed of the task), made from as many episodes of a task as in training: with a
95 % interval over tasks. Without `--inner_steps` as many as in training. Tasks are those of the run's
`env_kwargs`, held out in the sets; actions are drawn as in training.
"""

from __future__ import annotations

import numpy as np
import shared

from rl.imports import import_tensorflow

TASKS = 500


def cell(returns: np.ndarray) -> str:
    """Returns the mean of returns [tasks] and half its 95 % interval, normal."""
    half = 1.96 * returns.std(ddof=1) / np.sqrt(len(returns))
    return f"{returns.mean():8.2f} +- {half:.2f}"


def line(name: str, returns: np.ndarray) -> str:
    """Returns one line of the table; returns [steps + 1, tasks]."""
    return f"{name:28} {'  '.join(cell(each) for each in returns)}"


def main() -> None:
    parser = shared.parser(__doc__)
    parser.add_argument("runs", nargs="+", type=shared.run_folder, metavar="RUN")
    parser.add_argument("--tasks", type=shared.integer(2), default=TASKS)
    parser.add_argument("--inner_steps", type=shared.integer(1), help="default: the run's own")
    parser.add_argument("--which", choices=("last", "best"), default="last")
    parser.add_argument("--seed", type=shared.integer(0), default=7, help="of tasks and draws")
    arguments = parser.parse_args()
    import_tensorflow()  # as the command line does
    from rl.runners.adapted import adapted_returns

    columns = 0
    for run in arguments.runs:
        found = adapted_returns(
            run, arguments.which, arguments.tasks, arguments.inner_steps, seed=arguments.seed
        )
        if len(found) > columns:
            columns = len(found)
            print(" " * 28, "  ".join(f"after {i} steps".ljust(17) for i in range(columns)))
        print(line(f"{run.parent.name}/{run.name}", found), flush=True)


if __name__ == "__main__":
    shared.answer(main)
