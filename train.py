"""Trains, tests or plays an agent: `python train.py --sys local --hparams dqn_cartpole --output_dir DIR`."""

from __future__ import annotations

import sys

from rl.cli import main

if __name__ == "__main__":
    sys.exit(main())
