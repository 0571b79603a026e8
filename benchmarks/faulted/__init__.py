"""The fault campaign (`../torture.py`): commands under faults, how they are judged, kinds of faults."""
