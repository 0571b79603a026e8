"""What tests of remote outputs share."""

from __future__ import annotations

import time

import tensorflow as tf


def remote_files(address):
    """Names of all files below an address, relative to it."""
    found = set()
    for folder, _, files in tf.io.gfile.walk(address):
        found |= {f"{folder}/{name}".removeprefix(address).strip("/") for name in files}
    return found


def wait_for(true):
    """Waits until it is true."""
    deadline = time.monotonic() + 120.0
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
