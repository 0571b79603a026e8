"""Trains, tests or plays an agent: `python train.py --sys local --hparams dqn_cartpole --output_dir DIR`."""

import atexit
import os
import sys


def leave(codes):
    """Ends the process with the first of the codes, where one is there, after all else that an exit does.

    To release the memory of TensorFlow's objects, which is left out, would take another half second.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if codes:
        os._exit(codes[0])


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  (to such, what it imports is no Python; this file still is)
        found = sys.executable + " is " + sys.version.split()[0]
        advice = "source .venv/bin/activate, or ./setup.sh where there is no .venv yet"
        sys.stderr.write("error: Python 3.11 or 3.12 is needed, and " + found + ": " + advice + "\n")
        sys.exit(2)

    ended = []
    atexit.register(leave, ended)  # the first one is called last
    from rl.cli import main

    ended.append(main())
    sys.exit(ended[0])
