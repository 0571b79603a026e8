"""What `bench.py` runs (`RUNS`) and which of it is compared with which, against which bar (`ROWS`)."""

from __future__ import annotations

from typing import NamedTuple


class Run(NamedTuple):
    """One process. In `command`, SEED, FOLDER (an empty one), PUREJAXRL and CLEANRL are filled in."""

    where: str  # "ours", or the name of a peer's environment
    command: str  # of the interpreter there; relative to the repository root
    threads: int | None = None  # OMP_NUM_THREADS; None: the library's default


class Row(NamedTuple):
    """One line of the table: ours against the best of the peers."""

    title: str
    ours: str  # name of a run
    peers: tuple[str, ...]
    metric: str  # field of the runs' lines
    bar: float | None  # of ours / peer; None: shown beside another row, not required
    aim: float | None = None
    at_most: bool = False  # whether smaller is better (times)
    ours_metric: str | None = None  # where it differs from `metric`
    limit: str = ""  # what a profile of ours shows to be the limit, told where the row misses


WHOLE_LIMIT = (
    "Python and compiling, not arithmetic. Of 11.7 s with kept programs (2026-11-25) training has 1.8; "
    "the import of TensorFlow and Keras 3.0, other imports 0.5, building 0.4, tracing 1.0, lowering and "
    "loading the kept program 1.7, evaluations and tests on Gymnasium 1.6, which PureJaxRL's driver does "
    "not make. Here nothing is kept, and XLA compiles for the rest"
)
COPIES_LIMIT = (
    "of 35 s with kept programs (2026-11-25) 10 go by before the first copy trains, in the imports of two"
    " generations of processes; a copy then takes 4.9 s on its core: 2.2 training, 1.5 evaluations, tests"
    " and checkpoints, the rest building and Python between windows. Here nothing is kept"
)
SPREAD_LIMIT = (
    "arithmetic. 675 updates follow every 6,000 steps; their matrix products are 121 million operations a "
    "step, at 388 steps/s 47 billion/s, 67 % of the 70.3 billion/s that this machine reaches "
    "(benchmarks/arithmetic.py, 2026-11-28). A loop of these products and the Adam steps alone took 21 ms "
    "an update, 14.2 of the 15.5 s that 6,000 steps take. 10 times BenchMARL's 139 steps/s cannot be had "
    "here: even the fewest products with which its losses can be computed, a value per step and not per "
    "agent, are 77 million, 1.5 of that peak"
)
DQN_LIMIT = (
    "calls rather than arithmetic, of which 3 % of the peak is used. Of 400 us a step (2026-11-28) the "
    "call of the compiled learning takes 230, 124 of them without an update in it: XLA's launch with 36 "
    "variables; environment, policy and collecting take 105"
)
SAC_LIMIT = (
    "arithmetic: the products of an update (two critics and a policy of 256-256, their targets, 256 rows) "
    "are 547 million operations, at 95 updates/s 52 billion/s, 74 % of the 70.3 billion/s that this "
    "machine reaches (benchmarks/arithmetic.py, 2026-11-28); 1.5 times SBX's would be 84 %, twice SBX's "
    "more than there is"
)

PPO_1M = (
    "--steps 1000000"  # seconds instead of one: at 200,000 steps the clock's and the machine's noise show
)
PPO_4M = "--steps 4000000"  # 1024 environments learn 8 times of a million, the first of which compiles
PEERS = "benchmarks/peers"
CHEETAH, PENDULUM = "HalfCheetah-v5", "Pendulum-v1"

