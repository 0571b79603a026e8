"""Data sets as files: what is written is read again, by us and by Minari, and the other way round."""

import io
import json
import logging
import re
import struct
from pathlib import Path

import gymnasium
import h5py
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image
from played import SPACES, assert_equal, episodes, leaves

from rl.data.dataset import Dataset, read, write
from rl.data.spaces import from_json, to_json
from rl.envs.host import observation_view
from rl.errors import UsageError


@pytest.mark.parametrize("kind", SPACES)
def test_what_is_written_is_read_to_the_bit(tmp_path, kind):
    data = Dataset.of(episodes(*SPACES[kind], reward_dtype=np.float64), *SPACES[kind], {"env_id": "My-v0"})
    write(tmp_path / "mine", data, {"seed": 3})
    found = read(tmp_path / "mine", exact=True)
    assert_equal(found, data)
    assert (found.observation_space, found.action_space) == SPACES[kind]
    assert found.env_id == "My-v0" and found.metadata["seed"] == 3
    assert found.metadata["total_episodes"] == 3 and found.metadata["total_steps"] == 15


def test_agents_see_narrow_numbers_and_actions_from_0(tmp_path):
    space = spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Discrete(3, start=5)
    data = Dataset.of(episodes(*space, reward_dtype=np.float64), *space)
    data.truncated[:] = False  # the second episode ends without saying why
    write(tmp_path, data)
    found = read(tmp_path)
    assert found.observation.dtype == found.reward.dtype == np.float32
    assert found.action.dtype == np.int32 and (found.action == data.action - 5).all()
    assert found.action_space == spaces.Discrete(3)
    assert found.observation_space == spaces.Box(-np.inf, np.inf, (2,), np.float32)
    assert np.flatnonzero(found.truncated).tolist() == [5]
    np.testing.assert_allclose(
        found.returns, [data.reward[:5].sum(), data.reward[5], data.reward[6:].sum()], 1e-6
    )


def test_integers_beyond_int32_are_floats_as_they_are_where_they_are_played(tmp_path):
    times = spaces.Box(0, 2**62, (1,), np.int64)
    seen = spaces.Dict({"now": times, "small": spaces.Box(-5, 5, (1,), np.int64)})
    data = Dataset.of(episodes(seen, spaces.Discrete(2)), seen, spaces.Discrete(2))
    data.observation["now"][:, 0] = 1_700_000_000_123 + np.arange(len(data.observation["now"]))
    write(tmp_path, data)
    found = read(tmp_path)
    assert found.observation_space == observation_view(seen)
    assert found.observation["now"].dtype == np.float32 and found.observation["small"].dtype == np.int32
    np.testing.assert_array_equal(found.observation["now"], np.float32(data.observation["now"]))
    assert_equal(read(tmp_path, exact=True), data)


@pytest.mark.parametrize("kind", SPACES)
def test_minari_reads_ours(tmp_path, kind, monkeypatch):
    minari = pytest.importorskip("minari")
    data = Dataset.of(episodes(*SPACES[kind], reward_dtype=np.float64), *SPACES[kind])
    write(tmp_path / "mine", data)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    found = minari.load_dataset("mine")
    assert (found.observation_space, found.action_space) == SPACES[kind]
    assert found.total_episodes == 3 and found.total_steps == 15 and found.spec.dataset_id == "mine-v0"
    for theirs, ours in zip(found.iterate_episodes(), data.episodes(), strict=True):
        for name in ("observation", "action", "reward"):
            pairs = zip(leaves(getattr(theirs, f"{name}s")), leaves(getattr(ours, name)), strict=True)
            for one, other in pairs:
                assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
        assert (theirs.terminations == ours.terminated).all()
        assert (theirs.truncations == ours.truncated).all()


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_we_read_minaris(tmp_path, kind, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    observations, actions = SPACES[kind]
    data = Dataset.of(episodes(observations, actions, reward_dtype=np.float64), observations, actions)
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations=each.observation,
            actions=each.action,
            rewards=each.reward,
            terminations=each.terminated,
            truncations=each.truncated,
            infos={"place": np.arange(each.length)},
        )
        for each in data.episodes()
    ]
    theirs = minari.create_dataset_from_buffers(
        "theirs-v3", buffers, observation_space=observations, action_space=actions
    )
    found = read(tmp_path / "theirs-v3", exact=True)
    assert (found.observation_space, found.action_space) == SPACES[kind]
    if kind == "picture":  # theirs are JPEG by default: what its own reader says of them counts
        data.observation[:] = np.concatenate([each.observations for each in theirs.iterate_episodes()])
    assert_equal(found, data)


def test_returns_to_go_end_with_their_episodes():
    data = Dataset.of(episodes(*SPACES["box"], lengths=(3, 1, 2)), *SPACES["box"])
    data.reward[:] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert data.returns_to_go(0.5).tolist() == [3.0, 4.0, 4.0, 8.0, 32.0, 32.0]
    assert data.returns_to_go().tolist() == [7.0, 6.0, 4.0, 8.0, 48.0, 32.0]


@pytest.mark.parametrize(("name", "length"), [("cartpole-small-v0", 615), ("pendulum-small-v0", 1000)])
def test_data_sets_that_are_shipped_are_whole(name, length):
    data = read(Path(__file__).parent / "sets" / name)
    assert data.lengths.sum() == data.metadata["total_steps"] == length
    assert (data.terminated | data.truncated).sum() == len(data.lengths)
    made = gymnasium.make(data.env_id)
    assert (made.observation_space, made.action_space) == (data.observation_space, data.action_space)


