"""`python -m rl.data`: what it tells, and what it makes of data sets and of other libraries' files."""

import errno
import json

import h5py
import numpy as np
import pytest
from faults import Faults
from gymnasium import spaces
from played import SPACES, assert_equal, episodes

from rl.data import __main__ as data_main
from rl.data import flat
from rl.data.__main__ import main
from rl.data.dataset import Dataset, check_values, read, write
from rl.data.summary import histogram

CARTPOLE = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2)


@pytest.fixture
def data(tmp_path):
    """Three episodes, of 5, 1 and 9 steps; rewards count the steps of all of them."""
    made = Dataset.of(episodes(*SPACES["discrete"]), *SPACES["discrete"])
    made.reward[:] = np.arange(15)
    about = {"env_id": "My-v0", "policies": [{"hparams": "mine", "which": "best", "seed": 3}]}
    write(tmp_path / "data", made, about)
    return made


def refused(capsys, *words):
    """The one line of a command that is refused."""
    assert main(list(map(str, words))) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and captured.err.startswith("error: ")
    return captured.err


def test_it_tells_what_is_in_a_data_set(tmp_path, data, capsys):
    assert main([str(tmp_path / "data")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "environment  My-v0" in lines and "actions      Discrete(3)" in lines
    assert "episodes     3: 2 terminated, 1 truncated" in lines
    assert "steps        15, 5.0 an episode (1 to 9)" in lines
    # The returns are 0+1+2+3+4 = 10, 5, and 6+...+14 = 90.
    assert "returns      35.0 +- 38.9" in lines
    assert "             min 5, quartiles 7.5, 10.0, 50.0, max 90.0" in lines
    assert "policy       hparams mine, which best, seed 3" in lines
    assert sum(line.endswith("# 2") for line in lines) == sum(line.endswith("# 1") for line in lines) == 1
    assert main([str(tmp_path / "data")] * 2) == 0
    assert capsys.readouterr().out.count("data:\n") == 2


def test_a_histogram_has_equal_bins_and_every_value():
    lines = histogram(np.array([0.0, 1.0, 1.0, 10.0]))
    assert [line.split()[-1] for line in lines] == ["1", "2", "0", "0", "0", "0", "0", "0", "0", "1"]
    assert lines[1].count("#") == 2 * lines[0].count("#") == 40
    assert histogram(np.array([np.nan, 1.0, np.inf, 1.0]))[-1].split() == ["not", "finite", "2"]
    assert histogram(np.array([np.nan])) == ["not finite  1"]
    assert histogram(np.full(7, 500.0)) == [f"     500.0  {'#' * 40} 7"]


def test_split_and_merge_lose_and_double_nothing(tmp_path, data, capsys):
    one, other, both = tmp_path / "one", tmp_path / "other", tmp_path / "both"
    words = ["split", str(tmp_path / "data"), "--to", str(one), str(other), "--episodes", "2", "--seed", "1"]
    assert main(words) == 0
    assert len(read(one).lengths) == 2 and len(read(other).lengths) == 1
    assert main(["merge", str(one), str(other), "--to", str(both)]) == 0
    assert sorted(read(both).returns) == [5.0, 10.0, 90.0]
    assert read(both).metadata["policies"] == [{"hparams": "mine", "which": "best", "seed": 3}]
    assert read(both).metadata["dataset_id"] == "both-v0"
    capsys.readouterr()
    assert "is there already" in refused(capsys, *words)
    assert main([*words, "--force"]) == 0
    capsys.readouterr()
    assert "both parts need one" in refused(capsys, *words[:-3], "3", "--force")
    assert "either --share X or --episodes N" in refused(capsys, *words[:5])
    assert "splt is neither a folder nor a command; did you mean split?" in refused(capsys, "splt", one)
    assert "splt is neither" in refused(capsys, "splt", one, "--to", tmp_path / "x")
    write(tmp_path / "strange", Dataset.of(episodes(*SPACES["box"]), *SPACES["box"], {"env_id": "B-v0"}))
    line = refused(capsys, "merge", one, tmp_path / "strange", "--to", tmp_path / "new")
    assert "not merged, their environment differs: My-v0 and B-v0" in line
    write(tmp_path / "light", data, {"env_id": "My-v0", "env_kwargs": {"g": 1.0}})
    line = refused(capsys, "merge", tmp_path / "data", tmp_path / "light", "--to", tmp_path / "new")
    assert "their environment's options differs: {'env_kwargs': {}} and {'env_kwargs': {'g': 1.0}}" in line
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".jsonl"])
def test_files_of_other_libraries_keep_every_number(tmp_path, suffix, capsys):
    made = Dataset.of(episodes(*CARTPOLE), *CARTPOLE)
    write(tmp_path / "data", made)
    path = tmp_path / f"flat{suffix}"
    assert main(["convert", str(tmp_path / "data"), "--to", str(path)]) == 0
    assert main(["convert", str(path), "--to", str(tmp_path / "back"), "--env", "CartPole-v1"]) == 0
    found = read(tmp_path / "back")
    assert found.env_id == "CartPole-v1" and found.action_space == spaces.Discrete(2)
    expected = read(tmp_path / "data")
    assert_equal(found, expected)
    capsys.readouterr()
    assert main(["convert", str(path), "--to", str(tmp_path / "guessed")]) == 0
    assert "does not say its spaces: taken for Box" in capsys.readouterr().err
    assert read(tmp_path / "guessed").action_space == spaces.Discrete(2)
    assert "name another --env" in refused(
        capsys, "convert", path, "--to", tmp_path / "other", "--env", "MountainCar-v0"
    )


