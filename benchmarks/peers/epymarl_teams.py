"""EPyMARL's default of an algorithm on a task of teams, to set beside our named sets.

    PEER_PYTHON benchmarks/peers/epymarl_teams.py --checkout EPYMARL --task tag --algo qmix --seed 100

`EPYMARL` is a checkout of github.com/uoe-agents/epymarl. Nothing is chosen but the algorithm, the environment
(`foraging`: Foraging-8x8-2p-3f-v3, episodes of at most 50 steps; `tag`: PettingZoo's simple_tag_v3 with the
library's trained prey, episodes of 25) and the number of steps. After training the policy plays
`--episodes` episodes without exploration; prints one line of JSON with the mean of the team's return.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import arguments
import numpy as np
import torch
import yaml

ENVS: dict[str, dict[str, Any]] = {
    "foraging": {"key": "lbforaging:Foraging-8x8-2p-3f-v3", "time_limit": 50},
    "tag": {"key": "pz-mpe-simple-tag-v3", "time_limit": 25, "pretrained_wrapper": "PretrainedTag"},
}


def config_of(checkout: Path, algo: str, task: str) -> dict[str, Any]:
    """The library's settings: its defaults, those of its Gymnasium environments, and the algorithm's."""
    found: dict[str, Any] = {}
    for name in ("default", "envs/gymma", f"algs/{algo}"):
        found |= yaml.safe_load((checkout / "src" / "config" / f"{name}.yaml").read_text())
    found["env_args"] = {**found["env_args"], **ENVS[task]}
    return found


def without_smaclite() -> None:
    """Lets the library be imported without an environment that is not played here."""
    sys.modules["smaclite"] = types.ModuleType("smaclite")


def main() -> None:
    args = arguments.parse(__doc__, 100_000, algo="qmix", episodes=100, checkout="", task="foraging")
    checkout = Path(args.checkout)
    sys.path.insert(0, str(checkout / "src"))
    without_smaclite()
    logging.disable(logging.WARNING)
    import run as library
    from utils.logging import Logger

    torch.set_num_threads(1)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    config = config_of(checkout, args.algo, args.task)
    config["env_args"]["seed"] = args.seed
    config |= {"seed": args.seed, "t_max": args.steps, "use_cuda": False, "device": "cpu"}
    config |= {"test_nepisode": args.episodes, "test_interval": 10 * args.steps, "unique_token": ""}
    config = library.args_sanity_check(config, logging.getLogger())
    logger = Logger(logging.getLogger())
    found: dict[str, float] = {}
    made = library.r_REGISTRY[config["runner"]]

    class Runner(made):  # type: ignore[misc, valid-type]
        """The library's runner, which plays the last policy before it closes its environments."""

        def close_env(self) -> None:
            found["seconds"] = round(time.perf_counter() - begun, 1)
            logger.stats.pop("test_return_mean", None)
            for _ in range(config["test_nepisode"] // self.batch_size):
                self.run(test_mode=True)
            ((_, mean),) = logger.stats["test_return_mean"]
            found["mean_return"] = round(float(mean), 4)
            super().close_env()

    library.r_REGISTRY[config["runner"]] = Runner
    begun = time.perf_counter()
    library.run_sequential(SimpleNamespace(**config), logger)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