# Stable-Baselines3's PPO is fastest with one thread; the DQNs gain a few percent from the default of two.
RUNS = {
    "ours_ppo_64": Run("ours", f"benchmarks/ours.py ppo --envs 64 --clip-value {PPO_1M} --seed SEED"),
    "ours_ppo_1024": Run("ours", f"benchmarks/ours.py ppo --envs 1024 --clip-value {PPO_4M} --seed SEED"),
    "ours_ppo_8": Run("ours", f"benchmarks/ours.py ppo --envs 8 --clip-value {PPO_1M} --seed SEED"),
    "ours_dqn_1": Run("ours", "benchmarks/ours.py dqn --envs 1 --seed SEED"),
    "ours_dqn_10": Run("ours", "benchmarks/ours.py dqn --envs 10 --seed SEED"),
    "ours_ppo_envpool": Run("ours", "benchmarks/ours.py ppo --backend envpool --seed SEED"),
    "ours_ppo_envpool_overlap": Run("ours", "benchmarks/ours.py ppo --backend envpool --overlap --seed SEED"),
    "ours_ppo_gym": Run("ours", "benchmarks/ours.py ppo --backend gym --seed SEED"),
    "ours_ppo_gym_overlap": Run("ours", "benchmarks/ours.py ppo --backend gym --overlap --seed SEED"),
    "ours_dqn_envpool": Run("ours", "benchmarks/ours.py dqn --backend envpool --seed SEED"),
    "ours_dqn_envpool_overlap": Run("ours", "benchmarks/ours.py dqn --backend envpool --overlap --seed SEED"),
    "ours_dqn_gym": Run("ours", "benchmarks/ours.py dqn --backend gym --seed SEED"),
    "ours_dqn_gym_overlap": Run("ours", "benchmarks/ours.py dqn --backend gym --overlap --seed SEED"),
    "ours_sac_cheetah": Run("ours", f"benchmarks/ours.py sac --backend gym --env {CHEETAH} --seed SEED"),
    "ours_sac_cheetah_overlap": Run(
        "ours", f"benchmarks/ours.py sac --backend gym --env {CHEETAH} --overlap --seed SEED"
    ),
    "ours_sac_pendulum": Run("ours", f"benchmarks/ours.py sac --backend gym --env {PENDULUM} --seed SEED"),
    "ours_sac_pendulum_graph": Run("ours", f"benchmarks/ours.py sac --env {PENDULUM} --seed SEED"),
    "ours_prioritized": Run("ours", "benchmarks/prioritized_memory.py"),
    "ours_whole": Run(
        "ours", "train.py --hparams ppo_cartpole --train_steps 200000 --output_dir FOLDER --seed SEED"
    ),
    "ours_copies": Run(
        "ours",
        "train.py --hparams ppo_cartpole --train_steps 200000 --copies 8 --parallel 2 --output_dir FOLDER "
        "--seed SEED",
    ),
    "purejaxrl_ppo_1024": Run("pjq", f"{PEERS}/purejaxrl_ppo.py PUREJAXRL --envs 1024 {PPO_4M} --seed SEED"),
    "purejaxrl_ppo_64": Run("pjq", f"{PEERS}/purejaxrl_ppo.py PUREJAXRL --envs 64 {PPO_1M} --seed SEED"),
    "purejaxrl_ppo_8": Run("pjq", f"{PEERS}/purejaxrl_ppo.py PUREJAXRL --envs 8 {PPO_1M} --seed SEED"),
    "purejaxrl_dqn_1": Run("pjq", f"{PEERS}/purejaxrl_dqn.py PUREJAXRL --envs 1 --seed SEED"),
    "purejaxrl_dqn_10": Run("pjq", f"{PEERS}/purejaxrl_dqn.py PUREJAXRL --envs 10 --seed SEED"),
    "purejaxrl_whole": Run("pjq", f"{PEERS}/purejaxrl_ppo.py PUREJAXRL --envs 8 --steps 200000 --seed SEED"),
    "purejaxrl_copies": Run(
        "pjq", f"{PEERS}/purejaxrl_ppo.py PUREJAXRL --envs 8 --steps 200000 --seeds 8 --seed SEED"
    ),
    "sb3_ppo": Run("sb3", f"{PEERS}/sb3.py ppo --seed SEED", threads=1),
    "sb3_dqn": Run("sb3", f"{PEERS}/sb3.py dqn --seed SEED"),
    "cleanrl_dqn": Run("clv", f"{PEERS}/cleanrl_dqn.py CLEANRL --seed SEED"),
    "cleanrl_dqn_jax": Run("clv", f"{PEERS}/cleanrl_dqn.py CLEANRL --script dqn_jax.py --seed SEED"),
    "sbx_sac_cheetah": Run("jaxv", f"{PEERS}/sbx_sac.py --env {CHEETAH} --seed SEED"),
    "sbx_sac_cheetah_blocks": Run("jaxv", f"{PEERS}/sbx_sac.py --env {CHEETAH} --block 50 --seed SEED"),
    "sbx_sac_pendulum": Run("jaxv", f"{PEERS}/sbx_sac.py --env {PENDULUM} --seed SEED"),
    "sbx_sac_pendulum_blocks": Run("jaxv", f"{PEERS}/sbx_sac.py --env {PENDULUM} --block 50 --seed SEED"),
    "ours_pong": Run("ours", "benchmarks/ours.py pong --seed SEED"),
    "ours_pong_bfloat16": Run("ours", "benchmarks/ours.py pong --bfloat16 --seed SEED"),
    "ours_coinrun_bfloat16": Run("ours", "benchmarks/ours.py coinrun --bfloat16 --seed SEED"),
    "ours_coinrun": Run("ours", "benchmarks/ours.py coinrun --seed SEED"),
    "ours_breakout": Run("ours", "benchmarks/ours.py minatar --env MinAtar/Breakout-v1 --seed SEED"),
    "ours_space_invaders": Run(
        "ours", "benchmarks/ours.py minatar --env MinAtar/SpaceInvaders-v1 --seed SEED"
    ),
    "ours_spread": Run("ours", "benchmarks/ours.py spread --seed SEED"),
    "ours_spread_pettingzoo": Run("ours", "benchmarks/ours.py spread --backend pettingzoo --seed SEED"),
    "benchmarl_spread": Run("bml", f"{PEERS}/benchmarl_spread.py --seed SEED"),
    "sb3_pong": Run("sb3px", f"{PEERS}/sb3_pixels.py pong --seed SEED"),
    "sb3_coinrun": Run("sb3px", f"{PEERS}/sb3_pixels.py coinrun --seed SEED"),
    "cleanrl_pong": Run("clp", f"{PEERS}/cleanrl_pong.py CLEANRL --seed SEED"),
    "purejaxrl_breakout": Run(
        "pjq", f"{PEERS}/purejaxrl_ppo.py PUREJAXRL --env Breakout-MinAtar --envs 64 {PPO_1M} --seed SEED"
    ),
    "purejaxrl_space_invaders": Run(
        "pjq",
        f"{PEERS}/purejaxrl_ppo.py PUREJAXRL --env SpaceInvaders-MinAtar --envs 64 {PPO_1M} --seed SEED",
    ),
    "tianshou_prioritized": Run("tsh", f"{PEERS}/tianshou_prioritized.py --seed SEED"),
}