@pytest.mark.parametrize("suffix", [".hdf5", ".NPZ", ".jsonl"])
def test_files_of_other_libraries_have_the_environments_own_numbers_of_actions(tmp_path, suffix, capsys):
    own = CARTPOLE[0], spaces.Discrete(2, start=-1)
    made = Dataset.of(episodes(*CARTPOLE), *CARTPOLE)
    write(tmp_path / "data", made, {"env_id": "Minus-v0"})
    path, back = tmp_path / f"flat{suffix}", tmp_path / "back"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_main, "_spaces", lambda env: own)
        assert main(["convert", str(tmp_path / "data"), "--to", str(path)]) == 0
        assert main(["convert", str(path), "--to", str(back), "--env", "Minus-v0"]) == 0
        # What was read from a file has the environment's numbers already.
        for source in ([str(back)], [str(path), "--env", "Minus-v0"]):
            assert main(["convert", *source, "--to", str(tmp_path / "again.npz"), "--force"]) == 0
            again = np.load(tmp_path / "again.npz")["actions"]
            np.testing.assert_array_equal(again, made.action - 1)
    np.testing.assert_array_equal(read(back).action, made.action)
    if suffix == ".NPZ":
        assert set(np.unique(np.load(path)["actions"])) == {-1, 0}
    capsys.readouterr()
    write(tmp_path / "other", made, {"env_id": "strange:Env-v0"})
    assert main(["convert", str(tmp_path / "other"), "--to", str(path), "--force"]) == 0
    assert "actions are written as numbers from 0" in capsys.readouterr().err


def test_d4rl_without_successors_ends_where_they_are_unknown(tmp_path, capsys):
    with h5py.File(tmp_path / "old.hdf5", "w") as file:
        file["observations"] = np.arange(9, dtype=np.float32)[:, None]
        file["actions"] = np.zeros((9, 1), np.float32)
        file["rewards"] = np.arange(9, dtype=np.float32)
        file["terminals"] = np.arange(9) == 2
        file["timeouts"] = np.arange(9) == 5
        file["infos/qpos"] = np.zeros(3)
    assert main(["convert", str(tmp_path / "old.hdf5"), "--to", str(tmp_path / "new")]) == 0
    found = read(tmp_path / "new")
    # 0 1 2 terminates; 3 4 5 is cut after 4, whose successor 5 is the last that is known; so is 6 7 8.
    assert found.lengths.tolist() == [3, 2, 2]
    assert found.observation[:, 0].tolist() == [0, 1, 2, 2, 3, 4, 5, 6, 7, 8]
    assert found.terminated.tolist() == [False, False, True] + [False] * 4
    assert np.flatnonzero(found.truncated).tolist() == [4, 6]


