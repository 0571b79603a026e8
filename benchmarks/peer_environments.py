"""The peers' environments: one per library, of the Python that runs this, made with uv where missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TORCH = "2.13.0"


class Environment(NamedTuple):
    """What an environment holds, and the imports that show that it works."""

    packages: tuple[str, ...]
    imports: str
    torch: bool = False


ENVIRONMENTS = {
    "pjq": Environment(  # PureJaxRL, whose scripts come from a checkout
        (
            "jax==0.10.2",
            "jaxlib==0.10.2",
            "gymnax==1.0.1",
            "flashbax==0.1.3",
            "flax==0.12.8",
            "optax==0.2.8",
            "chex==0.1.92",
            "distrax==0.1.9",
            "six",
        ),
        "jax, gymnax, flashbax, flax, optax, distrax",
    ),
    "sb3": Environment(
        ("stable-baselines3==2.9.2", "gymnasium==1.4.0"), "torch, stable_baselines3", torch=True
    ),
    "sb3px": Environment(  # the same with pictures
        (
            "stable-baselines3==2.9.2",
            "gymnasium==1.4.0",
            "ale-py==0.12.1",
            "opencv-python-headless",
            "envpool==1.2.5",
            "PyQt5-Qt5",
        ),
        "torch, stable_baselines3, ale_py, cv2, envpool, PyQt5",
        torch=True,
    ),
    "clp": Environment(  # CleanRL's Pong, which fails on later EnvPools
        (
            "numpy<2",
            "gym==0.23.1",
            "gymnasium==0.29.1",
            "tensorboard",
            "tyro",
            "envpool==0.8.4",
        ),
        "torch, envpool, tyro, torch.utils.tensorboard",
        torch=True,
    ),
    "clv": Environment(  # CleanRL, whose scripts come from a checkout and need Gymnasium 0.29's autoreset
        (
            "numpy<2",
            "gymnasium==0.29.1",
            "gym==0.23.1",
            "jax==0.6.2",
            "jaxlib==0.6.2",
            "flax==0.11.2",
            "optax==0.2.8",
            "tensorboard",
            "tyro",
        ),
        "torch, gymnasium, jax, flax, optax, tyro, torch.utils.tensorboard",
        torch=True,
    ),
    "jaxv": Environment(  # SBX
        (
            "sbx-rl==0.28.0",
            "stable-baselines3==2.9.2",
            "jax==0.10.2",
            "jaxlib==0.10.2",
            "flax==0.12.8",
            "optax==0.2.8",
            "gymnasium[mujoco]==1.3.0",
        ),
        "sbx, mujoco",
        torch=True,
    ),
    "rayv": Environment(  # RLlib; Gymnasium at the version that it pins
        ("ray[rllib]==2.60.0", "gymnasium==1.2.2"),
        "torch, gymnasium, ray.rllib.algorithms.impala, ray.rllib.algorithms.appo",
        torch=True,
    ),
    "bml": Environment(  # BenchMARL; PettingZoo at the last version that has MPE
        ("benchmarl==1.5.2", "torchrl==0.11.1", "tensordict==0.11.0", "pettingzoo[mpe]==1.24.3"),
        "benchmarl.experiment, pettingzoo.mpe",
        torch=True,
    ),
    "tsh": Environment(("tianshou==2.0.1", "gymnasium==1.4.0"), "torch, tianshou.data", torch=True),
}


class EnvironmentFailure(Exception):
    """An environment could not be made or does not work; the message says why."""


def python_of(folder: Path, name: str) -> Path:
    """The interpreter of an environment."""
    return folder / name / "bin" / "python"


def prepare(folder: Path, name: str) -> None:
    """Makes the environment unless it is there, and imports once what will be used.

    The imports also leave all bytecode compiled and all files in the page cache, so that no peer's start-up
    is charged for being the first.

    Raises:
        EnvironmentFailure: it cannot be made, or an import fails.
    """
    environment, python = ENVIRONMENTS[name], python_of(folder, name)
    if not python.exists():
        print(f"making the environment {folder / name} (minutes)", flush=True)
        uv = _find_uv()
        _call([uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(folder / name)])
        try:
            if environment.torch:
                _install_torch(uv, python)
            _install(uv, python, *environment.packages)
        except EnvironmentFailure:
            shutil.rmtree(folder / name)  # half an environment would count as one the next time
            raise
    _call([str(python), "-c", f"import {environment.imports}"])


def _install_torch(uv: str, python: Path) -> None:
    """PyTorch without CUDA, from the user's own find-links where these have its CPU wheel, else from
    PyTorch's index. The package registry's wheel would bring gigabytes of CUDA libraries along.
    """
    links = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS")
    if links:
        options = [option for link in links.split() for option in ("--find-links", link)]
        try:
            _install(uv, python, *options, f"torch=={TORCH}+cpu")
            return
        except EnvironmentFailure:
            pass
    _install(uv, python, "--torch-backend", "cpu", f"torch=={TORCH}")


def _install(uv: str, python: Path, *packages: str) -> None:
    command = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
    _call([*command, *packages])


def _find_uv() -> str:
    found = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    if not Path(found).exists():
        raise EnvironmentFailure("uv is missing: run ./setup.sh, or install it")
    return found


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = (done.stderr or done.stdout).strip()[-800:]
        raise EnvironmentFailure(f"{' '.join(command)} failed: {words}")
