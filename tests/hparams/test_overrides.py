"""What may stand in --hparam_override, and what is said of what may not."""

from __future__ import annotations

import pytest

from rl.errors import UsageError
from rl.hparams.dqn import dqn, dqn_cartpole
from rl.hparams.overrides import override_text, parse_overrides


@pytest.mark.parametrize(
    "text, value",
    [
        ("true", True),
        ("False", False),
        ("none", None),
        ("None", None),
        ("7", 7),
        ("-7", -7),
        ("1_000", 1000),
        ("3e-4", 3e-4),
        ("1e6", 1e6),
        (".5", 0.5),
        ("2.", 2.0),
        ("relu", "relu"),
        ("CartPole-v1", "CartPole-v1"),
        ("nan", "nan"),
        ("'a,b=[c'", "a,b=[c"),
        ('"true"', "true"),
        ("", ""),
        ("[]", []),
        ("[64, 64]", [64, 64]),
        ("(64,)", [64]),
        ("[[1,2],[x]]", [[1, 2], ["x"]]),
        ("{}", {}),
        ("{a:1, b : [2,3], 'c d': {e: none}}", {"a": 1, "b": [2, 3], "c d": {"e": None}}),
    ],
)
def test_value_is_read_as_what_it_looks_like(text, value):
    parsed = parse_overrides(f"before=1,key={text},after=2")
    assert parsed == {"before": 1, "key": value, "after": 2}
    assert type(parsed["key"]) is type(value)


def test_nothing_gives_nothing_and_a_trailing_comma_is_allowed():
    assert parse_overrides("") == {}
    assert parse_overrides(" a = 1 , ") == {"a": 1}


@pytest.mark.parametrize(
    "text, message",
    [
        ("lr", "cannot read 'lr'.*needs name=value"),
        ("=3", "cannot read '=3'"),
        ("a=1,,b=2", "cannot read ''"),
        ("a=1,a=2", "gives a twice"),
        ("a=[1", r"missing '\]'"),
        ("a=[1}", "unexpected '}'"),
        ("a=1]", "unexpected ']'"),
        ("a='x", 'missing "\'"'),
        ("a={b}", "cannot read 'b'.*needs key:value"),
        ("a={,}", "cannot read ''.*needs key:value"),
        ("a={b:1:2}", "cannot read 'b:1:2'"),
    ],
)
def test_text_that_cannot_be_read_is_a_usage_error(text, message):
    with pytest.raises(UsageError, match=message):
        parse_overrides(text)


def test_overrides_reach_nested_and_plain_fields():
    hparams = dqn_cartpole()
    hparams.assign(parse_overrides("lr=3e-4,model.hidden=[64,32],prioritized=true,env_kwargs={a:1}"))
    assert hparams.lr == 3e-4
    assert list(hparams.model.hidden) == [64, 32]
    assert hparams.prioritized is True
    assert hparams.env_kwargs == {"a": 1}
    assert hparams.model.activation == "relu", "fields beside the overridden one stay"


def test_mapping_for_a_nested_model_changes_only_what_it_names():
    hparams = dqn()
    hparams.assign({"model": {"hidden": [7]}, "n_step": 3})
    assert list(hparams.model.hidden) == [7] and hparams.model.activation == "relu" and hparams.n_step == 3


@pytest.mark.parametrize(
    "text, message",
    [
        ("lrr=1", "unknown hparam 'lrr': did you mean lr"),
        ("batchsize=1", "unknown hparam 'batchsize': did you mean batch_size"),
        ("hiden=[1]", "unknown hparam 'hiden': did you mean model.hidden"),
        ("model.hiden=[1]", "unknown hparam 'model.hiden': did you mean model.hidden"),
        ("lr.value=1", "unknown hparam 'lr.value'"),
        ("_frozen=true", "unknown hparam '_frozen'"),
        ("model_config=1", "unknown hparam 'model_config'"),
        ("lr=fast", "hparam lr='fast': needs a number > 0"),
        ("lr=true", "hparam lr=True: needs a number > 0"),
        ("lr=0", "hparam lr=0: needs a number > 0"),
        ("lr=nan", "hparam lr='nan': needs a number > 0"),
        ("gamma=1.5", "hparam gamma=1.5: needs a number >= 0 and <= 1"),
        ("tau=0", "hparam tau=0: needs a number > 0 and <= 1"),
        ("batch_size=64.5", "hparam batch_size=64.5: needs an integer >= 1"),
        ("batch_size=true", "hparam batch_size=True: needs an integer >= 1"),
        ("num_envs=0", "hparam num_envs=0: needs an integer >= 1"),
        ("max_grad_norm=-1", "hparam max_grad_norm=-1: needs a number > 0 or none"),
        ("double=1", "hparam double=1: needs true or false"),
        ("compile=fast", "hparam compile='fast': needs one of auto, xla, graph, eager"),
        ("model.hidden=64", "hparam model.hidden=64: needs a list, each item an integer >= 1"),
        ("model.hidden=[0]", "hparam model.hidden holds 0: needs a list, each item an integer >= 1"),
        ("model=3", "hparam model=3: needs hparams of its own: model.name"),
        ("model={hiden:[3]}", "unknown hparam 'model.hiden': did you mean model.hidden"),
        ("env_kwargs=3", "hparam env_kwargs=3: needs a mapping"),
        ("histograms='('", "hparam histograms='\\(': needs a regular expression"),
        ("info_keys=place", "hparam info_keys='place': needs a list, each item text"),
        ("info_keys=[3]", "hparam info_keys holds 3: needs a list, each item text"),
        ("info_keys=['a,b']", "needs names of metrics, without commas and quotes, not 'a,b'"),
        ("info_keys=[return_mean]", "return_mean is what another metric is called"),
    ],
)
def test_unknown_name_wrong_type_and_range_are_one_line(text, message):
    with pytest.raises(UsageError, match=message) as error:
        dqn().assign(parse_overrides(text))
    assert "\n" not in str(error.value)


def test_whole_decimal_number_is_welcome_as_an_integer():
    hparams = dqn()
    hparams.assign(parse_overrides("train_steps=1e6"))
    assert hparams.train_steps == 1_000_000 and isinstance(hparams.train_steps, int)


def test_values_become_text_that_is_read_as_them():
    values = {"a": None, "b": True, "c": 1e-05, "d": [1, [2.5, "x"]], "e": {"k l": "none", "m": ["a,b"]}}
    values |= {"f": "12", "g": "", "h": "a b-c.d/e", "i": "it's", "j": "x=[y", "k": 1e22}
    assert parse_overrides(override_text(values)) == values
    assert (
        override_text({"lr": 0.001, "model.hidden": [64, 64], "env": "A-v1"})
        == "lr=0.001,model.hidden=[64,64],env=A-v1"
    )
    with pytest.raises(UsageError, match="quotes of both kinds"):
        override_text({"a": "'\""})


@pytest.mark.parametrize("value", ["'\0'", '"\0a"', "'\ud800'", "9" * 5000, "'a\nb'", r"'\x'", "{'\0':1}"])
def test_what_python_itself_cannot_read_is_refused(value):
    with pytest.raises(UsageError, match=r"cannot read .* in --hparam_override: "):
        parse_overrides(f"lr={value}")
