"""Writes a trained policy for programs that have not this package: `python -m rl.export --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl.cli import answered
from rl.errors import UsageError
from rl.flags import Parser, integer, one_of, policy_flags
from rl.imports import import_tensorflow
from rl.registry import import_user_modules
from rl.report.tables import plain_table
from rl.storage.address import check_run, output_beside
from rl.storage.files import commit_folder, ensure_writable_dir, new_output, write_json_atomic

EXAMPLES = """examples:
  python -m rl.export runs/ppo_cartpole --format savedmodel,litert
  python -m rl.export runs/dqn_cartpole --format onnx --to /tmp/cartpole --batch 32
  python -m rl.export runs/ppo_cartpole --format litert --eval_policy sample     random numbers as inputs
"""
DESCRIPTION = "policy.json"
WRITES = (DESCRIPTION, "savedmodel", "policy.tflite", "policy.onnx")  # as `rl.export.formats.FORMATS` says
COLUMNS = ["format", "file", "observations", "difference", "ties"]
DIFFERENT = 1  # exit code: a file does not act as the agent does; nothing is written


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of all flags."""
    parser = Parser(
        prog="python -m rl.export",
        description="Writes a trained policy, its normaliser and the environment's form of actions within, "
        "for programs that have not this package; what does not act as the agent does is not written.",
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    policy_flags(parser)
    add("--format", default="savedmodel", metavar="NAME,...", help="of savedmodel, litert, onnx")
    add("--to", metavar="DIR", help="output folder (default: exported, in the run's folder)")
    policies = "the policy's best actions, or ones drawn from its distribution (default greedy)"
    kind = one_of("greedy", "sample")
    add("--eval_policy", type=kind, default="greedy", metavar="greedy|sample", help=policies)
    text = "observations of a call (default 1; of an environment of many agents, one of each)"
    add("--batch", type=integer(1), metavar="N", help=text)
    text = "observations that each file is compared with the agent on (default 1000)"
    add("--observations", type=integer(1), default=1000, metavar="N", help=text)
    add("--force", action="store_true", help="replace what is there")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (2 for a mistake in what was typed)."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        import_user_modules(args.user_modules)
        target = output_beside(args.run, args.to, "exported", WRITES, _is_export, args.force)
        import_tensorflow()
        return _export(args, target)

    return answered(work)


def _is_export(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def _export(args: argparse.Namespace, target: Path) -> int:
    from rl.api import load
    from rl.export.formats import FORMATS, chosen_formats
    from rl.export.parity import TOLERANCE, parity, play
    from rl.export.program import Program

    formats = chosen_formats(args.format)
    check_run(args.run, "run")
    # Weights are float32, and what reads the files has seldom instructions for bfloat16 (LiteRT none).
    policy = load(args.run, args.which, args.eval_policy, args.env, precision="float32")
    agent = policy.agent
    ensure_writable_dir(target.parent, "--to")
    env, rows_of_env = policy.environments(1), 1
    if env is not None:
        rows_of_env = env.agents
        env.close()
    batch = args.batch or rows_of_env
    if batch % rows_of_env:
        raise UsageError(f"--batch {batch}: {agent.hparams.env} is of {rows_of_env} agents: take a multiple")
    program = Program(agent, batch, policy.encode)
    env = policy.environments(batch // rows_of_env)
    sample = play(program, env, args.observations, agent.observation_space)
    if env is not None:
        env.close()
    with new_output(target) as folder:
        rows: list[list[Any]] = []
        for name in formats:
            file, write, run = FORMATS[name]
            write(program, folder / file)
            found = parity(sample, run(folder / file))
            rows.append([name, file, found.observations, f"{found.difference:.1e}", found.ties])
            if not found.holds:
                apart = f"by {found.difference:.1e} (at most {TOLERANCE:g} is let through)"
                others = f"in {found.other_actions} of {found.observations} actions"
                line = f"error: {name} differs from the agent {apart} and {others}: nothing written"
                print(line, file=sys.stderr)
                return DIFFERENT
        write_json_atomic(folder / DESCRIPTION, _described(policy, program, rows))
        commit_folder(folder, target)
    print(target)
    plain_table([COLUMNS, *([str(cell) for cell in row] for row in rows)], sys.stdout)
    for what, ports in (("input", program.inputs), ("output", program.outputs)):
        for each in ports:
            print(f"{what:8} {each.name}  {each.dtype} {list(each.shape)}  {each.meaning}")
    return 0


def _described(policy: Any, program: Any, rows: list[list[Any]]) -> dict[str, Any]:
    """What `policy.json` says, for who loads the files."""
    hparams = policy.agent.hparams
    return {
        "env": hparams.env,
        "env_kwargs": hparams.env_kwargs,
        "env_wrappers": list(hparams.env_wrappers),
        "max_episode_steps": hparams.max_episode_steps,
        "algo": hparams.algo,
        "run": policy.origin,
        "eval_policy": hparams.eval_policy,
        "inputs": [each._asdict() for each in program.inputs],
        "outputs": [each._asdict() for each in program.outputs],
        "initial_state": {name: each.tolist() for name, each in program.initial_state.items()},
        "compared": [dict(zip(COLUMNS, each, strict=True)) for each in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
