"""Off-policy estimation: how good a policy is, by data that others played (`python -m rl.estimate`)."""
