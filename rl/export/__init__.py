"""Trained policies for programs that have not this package: `python -m rl.export`."""
