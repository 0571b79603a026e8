"""What a search tries: what the classes declare, and what --space says."""

from __future__ import annotations

import pytest

from rl.errors import UsageError
from rl.hparams.es import es
from rl.hparams.merge import named
from rl.hparams.ppo import ppo, ppo_cartpole
from rl.hparams.registry import registry
from rl.hparams.spaces import Choice, Range, space_of


def test_every_class_declares_what_its_hyperparameters_take():
    kinds = {type(named(name)): name for name in registry.names() if named(name).algo}
    spaces = {kind.__name__: space_of(named(name)) for kind, name in kinds.items()}
    assert len(spaces) > 25 and all("lr" in space for space in spaces.values())
    assert spaces["GAILHParams"].items() > {"epochs": Range(1.0, 20.0, False, True)}.items()  # PPO's


def test_the_user_replaces_adds_and_fixes():
    space = space_of(ppo_cartpole(), "lr=log:1e-4:1e-3,num_envs=[8,16],epochs=2:4", {"gamma": 0.9})
    assert space["lr"] == Range(1e-4, 1e-3, True, False)
    assert space["num_envs"] == Choice(("8", "16")) and "gamma" not in space
    assert space["epochs"].text() == "2:4" and space["lr"].text() == "log:0.0001:0.001"
    assert space["model.hidden"].text() == "[[64,64],[128,128],[256,256]]"
    assert "gamma" not in space_of(es())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("learning_rate=1:2", "unknown hparam 'learning_rate': did you mean lr"),
        ("model.hiden=[[1]]", "unknown hparam 'model.hiden': did you mean model.hidden"),
        ("model=[1]", "hparam model=1: needs"),
        ("lr=-1:2", "hparam lr=-1.0: needs a number > 0"),
        ("epochs=1.5:4", "hparam epochs=1.5: needs an integer"),
        ("gamma=[0.9,1.5]", "hparam gamma=1.5: needs a number >= 0 and <= 1"),
        ("gamma=0.9", "--space gamma=0.9: needs LOW:HIGH"),
        ("gamma=[]", "--space gamma=[]: needs LOW:HIGH"),
        ("gamma=0.99:0.9", "needs LOW < HIGH"),
        ("entropy_coef=log:0:1", "needs LOW < HIGH, LOW > 0"),
        ("lr", "cannot read 'lr' in --space"),
        ("lr=1e-4:1e-3,lr=1:2", "--space gives lr twice"),
        ("algo=[a2c,ppo]", "--space algo: it changes what is measured"),
        ("env=[CartPole-v1,Acrobot-v1]", "--space env: it changes what is measured"),
        ("env_kwargs=[{a:1},{a:2}]", "--space env_kwargs: it changes what is measured"),
        ("env_wrappers=[[a:B],[]]", "--space env_wrappers: it changes what is measured"),
        ("max_episode_steps=[50,100]", "--space max_episode_steps: it changes what is measured"),
        ("eval_policy=[greedy,sample]", "--space eval_policy: it changes what is measured"),
        ("data=[a,b]", "--space data: it changes what is measured"),
        ("train_steps=1000:2000", "--space train_steps: it changes what is measured"),
        ("eval_period=10:20", "--space eval_period: it does not change what is learned"),
        ("log_period=10:20", "--space log_period: it does not change what is learned"),
        ("checkpoint_period=1.0:9.0", "--space checkpoint_period: it does not change what is learned"),
    ],
)
def test_what_cannot_be_searched_is_one_line(changes, said):
    with pytest.raises(UsageError) as error:
        space_of(ppo(), changes)
    assert said in str(error.value)


def test_what_training_alone_depends_on_may_be_searched():
    space = space_of(ppo(), "train_env_kwargs=[{a:1},{a:2}],reward_augmentation=[none,clip_sign]")
    assert space["train_env_kwargs"] == Choice(("{a:1}", "{a:2}")) and "reward_augmentation" in space


def test_what_is_fixed_is_not_searched():
    with pytest.raises(UsageError, match="both give lr"):
        space_of(ppo(), "lr=1e-4:1e-3", {"lr": 1e-3})
    with pytest.raises(UsageError, match="nothing is left"):
        space_of(ppo(), "", {name: 0 for name in space_of(ppo())})