def test_episodes_end_where_what_follows_is_another_ones(tmp_path, capsys):
    """As in what D4RL's qlearning_dataset returns: successors, no timeouts."""
    first = np.array([0, 1, 2, 3, 100, 101, 102, 200], np.float32)[:, None]
    columns = {"actions": np.zeros((8, 1), np.float32), "rewards": np.ones(8), "terminals": np.zeros(8, bool)}
    np.savez(tmp_path / "q.npz", observations=first, next_observations=first + 1, **columns)
    assert main(["convert", str(tmp_path / "q.npz"), "--to", str(tmp_path / "q")]) == 0
    found = read(tmp_path / "q")
    assert found.lengths.tolist() == [4, 3, 1]
    assert found.observation[:, 0].tolist() == [0, 1, 2, 3, 4, 100, 101, 102, 103, 200, 201]
    assert np.flatnonzero(found.truncated).tolist() == [3, 6, 7]
    rounded = np.arange(8.0)[:, None] / 7.0  # as float32, not the same numbers
    np.savez(
        tmp_path / "r.npz", observations=rounded[:-1], next_observations=np.float32(rounded[1:]),
        **{name: each[:-1] for name, each in columns.items()},
    )  # fmt: skip
    assert main(["convert", str(tmp_path / "r.npz"), "--to", str(tmp_path / "r")]) == 0
    assert read(tmp_path / "r").lengths.tolist() == [7]
    one = {name: each[:1] for name, each in columns.items()}
    np.savez(tmp_path / "one.npz", observations=first[:1], next_observations=first[:1], **one)
    assert main(["convert", str(tmp_path / "one.npz"), "--to", str(tmp_path / "one")]) == 0


def test_discrete_actions_may_have_an_axis_of_one(tmp_path):
    columns = {"rewards": np.ones(3), "terminals": np.arange(3) == 2}
    actions = np.array([[0], [1], [0]])
    np.savez(tmp_path / "a.npz", observations=np.zeros((3, 4)), actions=actions, **columns)
    assert (
        main(["convert", str(tmp_path / "a.npz"), "--to", str(tmp_path / "a"), "--env", "CartPole-v1"]) == 0
    )
    assert read(tmp_path / "a").action.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"actions": np.array([0, 5, 1])}, "actions are not all of Discrete(2): name another --env"),
        ({"actions": np.array([0, -1, 1])}, "actions are not all of Discrete(2): name another --env"),
        ({"actions": np.array([0.0, 0.3, 1.0])}, "actions are not all whole numbers of Discrete(2)"),
        ({"actions": np.array([0.0, np.nan, 1.0])}, "actions are not all whole numbers of Discrete(2)"),
        ({"rewards": np.ones((3, 2))}, "cannot reshape"),
        ({"next_observations": np.zeros((3, 5))}, "unlike shapes: {'observations': (3, 4), 'next_obs"),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path, capsys, changed, words):
    columns = {"observations": np.zeros((3, 4)), "actions": np.zeros(3, int), "rewards": np.ones(3)}
    np.savez(tmp_path / "a.npz", **(columns | {"terminals": np.zeros(3, bool)} | changed))
    rest = "--to", tmp_path / "a", "--env", "CartPole-v1"
    assert words in refused(capsys, "convert", tmp_path / "a.npz", *rest)
    assert not (tmp_path / "a").exists()


BATCH = '{"actions": [0], "rewards": [1], "dones": [1], "obs": [[1]]}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.npz", b""),
        ("cut.npz", b"PK\x03\x04cut"),
        ("text.jsonl", b"\xff\xfe"),
        ("none.jsonl", b'{"actions": [], "rewards": [], "dones": [], "obs": []}'),
        ("unlike.jsonl", f"{BATCH}\n{BATCH.replace('[[1]]', '[[1, 2]]')}".encode()),
        ("huge.jsonl", BATCH.replace("[0]", f"[{2**63}]").encode()),
        ("no.hdf5", b"\x89HDF\r\n\x1a\n"),
    ],
)
def test_damaged_files_are_one_line(tmp_path, capsys, name, content):
    (tmp_path / name).write_bytes(content)
    assert name in refused(capsys, "convert", tmp_path / name, "--to", tmp_path / "a")


def test_a_state_that_only_ends_episodes_is_one_of_those_that_are_guessed(tmp_path, capsys):
    columns = {"actions": [0, 1], "rewards": [0.0, 1.0], "terminals": [False, True]}
    np.savez(tmp_path / "lake.npz", observations=[0, 3], next_observations=[3, 15], **columns)
    assert main(["convert", str(tmp_path / "lake.npz"), "--to", str(tmp_path / "new")]) == 0
    found = read(tmp_path / "new")
    assert found.observation_space == spaces.Discrete(16) and found.observation.tolist() == [0, 3, 15]
    check_values(found, "new")


def test_a_batch_that_lacks_a_column_of_its_episodes_first_is_named(tmp_path, capsys):
    (tmp_path / "lacks.jsonl").write_text(BATCH.replace("}", ', "new_obs": [[2]]}') + f"\n{BATCH}\n")
    said = refused(capsys, "convert", tmp_path / "lacks.jsonl", "--to", tmp_path / "a")
    assert "its batches have unlike columns" in said


