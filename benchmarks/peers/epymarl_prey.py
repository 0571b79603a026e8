"""EPyMARL's trained prey of simple_tag as plain arrays, for benchmarks/hunt.py.

PEER_PYTHON benchmarks/peers/epymarl_prey.py --checkout EPYMARL --file build/prey.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--file", type=Path, required=True)
    args = parser.parse_args()
    source = args.checkout / "src" / "envs" / "pretrained" / "prey_params.pt"
    *_, prey = torch.load(source, map_location="cpu", weights_only=True)["agent_params"]
    args.file.parent.mkdir(parents=True, exist_ok=True)
    with args.file.open("wb") as file:
        np.savez(file, **{name: each.numpy() for name, each in prey["policy"].items()})


if __name__ == "__main__":
    main()
