"""Off-policy estimation: a policy's return, from episodes of other policies (`python -m rl.estimate`)."""
