"""What travels is what was sent."""

from __future__ import annotations

import numpy as np

from rl.workers.worker import Compressed, packed, unpacked


def test_pictures_travel_compressed_and_arrive_as_they_were():
    generator = np.random.default_rng(0)
    pictures = np.repeat(generator.integers(0, 256, (9, 2, 8, 8, 1), np.uint8), 16, 2)  # [T+1, B, 128, 8, 1]
    numbers = generator.normal(size=(5, 8, 2)).astype(np.float32)
    few = np.arange(10, dtype=np.uint8)
    sent, account = packed([pictures, numbers, few], compress=True)
    assert isinstance(sent[0], Compressed) and sent[1] is numbers and sent[2] is few
    assert account.raw == pictures.nbytes + numbers.nbytes + few.nbytes
    assert account.sent == len(sent[0].data) + numbers.nbytes + few.nbytes < account.raw
    for before, after in zip([pictures, numbers, few], unpacked(sent), strict=True):
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)


def test_without_compression_nothing_is_touched():
    arrays = [np.zeros((100, 100), np.uint8)]
    sent, account = packed(arrays, compress=False)
    assert sent is arrays and account == (10_000, 10_000, 0.0)
    assert unpacked(sent)[0] is arrays[0]
