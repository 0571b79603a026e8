"""Trained policies for other people, with a card that says what they are: `python -m rl.publish`."""
