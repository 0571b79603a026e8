"""Data sets as files: episodes that were played, in the layout on disk that Minari has."""