STEPS, UPDATES, WALL, FIRST = "env_steps_per_s", "updates_per_s", "wall_s", "first_mark_s"
HOST_DQN = ("cleanrl_dqn", "cleanrl_dqn_jax", "sb3_dqn")

ROWS = {
    "ppo_1024": Row(
        "PPO in-graph, 1024 x 128, steps/s", "ours_ppo_1024", ("purejaxrl_ppo_1024",), STEPS, 1.0, aim=1.5
    ),
    "ppo_64": Row(
        "PPO in-graph, 64 x 128, steps/s", "ours_ppo_64", ("purejaxrl_ppo_64",), STEPS, 1.0, aim=1.5
    ),
    "ppo_8": Row("PPO in-graph, 8 x 128, steps/s", "ours_ppo_8", ("purejaxrl_ppo_8",), STEPS, 1.0, aim=1.5),
    "dqn_1": Row("DQN in-graph, 1 environment, steps/s", "ours_dqn_1", ("purejaxrl_dqn_1",), STEPS, 1.0),
    "dqn_10": Row("DQN in-graph, 10 environments, steps/s", "ours_dqn_10", ("purejaxrl_dqn_10",), STEPS, 1.0),
    "ppo_envpool": Row("PPO on envpool, 8 x 128, steps/s", "ours_ppo_envpool", ("sb3_ppo",), STEPS, 3.0),
    "ppo_envpool_overlap": Row(
        "PPO on envpool, 8 x 128, overlap, steps/s", "ours_ppo_envpool_overlap", ("sb3_ppo",), STEPS, None
    ),
    "ppo_gym": Row("PPO on gym, 8 x 128, steps/s", "ours_ppo_gym", ("sb3_ppo",), STEPS, 2.0),
    "ppo_gym_overlap": Row(
        "PPO on gym, 8 x 128, overlap, steps/s", "ours_ppo_gym_overlap", ("sb3_ppo",), STEPS, None
    ),
    "dqn_envpool": Row(
        "DQN on envpool, 1 environment, steps/s", "ours_dqn_envpool", HOST_DQN, STEPS, 1.5, aim=3.0
    ),
    "dqn_envpool_overlap": Row(
        "DQN on envpool, 1 environment, overlap, steps/s", "ours_dqn_envpool_overlap", HOST_DQN, STEPS, None
    ),
    "dqn_gym": Row(
        "DQN on gym, 1 environment, steps/s", "ours_dqn_gym", HOST_DQN, STEPS, 1.5, aim=3.0, limit=DQN_LIMIT
    ),
    "dqn_gym_overlap": Row(
        "DQN on gym, 1 environment, overlap, steps/s", "ours_dqn_gym_overlap", HOST_DQN, STEPS, None
    ),
    "sac_cheetah": Row(
        "SAC HalfCheetah on gym, updates/s", "ours_sac_cheetah", ("sbx_sac_cheetah",), UPDATES, 1.5
    ),
    "sac_cheetah_overlap": Row(
        "SAC HalfCheetah on gym, overlap, updates/s",
        "ours_sac_cheetah_overlap",
        ("sbx_sac_cheetah",),
        UPDATES,
        None,
    ),
    "sac_cheetah_blocks": Row(
        "SAC HalfCheetah on gym, both 50 updates after 50 steps, updates/s",
        "ours_sac_cheetah",
        ("sbx_sac_cheetah_blocks",),
        UPDATES,
        None,
    ),
    "sac_pendulum": Row(
        "SAC Pendulum on gym, updates/s",
        "ours_sac_pendulum",
        ("sbx_sac_pendulum",),
        UPDATES,
        1.5,
        limit=SAC_LIMIT,
    ),
    "sac_pendulum_graph": Row(
        "SAC Pendulum in-graph, updates/s", "ours_sac_pendulum_graph", ("sbx_sac_pendulum",), UPDATES, None
    ),
    "sac_pendulum_blocks": Row(
        "SAC Pendulum on gym, both 50 updates after 50 steps, updates/s",
        "ours_sac_pendulum",
        ("sbx_sac_pendulum_blocks",),
        UPDATES,
        None,
    ),
    "pong": Row("PPO Pong, 8 x 128, steps/s", "ours_pong", ("cleanrl_pong", "sb3_pong"), STEPS, 1.5, aim=2.0),
    "coinrun": Row("PPO CoinRun, 16 x 64, steps/s", "ours_coinrun", ("sb3_coinrun",), STEPS, 1.5, aim=2.0),
    "pong_bfloat16": Row(
        "PPO Pong, 8 x 128, ours in bfloat16, steps/s",
        "ours_pong_bfloat16",
        ("cleanrl_pong", "sb3_pong"),
        STEPS,
        1.5,
        aim=2.0,
    ),
    "coinrun_bfloat16": Row(
        "PPO CoinRun, 16 x 64, ours in bfloat16, steps/s",
        "ours_coinrun_bfloat16",
        ("sb3_coinrun",),
        STEPS,
        1.5,
        aim=2.0,
    ),
    "breakout": Row(
        "PPO MinAtar Breakout, 64 x 128, steps/s", "ours_breakout", ("purejaxrl_breakout",), STEPS, 1.0
    ),
    "space_invaders": Row(
        "PPO MinAtar SpaceInvaders, 64 x 128, steps/s",
        "ours_space_invaders",
        ("purejaxrl_space_invaders",),
        STEPS,
        1.0,
    ),
    "spread": Row(
        "MAPPO simple_spread in-graph, 10 x 600, steps/s",
        "ours_spread",
        ("benchmarl_spread",),
        STEPS,
        10.0,
        limit=SPREAD_LIMIT,
    ),
    "spread_pettingzoo": Row(
        "MAPPO simple_spread on PettingZoo, 10 x 600, steps/s",
        "ours_spread_pettingzoo",
        ("benchmarl_spread",),
        STEPS,
        2.0,
        limit="the updates, the same as in the row above",
    ),
    "prioritized": Row(
        "prioritized memory, 256 of a million, rounds/s",
        "ours_prioritized",
        ("tianshou_prioritized",),
        UPDATES,
        1.0,
    ),
    "prioritized_per_call": Row(
        "the same, a call from Python for each round",
        "ours_prioritized",
        ("tianshou_prioritized",),
        UPDATES,
        None,
        ours_metric="updates_per_s_per_call",
    ),
    "first_step": Row(
        "PPO in-graph, 8 x 128, launch to first steps, s",
        "ours_ppo_8",
        ("purejaxrl_ppo_8",),
        FIRST,
        1.0,
        at_most=True,
    ),
    "whole_purejaxrl": Row(
        "PPO CartPole, 200k steps, whole process, s",
        "ours_whole",
        ("purejaxrl_whole",),
        WALL,
        1.0,
        at_most=True,
        limit=WHOLE_LIMIT,
    ),
    "copies": Row(
        "the same, 8 seeds by one command, whole process, s",
        "ours_copies",
        ("purejaxrl_copies",),
        WALL,
        1.0,
        at_most=True,
        limit=COPIES_LIMIT,
    ),
    "whole_sb3": Row(
        "PPO CartPole, 200k steps, whole process, s", "ours_whole", ("sb3_ppo",), WALL, 0.5, at_most=True
    ),
}


def runs_of(rows: list[str]) -> list[str]:
    """Names of the runs that `rows` need, ours beside the peers it is compared with, none twice."""
    names = [name for row in rows for name in (ROWS[row].ours, *ROWS[row].peers)]
    return list(dict.fromkeys(names))
