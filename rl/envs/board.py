"""A picture of a small board, for the environments here that have nothing better to show."""

from __future__ import annotations

import numpy as np

CELL = 32  # pixels


def draw(board: np.ndarray) -> np.ndarray:
    """Returns uint8 [rows * 32, columns * 32, 3] of `board` [rows, columns] in [0, 1]: 0 dark, 1 bright."""
    pixels = np.kron(32 + 208 * np.clip(board, 0.0, 1.0), np.ones((CELL, CELL))).astype(np.uint8)
    pixels[::CELL] = pixels[:, ::CELL] = 0
    return np.repeat(pixels[..., None], 3, axis=2)
