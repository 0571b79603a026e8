"""d3rlpy, which brings torch, reads what we write, and we read what it writes."""

import numpy as np
import pytest
from gymnasium import spaces
from played import episodes

from rl.data.__main__ import main
from rl.data.dataset import Dataset, read, write

OBSERVATIONS = spaces.Box(-np.inf, np.inf, (4,), np.float32)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("actions", [spaces.Discrete(2), spaces.Box(-1.0, 1.0, (2,), np.float32)])
def test_d3rlpy_reads_ours_and_we_read_its(tmp_path, actions):
    d3rlpy = pytest.importorskip("d3rlpy")
    data = Dataset.of(episodes(OBSERVATIONS, actions, lengths=(5, 3, 9)), OBSERVATIONS, actions)
    write(tmp_path / "data", data)
    assert main(["convert", str(tmp_path / "data"), "--to", str(tmp_path / "data.npz")]) == 0
    with np.load(tmp_path / "data.npz") as file:
        columns = {name: file[name] for name in file if name != "next_observations"}
    theirs = d3rlpy.dataset.MDPDataset(**columns)
    for one, other in zip(theirs.episodes, data.episodes(), strict=True):
        assert one.observations.tobytes() == other.observation[:-1].tobytes()
        assert one.actions.tobytes() == other.action.tobytes()
        assert one.rewards.tobytes() == other.reward.tobytes()
        assert one.terminated == other.terminated[-1]
    with open(tmp_path / "theirs.h5", "w+b") as file:
        theirs.dump(file)
    assert main(["convert", str(tmp_path / "theirs.h5"), "--to", str(tmp_path / "back")]) == 0
    found = read(tmp_path / "back", exact=True)
    assert found.lengths.tolist() == [5, 2, 9]  # the second is truncated: its successor d3rlpy does not keep
    for one, other in zip(found.episodes(), data.episodes(), strict=True):
        length = one.length
        assert one.observation[:length].tobytes() == other.observation[:length].tobytes()
        assert one.action.tobytes() == other.action[:length].tobytes()
        assert one.reward.ravel().tobytes() == other.reward[:length].tobytes()
        assert (one.terminated == other.terminated[:length]).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_d3rlpy_finds_ours_by_minari(tmp_path, monkeypatch):
    datasets = pytest.importorskip("d3rlpy").datasets
    pytest.importorskip("minari")
    import gymnasium

    made = gymnasium.make("CartPole-v1")
    space = made.observation_space, made.action_space
    data = Dataset.of(episodes(*space, lengths=(6,)), *space)
    write(tmp_path / "mine-v0", data, {"env_spec": made.spec.to_json()})
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    buffer, env = datasets.get_minari("mine-v0")
    assert type(env.unwrapped) is type(made.unwrapped)
    assert buffer.episodes[0].observations.tobytes() == data.observation[:-1].tobytes()