def test_spaces_are_written_as_minari_writes_them():
    minari = pytest.importorskip("minari.serialization")
    for pair in SPACES.values():
        for space in pair:
            assert to_json(space) == minari.serialize_space(space)
            assert from_json(to_json(space)) == minari.deserialize_space(to_json(space)) == space


def one_line(raised):
    text = str(raised.value)
    assert "\n" not in text
    return text


def test_what_is_no_data_set_is_refused_in_one_line(tmp_path):
    data = Dataset.of(episodes(*SPACES["box"]), *SPACES["box"])
    write(tmp_path / "pendulum", data)
    with pytest.raises(UsageError) as raised:
        read(tmp_path / "pendulm")
    assert "did you mean pendulum?" in one_line(raised)
    with pytest.raises(UsageError) as raised:
        read(tmp_path)
    assert "but in pendulum" in one_line(raised)
    with pytest.raises(UsageError, match="is there already"):
        write(tmp_path / "pendulum", data)
    path = tmp_path / "pendulum" / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    path.write_text(json.dumps(metadata | {"data_format": "arrow"}))
    with pytest.raises(UsageError, match="'arrow' is not read here: take hdf5"):
        read(tmp_path / "pendulum")
    path.write_text(json.dumps(metadata | {"observation_space": '{"type": "Box", "dtype": "O"}'}))
    with pytest.raises(UsageError, match="observation_space"):
        read(tmp_path / "pendulum")
    path.write_text(json.dumps(metadata))
    with h5py.File(tmp_path / "pendulum" / "data" / "main_data.hdf5", "a") as file:
        for name in list(file):
            del file[name]
    with pytest.raises(UsageError, match="no whole episode"):
        read(tmp_path / "pendulum")


def test_a_damaged_episode_is_left_out_with_one_line(tmp_path, caplog):
    data = Dataset.of(episodes(*SPACES["box"]), *SPACES["box"])
    write(tmp_path, data)
    (tmp_path / "secret.hdf5").write_bytes((tmp_path / "data" / "main_data.hdf5").read_bytes())
    with h5py.File(tmp_path / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/rewards"], file["episode_2/observations"]
        file["episode_2/observations"] = h5py.ExternalLink("../secret.hdf5", "episode_2/observations")
    with caplog.at_level(logging.WARNING, "rl.data"):
        found = read(tmp_path, exact=True)
    assert found.lengths.tolist() == [1]
    assert [f"episode {i} is damaged" in line for i, line in zip((0, 2), caplog.messages, strict=True)]


def damaged_in_turn(folder, caplog):
    """The numbers of the episodes that are said to be damaged, and the lengths of the others."""
    with caplog.at_level(logging.WARNING, "rl.data"):
        found = read(folder, exact=True)
    said = [re.search(r"episode (\d+) is damaged and left out: ", line)[1] for line in caplog.messages]
    return list(map(int, said)), found.lengths.tolist()


def test_arrays_of_any_size_cost_their_episode_alone(tmp_path, caplog):
    """HDF5 says a size before it has the numbers: the wrong one is not read."""
    data = Dataset.of(episodes(*SPACES["box"]), *SPACES["box"])
    write(tmp_path, data)
    with h5py.File(tmp_path / "data" / "main_data.hdf5", "a") as file:
        for i, name, row in ((0, "rewards", ()), (2, "observations", data.observation.shape[1:])):
            del file[f"episode_{i}/{name}"]
            file.create_dataset(f"episode_{i}/{name}", (1 << 45, *row), np.float32, chunks=True)
        file.create_group("episode_" + "9" * 5_000)
    assert damaged_in_turn(tmp_path, caplog) == ([0, 2], [data.lengths[1]])


@pytest.mark.parametrize("size", [(20_000, 20_000), (64, 48)])
def test_a_picture_that_says_another_size_costs_its_episode_alone(tmp_path, caplog, size):
    space = spaces.Box(0, 255, (48, 64, 3), np.uint8), spaces.Discrete(2)
    write(tmp_path, Dataset.of(episodes(*space), *space))
    path = tmp_path / "data/metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"jpeg_encoding": True}))
    with h5py.File(tmp_path / "data" / "main_data.hdf5", "a") as file:
        lengths = [len(file[f"episode_{i}/rewards"]) for i in range(3)]
        for i in range(3):
            made = io.BytesIO()
            Image.new("RGB", (64, 48)).save(made, "JPEG")
            content = bytearray(made.getvalue())
            if i == 1:
                place = content.index(b"\xff\xc0") + 5  # height and width, of two bytes each
                content[place : place + 4] = struct.pack(">HH", *size)
            del file[f"episode_{i}/observations"]
            kind = h5py.vlen_dtype(np.uint8)
            there = file.create_dataset(f"episode_{i}/observations", (lengths[i] + 1,), kind)
            for row in range(lengths[i] + 1):
                there[row] = np.frombuffer(bytes(content), np.uint8)
    assert damaged_in_turn(tmp_path, caplog) == ([1], [lengths[0], lengths[2]])


def test_a_data_set_takes_the_place_of_another_at_once(tmp_path):
    first, second = (Dataset.of(episodes(*SPACES["box"], seed=i), *SPACES["box"]) for i in range(2))
    write(tmp_path, first)
    write(tmp_path, second, force=True)
    assert_equal(read(tmp_path, exact=True), second)
    assert [each.name for each in tmp_path.iterdir()] == ["data"]