def test_an_array_and_a_dump_of_no_episode_are_no_data(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros(3))
    (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    assert "cannot read" in refused(capsys, "convert", tmp_path / "x.npz", "--to", tmp_path / "a")
    with h5py.File(tmp_path / "none.h5", "w") as file:
        file["num_episodes"] = 0
    assert "cannot read" in refused(capsys, "convert", tmp_path / "none.h5", "--to", tmp_path / "a")


def test_the_inner_folder_of_a_data_set_is_that_data_set(tmp_path, data):
    target = tmp_path / "exp-v0.1"
    assert main(["convert", str(tmp_path / "data" / "data"), "--to", str(target)]) == 0
    assert_equal(read(target), read(tmp_path / "data"))


def test_rllibs_batches_are_joined_by_episode(tmp_path, capsys):
    rows = {"type": "SampleBatch", "actions": [0, 1, 1], "rewards": [1.0, 1.0, 1.0]}
    first = rows | {"obs": [[0.0], [1.0], [9.0]], "new_obs": [[1.0], [2.0], [10.0]], "eps_id": [7, 7, 8]}
    second = rows | {"obs": [[2.0], [3.0], [10.0]], "new_obs": [[3.0], [4.0], [11.0]], "eps_id": [7, 7, 8]}
    folder = tmp_path / "rllib"
    folder.mkdir()
    lines = [
        json.dumps(first | {"terminateds": [False] * 3, "truncateds": [False] * 3}),
        json.dumps(second | {"terminateds": [False, True, False], "truncateds": [False] * 3}),
    ]
    (folder / "output.json").write_text("\n".join(lines))
    assert main(["convert", str(folder), "--to", str(tmp_path / "new")]) == 0
    found = read(tmp_path / "new")
    assert found.lengths.tolist() == [4, 2]
    assert found.observation[:, 0].tolist() == [0, 1, 2, 3, 4, 9, 10, 11]
    assert np.flatnonzero(found.terminated).tolist() == [3]
    assert np.flatnonzero(found.truncated).tolist() == [5]
    capsys.readouterr()
    (folder / "output.json").write_text(json.dumps(first | {"obs": "BCJNGGhAbQAAAA", "dones": [False] * 3}))
    assert "obs is packed" in refused(capsys, "convert", folder, "--to", tmp_path / "packed")
    (folder / "output.json").write_text('{"type": "MultiAgentBatch"}')
    assert "no SampleBatch" in refused(capsys, "convert", folder, "--to", tmp_path / "packed")


def test_mistakes_are_one_line_and_write_nothing(tmp_path, data, capsys):
    names = sorted(path.name for path in tmp_path.rglob("*"))
    source = tmp_path / "data"
    assert "did you mean data?" in refused(capsys, tmp_path / "dat")
    assert "unknown flag --what" in refused(capsys, source, "--what")
    assert "name a data set" in refused(capsys)
    assert "that is what is read" in refused(capsys, "convert", source, "--to", source, "--force")
    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "mine" / "data" / "thesis.txt").write_text("all of it")
    names = sorted(path.name for path in tmp_path.rglob("*"))
    assert "is no data set" in refused(capsys, "convert", source, "--to", tmp_path / "mine", "--force")
    assert "ends on .hdf5, .npz or .jsonl" in refused(capsys, "convert", source, "--to", tmp_path / "a.csv")
    assert "says its environment itself" in refused(
        capsys, "convert", source, "--to", tmp_path / "b", "--env", "CartPole-v1"
    )
    write(tmp_path / "nested", Dataset.of(episodes(*SPACES["nested"]), *SPACES["nested"]))
    line = refused(capsys, "convert", tmp_path / "nested", "--to", tmp_path / "a.npz")
    assert "holds one array of observations, this data set has Dict" in line
    (tmp_path / "bad.npz").write_bytes(b"PK")
    np.savez(tmp_path / "pickled.npz", observations=np.array([{}], object), rewards=np.zeros(1))
    for name in ("bad.npz", "pickled.npz"):
        assert "cannot read" in refused(capsys, "convert", tmp_path / name, "--to", tmp_path / "c")
    np.savez(tmp_path / "short.npz", observations=np.zeros((3, 1)), rewards=np.zeros(3))
    assert "it has no actions, terminals" in refused(
        capsys, "convert", tmp_path / "short.npz", "--to", tmp_path / "c"
    )
    for name in ("nested", "bad.npz", "pickled.npz", "short.npz"):
        assert (tmp_path / name).exists()
    left = {path.name for path in tmp_path.iterdir()} - {"nested", "bad.npz", "pickled.npz", "short.npz"}
    assert left == {"data", "mine"} and set(names) <= {path.name for path in tmp_path.rglob("*")}


