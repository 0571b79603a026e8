"""Numbers that are none, within a run's own state; one that heals, and one that does not."""

from __future__ import annotations

from typing import Any

from faulted.cases import WINDOWS, Case, Failed, Outcome, kind

# What is spoilt -> texts in the names of variables, by set.
STATE: dict[str, dict[str, list[str]]] = {
    "weights": {"ppo": ["network/"], "dqn": ["network/", "target"]},
    "optimizer": {"ppo": ["optimizer"], "dqn": ["optimizer"]},
    "memory": {"dqn": ["memory/ring/observation", "memory/ring/reward", "memory/"]},
    "observation": {"ppo": ["env/"], "dqn": ["env/"]},
    "normaliser": {"ppo": ["mean", "normal"], "dqn": ["reward"]},
}
SAID = ("NaN or infinite", "Going back to", "is nan", "is inf", "not finite", "NaN")


def nan(case: Case, what: str) -> Outcome:
    """A run one of whose variables becomes NaN or infinite: it goes on, back, or ends with exit code 3."""
    name = case.rng.choice(list(STATE[what]))
    text = case.rng.choice(STATE[what][name])
    value, everywhere = case.rng.choice(["nan", "inf", "-inf"]), case.rng.random() < 0.5
    at = case.rng.choice(["the compiled iterations", "a row of metrics", "a checkpoint to be written"])
    words = case.words(name, nan_patience=2)
    plan: dict[str, Any] = {"at": at, "within": "train", "nth": case.rng.randint(2, WINDOWS - 2)}
    plan["do"] = {"nan": [text, value, everywhere]}
    code = case.under(words, plan, {0, 3})
    return ended(case, name, words, code)


def ended(case: Case, name: str, words: list[str], code: int) -> Outcome:
    if code == 3:  # it comes to the same point again, or was healed
        return case.goes_on(name, words, code, exact=False, rows=False, codes={0, 3})
    case.came_to(name, case.folder / "runs" / "run_0", rows=False, exact=False)
    log = (case.folder / "runs" / "run_0" / "train.log").read_text()
    went_back = "Going back to" in log
    return Outcome("went on" if went_back else "unharmed")


@kind(6)
def nan_weights(case: Case) -> Outcome:
    """NaN or infinity in weights"""
    return nan(case, "weights")


@kind(4)
def nan_optimizer(case: Case) -> Outcome:
    """NaN or infinity in an optimizer's variables"""
    return nan(case, "optimizer")


@kind(4)
def nan_memory(case: Case) -> Outcome:
    """NaN or infinity in the replay memory: observations, rewards, priorities"""
    return nan(case, "memory")


@kind(4)
def nan_observation(case: Case) -> Outcome:
    """NaN or infinity in the state of the environments, and so in what they show"""
    return nan(case, "observation")


@kind(3)
def nan_normaliser(case: Case) -> Outcome:
    """NaN or infinity in running statistics"""
    return nan(case, "normaliser")


@kind(6)
def nan_loss(case: Case) -> Outcome:
    """NaN or infinity in the loss, for some iterations, or from then on"""
    name = case.rng.choice(["ppo", "dqn", "host"])
    words = case.words(name, nan_patience=case.rng.choice([1, 2, 10]))
    for_good = case.rng.random() < 0.4
    plan: dict[str, Any] = {"at": "the compiled", "nth": case.rng.randint(2, WINDOWS - 4)}
    plan["do"] = {"loss": [case.rng.choice(["nan", "inf"]), 10**9 if for_good else case.rng.randint(1, 4)]}
    code = case.under(words, plan, {0, 3})
    log = (case.folder / "runs" / "run_0" / "train.log").read_text()
    if not any(word in log + case.runs[-1].text for word in SAID):
        raise Failed("NaN was in the loss and nothing was said of it")
    return ended(case, name, words, code)
