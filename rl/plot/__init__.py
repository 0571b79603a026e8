"""Pictures and tables of runs: `python -m rl.plot --help`."""