def test_what_is_read_is_not_written_to_whichever_of_its_names_is_given(tmp_path, data, capsys):
    source, inner = tmp_path / "data", tmp_path / "data" / "data"
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    for one, other in ((source, inner), (inner, source)):
        line = refused(capsys, "split", one, "--to", other, tmp_path / "b", "--episodes", 1, "--force")
        assert "that is what is read" in line
    write(tmp_path / "other", data)
    line = refused(capsys, "convert", source, "--to", tmp_path / "other" / "data", "--force")
    assert "that is in the data set" in line
    line = refused(capsys, "split", source, "--to", tmp_path / "b", tmp_path / "b" / "data", "--episodes", 1)
    assert "name two folders" in line
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"data", "other"}


def test_lines_name_what_the_command_takes(tmp_path, data, capsys):
    file = tmp_path / "mixed.hdf5"
    assert main(["convert", str(tmp_path / "data"), "--to", str(file)]) == 0
    capsys.readouterr()
    line = refused(capsys, "merge", tmp_path / "data", file, "--to", tmp_path / "both")
    assert f"{file} is a file: make a data set of it by python -m rl.data convert" in line
    (tmp_path / "b").write_text("")
    line = refused(capsys, "convert", tmp_path / "data", "--to", tmp_path / "b" / "c")
    assert line.endswith("choose another folder\n")


def test_a_data_set_without_rights_does_not_keep_a_typo_from_being_told(tmp_path, data, capsys, monkeypatch):
    write(tmp_path / "private", data)
    faults = Faults(monkeypatch, tmp_path / "private")
    faults.error = errno.EACCES
    faults.begin(0, ever_after=True)
    assert "did you mean data?" in refused(capsys, tmp_path / "dat")
    assert "is no data set: there is no data/metadata.json in it but in data" in refused(capsys, tmp_path)
    assert "private: Permission denied" in refused(capsys, tmp_path / "private")


def test_force_does_not_replace_a_folder_with_files_that_are_no_data_sets(tmp_path, data, capsys):
    write(tmp_path / "old", data)
    words = ["convert", str(tmp_path / "data"), "--to", str(tmp_path / "old"), "--force"]
    mine = tmp_path / "old" / "data" / "mine.txt"
    mine.write_text("all of it")
    assert "mine.txt in" in refused(capsys, *words)
    assert mine.read_text() == "all of it"
    mine.rename(tmp_path / "mine.txt")
    assert main(words) == 0


def test_files_of_another_library_that_are_damaged_are_one_line(tmp_path, capsys, monkeypatch):
    names = "observations", "actions", "rewards", "terminals"
    with h5py.File(tmp_path / "secret.hdf5", "w") as file:
        for name in names:
            file[name] = np.zeros(3)
    with h5py.File(tmp_path / "link.hdf5", "w") as file:
        file["observations"] = h5py.ExternalLink("secret.hdf5", "observations")
        for name in names[1:]:
            file[name] = np.zeros(3)
    said = refused(capsys, "convert", tmp_path / "link.hdf5", "--to", tmp_path / "out")
    assert "observations is no array in this file" in said
    for error in (RuntimeError("Unable to check link existence"), NotImplementedError("zip"), MemoryError()):

        def fail(path, error=error):
            raise error

        monkeypatch.setattr(flat, "_of_hdf5", fail)
        said = refused(capsys, "convert", tmp_path / "secret.hdf5", "--to", tmp_path / "out")
        assert "cannot read" in said and (str(error) or "MemoryError") in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"policies": 5},
        {"policies": [5]},
        {"env_kwargs": [1]},
        {"train_env_kwargs": "x"},
        {"env_wrappers": 5},
        {"env_wrappers": [5]},
        {"observation_space": "[" * 200_000},
    ],
)
def test_metadata_of_other_contents_are_one_line(tmp_path, data, capsys, change):
    path = tmp_path / "data/data/metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert next(iter(change)) in refused(capsys, tmp_path / "data")


def test_what_is_whole_needs_no_repair(tmp_path, data, capsys):
    assert main(["repair", str(tmp_path / "data")]) == 0
    assert "nothing to repair" in capsys.readouterr().out
