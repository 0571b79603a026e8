"""CleanRL's dqn.py, or dqn_jax.py with --script, on CartPole-v1; argument: a CleanRL checkout.

Runs the script as a user would, in a process of its own, and times the lines that it prints. Its defaults
are this workload's settings.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import deque

import arguments
from meter import Meter, checkout_version

RETURN = re.compile(r"global_step=\d+, episodic_return=\[?(-?[\d.]+)")
SPEED = re.compile(r"SPS: (\d+)")
# The scripts print a line "SPS" every 100 steps, once learning has begun.
STEPS_PER_LINE, FIRST_LINE, UPDATES_PER_LINE = 100, 10_100, 10


def main() -> None:
    args = arguments.parse(__doc__, 50_000, checkout=str, script="dqn.py")
    checkout = os.path.abspath(args.checkout)
    flags = f"--env-id CartPole-v1 --total-timesteps {args.steps} --seed {args.seed} --learning-starts 10000"
    command = [sys.executable, "-u", os.path.join(checkout, "cleanrl", args.script), *flags.split()]
    if "jax" not in args.script:
        command.append("--no-cuda")
    env = dict(os.environ, PYTHONPATH=checkout)
    launched = time.perf_counter()
    version = checkout_version(checkout)
    meter = Meter(f"cleanrl {args.script}", version, "dqn_cartpole", 11_000, launched=launched)
    returns: deque[float] = deque(maxlen=100)
    steps, lines = FIRST_LINE - STEPS_PER_LINE, 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        for line in child.stdout or ():
            if found := SPEED.match(line):
                steps, lines = steps + STEPS_PER_LINE, lines + 1
                if meter.startup is None and int(found[1]):
                    meter.start(time.perf_counter() - steps / int(found[1]))
                meter.mark(steps, lines * UPDATES_PER_LINE)
            elif found := RETURN.match(line):
                returns.append(float(found[1]))
        if child.wait():
            errors.seek(0)
            sys.exit(errors.read()[-2000:])
    meter.report(sum(returns) / len(returns) if returns else None, envs=1)


main()
