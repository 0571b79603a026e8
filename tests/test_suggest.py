"""`--suggest ENV_ID`: the sets that fit an environment."""

from __future__ import annotations

import pytest

from rl import suggest
from rl.cli import main


def names(capsys):
    """The first column of what was printed, its header and its last line left out."""
    out = capsys.readouterr().out.splitlines()
    return [line.split()[0] for line in out[1:-1]], out[-1]


def test_sets_of_an_environment_come_best_measured_first(capsys, monkeypatch, tmp_path):
    table = tmp_path / "measured.csv"
    monkeypatch.setattr(suggest, "MEASURED", table)
    assert main(["--suggest", "Acrobot-v1"]) == 0  # a package without the table
    assert "ppo_acrobot" in names(capsys)[0]
    table.write_text(
        "hparams,env,seeds,mean_return,steps,judged\n"
        "dqn_acrobot,Acrobot-v1,5,-80.0,100000,yes\nppo_acrobot,Acrobot-v1,5,-75.0,999424,yes\n"
        "a2c_acrobot,Acrobot-v1,5,-80.0,50000,yes\nvpg_acrobot,Acrobot-v1,3,-70.0,500000,no\n"
    )
    table.write_text(table.read_text().replace("\n", ",0\n").replace("judged,0", "judged,workers"))
    table.write_text(table.read_text().replace("50000,yes,0", "50000,yes,2"))
    assert main(["--suggest", "Acrobot-v1"]) == 0
    assert "5, 2 workers" in next(line for line in capsys.readouterr().out.splitlines() if "a2c" in line)
    assert main(["--suggest", "Acrobot-v1"]) == 0
    found, command = names(capsys)
    assert found[:4] == ["ppo_acrobot", "a2c_acrobot", "dqn_acrobot", "vpg_acrobot"]
    assert command == "python train.py --hparams ppo_acrobot"
    table.write_text(table.read_text().replace("-75.0", "0.938"))
    assert main(["--suggest", "Acrobot-v1"]) == 0
    out = capsys.readouterr().out
    assert "0.938" in out and "-80.0" in out  # small ones with three digits, as plots have them


def test_another_environment_gets_the_sets_of_algorithms_that_act_in_it(capsys):
    assert main(["--suggest", "Taxi-v4"]) == 0
    found, command = names(capsys)
    assert {"dqn", "ppo", "sac_discrete"} <= set(found) and not {"sac", "td3", "vdn", "maddpg"} & set(found)
    assert not {"alphazero", "maml"} & set(found)  # which play in-graph alone
    assert "world_models" not in found  # Taxi says which actions are legal
    assert found.index("vpg") < found.index("cql_discrete")  # which needs data
    assert command == "python train.py --hparams ppo --env Taxi-v4"


@pytest.mark.parametrize(
    ("env_id", "value_of_a_team"), [("simple_tag_v3", False), ("simple_spread_v3", True)]
)
def test_many_agents_get_the_algorithms_that_see_them_together(capsys, env_id, value_of_a_team):
    pytest.importorskip("pettingzoo")
    assert main(["--suggest", f"pettingzoo:mpe2.{env_id}"]) == 0
    found = set(names(capsys)[0])
    assert {"ppo", "mappo", "maddpg"} <= found and not {"es", "ars"} & found  # which are refused
    assert ({"vdn", "qmix"} <= found) == value_of_a_team == bool({"vdn", "qmix"} & found)


def test_an_unknown_environment_gets_the_nearest_names(capsys):
    assert main(["--suggest", "CartPol-v1"]) == 2
    assert "did you mean CartPole-v1" in capsys.readouterr().err


def test_the_table_that_is_shipped_is_of_sets_that_are_there():
    found = suggest.measured()
    assert found["ppo_cartpole"].mean_return > 400.0
    assert set(found) <= set(suggest.registry_of("hparams").names())
