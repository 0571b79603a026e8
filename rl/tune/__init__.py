"""Searches over hyperparameters: `python -m rl.tune --help`."""
