"""Data sets as files: recorded episodes, in Minari's layout on disk."""
