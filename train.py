"""Trains, tests or plays an agent: `python train.py --sys local --hparams dqn_cartpole --output_dir DIR`."""

import sys

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  (to such, what it imports is no Python; this file still is)
        found = sys.executable + " is " + sys.version.split()[0]
        advice = "source .venv/bin/activate, or ./setup.sh where there is no .venv yet"
        sys.stderr.write("error: Python 3.11 or 3.12 is needed, and " + found + ": " + advice + "\n")
        sys.exit(2)

    from rl.cli import main

    sys.exit(main())
