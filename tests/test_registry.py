"""Discovery by scanning, lazy import, and the errors a newcomer meets first."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from pathlib import Path

import pytest

from rl.cli import FAMILIES, registry_of
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.hparams.merge import resolve
from rl.registry import Registry, import_user_modules


class Family:
    """A package of components in a temporary folder, with a registry that the test may fill."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder / name, name
        self.folder.mkdir()
        self.write("__init__.py", "")
        self.write(
            "registry.py",
            f"""
            from rl.registry import Registry
            registry = Registry("{name}", "{name}", parameters=("hparams",))
            register = registry.register
            """,
        )

    def write(self, file: str, text: str) -> Path:
        path = self.folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        return path

    @property
    def registry(self) -> Registry:
        return importlib.import_module(f"{self.name}.registry").registry


@pytest.fixture
def family(tmp_path, monkeypatch, request):
    monkeypatch.syspath_prepend(tmp_path)
    name = "family_of_" + request.node.name.split("[")[0]
    yield Family(tmp_path, name)
    for module in [each for each in sys.modules if each.split(".")[0] == name]:
        del sys.modules[module]


BOMB = 'raise RuntimeError("imported")\n'


def test_names_and_descriptions_are_found_without_importing_the_files(family):
    family.write(
        "two.py",
        BOMB
        + textwrap.dedent(f'''
        from {family.name}.registry import register

        @register
        def first(hparams):
            """The first one.

            More about it.
            """

        @register
        def second(hparams):
            "The second one."

        def helper(hparams): ...
        '''),
    )
    entries = family.registry.entries()
    assert [(each.name, each.description) for each in entries] == [
        ("first", "The first one."),
        ("second", "The second one."),
    ]


def test_class_is_named_after_its_file_and_function_after_itself(family):
    text = f"from {family.name}.registry import register\n@register\n"
    family.write("ring_buffer.py", text + "class TheClass:\n    def __init__(self, hparams): ...\n")
    family.write("functions.py", text + "def the_function(hparams): ...\n")
    assert family.registry.names() == ["ring_buffer", "the_function"]
    assert family.registry.get("ring_buffer").__name__ == "TheClass"
    assert family.registry.get("the_function").__name__ == "the_function"


def test_get_imports_only_the_module_of_that_name(family):
    text = f"from {family.name}.registry import register\n@register\ndef "
    family.write("wanted.py", text + "wanted(hparams): return 'made'\n")
    family.write("other.py", BOMB + text + "other(hparams): ...\n")
    assert family.registry.get("wanted")(None) == "made"
    with pytest.raises(RuntimeError, match="imported"):
        family.registry.get("other")


@pytest.mark.parametrize(
    "header, decorator",
    [
        ("from {family}.registry import register as enter", "@enter"),
        ("from {family} import registry", "@registry.register"),
        ("from {family}.registry import registry", "@registry.register"),
        ("from .registry import register", "@register"),
    ],
)
def test_every_way_to_spell_the_decorator_is_found(family, header, decorator):
    family.write("member.py", f"{header.format(family=family.name)}\n{decorator}\ndef member(hparams): ...\n")
    assert family.registry.names() == ["member"]
    assert family.registry.get("member").__name__ == "member"


def test_decorators_of_other_registries_are_not_taken_for_this_one(family):
    family.write(
        "member.py",
        """
        import atexit
        from rl.hparams.registry import register

        @register
        def of_another_family(): ...

        @atexit.register
        def at_exit(): ...
        """,
    )
    assert family.registry.names() == []


def test_folders_are_searched_unless_they_have_a_registry_of_their_own(family):
    text = f"from {family.name}.registry import register\n@register\ndef "
    family.write("inner/member.py", text + "member(hparams): ...\n")
    family.write("separate/registry.py", "")
    family.write("separate/stranger.py", text + "stranger(hparams): ...\n")
    assert family.registry.names() == ["member"]
    assert family.registry.get("member").__module__ == f"{family.name}.inner.member"


def test_module_constant_names_the_entry_where_the_family_says_so(family):
    registry = Registry("envs", family.name, parameters=(), name_constant="ENV_ID")
    importlib.import_module(f"{family.name}.registry").register = registry.register
    header = f"from {family.name}.registry import register\n"
    family.write("cartpole.py", header + "ENV_ID: str = 'CartPole-v1'\n@register\nclass CartPole: ...\n")
    assert registry.names() == ["CartPole-v1"]
    assert registry.get("CartPole-v1").__name__ == "CartPole"


def test_name_in_two_files_is_an_error_that_names_both(family):
    text = f"from {family.name}.registry import register\n@register\ndef twin(hparams): ...\n"
    one, other = family.write("one.py", text), family.write("other.py", text)
    with pytest.raises(UsageError) as error:
        family.registry.names()
    assert "'twin'" in str(error.value) and str(one) in str(error.value) and str(other) in str(error.value)


def test_user_function_cannot_take_a_known_name(family):
    family.write(
        "one.py", f"from {family.name}.registry import register\n@register\ndef taken(hparams): ...\n"
    )

    def taken(hparams): ...

    with pytest.raises(UsageError, match="'taken' is registered twice"):
        family.registry.register(taken)


def test_same_definition_may_be_executed_again(family):
    family.write(
        "one.py", f"from {family.name}.registry import register\n@register\ndef again(hparams): ...\n"
    )
    family.registry.get("again")
    importlib.reload(sys.modules[f"{family.name}.one"])
    assert family.registry.get("again") is sys.modules[f"{family.name}.one"].again


def test_unknown_name_is_a_usage_error_with_the_nearest(family):
    family.write(
        "m.py", f"from {family.name}.registry import register\n@register\ndef greedy(hparams): ...\n"
    )
    with pytest.raises(UsageError, match=r"unknown .* name 'gredy': did you mean greedy"):
        family.registry.get("gredy")


# A base with a `__new__` below it, as Keras's: some Pythons tell of that, and not of the base's `__init__`.
TAKES_ALL = 'type("TakesAll", (), {"__new__": lambda cls, *args, **kwargs: object.__new__(cls)})'
BASE = f'type("Base", ({TAKES_ALL},), {{"__init__": lambda self, ARGUMENTS: None}})'


@pytest.mark.parametrize(
    "definition, accepted",
    [
        ("def member(hparams): ...", True),
        ("def member(hparams, scale=1.0): ...", True),
        ("class Member:\n    def __init__(self, hparams): ...", True),
        (f"class Member({BASE.replace('ARGUMENTS', 'hparams')}): ...", True),
        (f"class Member({BASE.replace('ARGUMENTS', 'hparams, scale')}): ...", False),
        ("class Member:\n    def __new__(cls, hparams): ...", True),
        ("class Member: ...", False),
        ("def member(): ...", False),
        ("def member(settings): ...", False),
        ("def member(hparams, scale): ...", False),
        ("def member(*, hparams): ...", False),
        ("def member(*arguments): ...", False),
        ("class Member:\n    def __init__(self): ...", False),
    ],
)
def test_signature_is_checked_when_a_member_registers(family, definition, accepted):
    path = family.write(
        "member.py", f"from {family.name}.registry import register\n@register\n{definition}\n"
    )
    if accepted:
        assert callable(family.registry.get("member"))
        return
    with pytest.raises(TypeError) as error:
        family.registry.get("member")
    assert str(path) in str(error.value) and "(hparams)" in str(error.value)


def test_file_that_does_not_parse_is_named(family):
    path = family.write("broken.py", "register = (\n")
    with pytest.raises(UsageError, match=r"cannot read .*broken\.py, line 1"):
        family.registry.names()
    assert path.exists()


def test_user_modules_register_from_the_current_folder(family, tmp_path, monkeypatch):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "mine_registered.py").write_text(
        f"from {family.name}.registry import register\n@register\ndef mine(hparams):\n    'Mine.'\n"
    )
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != ""])
    import_user_modules(["mine_registered"])
    assert family.registry.entry("mine").description == "Mine."


@pytest.mark.parametrize(
    "text, reason",
    [
        ("1 / 0", r"ZeroDivisionError: division by zero \(.*bad_user_module.py, line 1\)"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("1 /", "SyntaxError: invalid syntax .bad_user_module.py, line 1"),
        (None, "ModuleNotFoundError: No module named 'bad_user_module'$"),
    ],
)
def test_user_module_that_cannot_be_imported_is_a_usage_error(tmp_path, monkeypatch, text, reason):
    monkeypatch.syspath_prepend(tmp_path)
    if text:
        (tmp_path / "bad_user_module.py").write_text(text)
    with pytest.raises(UsageError, match=f"cannot import user module 'bad_user_module': {reason}"):
        import_user_modules(["bad_user_module"])


@pytest.mark.parametrize("name", FAMILIES)
def test_every_registered_component_imports_and_says_what_it_is(name):
    entries = registry_of(name).entries()
    assert entries, f"nothing is registered in {name}"
    for entry in entries:
        assert callable(registry_of(name).get(entry.name))
        assert entry.description.endswith("."), f"{name} {entry.name} needs a docstring of one sentence"


def test_docstrings_of_sets_state_no_measured_results():
    """Numbers of the page of results would go stale in the sources at every change."""
    for entry in registry_of("hparams").entries():
        text = registry_of("hparams").get(entry.name).__doc__
        assert not re.search(r"after [\d,]+ steps|seeds?, \d cores?|--hparams", text), entry.name


@pytest.mark.parametrize(
    ("name", "overrides", "chosen"),
    [
        ("rainbow_cartpole", "memory=uniform", "memory=uniform and prioritized=true contradict each other"),
        ("dqn_cartpole", "memory=prioritized,prioritized=false", "memory=prioritized and prioritized=false"),
        ("sac_pendulum", "memory=uniform,prioritized=true", "memory=uniform and prioritized=true"),
        ("noisy_dqn_cartpole", "act_select=epsilon_greedy", "act_select=epsilon_greedy and noisy=true"),
        ("dqn_cartpole", "prioritized=true", ("prioritized", "epsilon_greedy")),
        ("dqn_cartpole", "memory=prioritized", ("prioritized", "epsilon_greedy")),
        ("dqn_cartpole", "memory=no_such,prioritized=true", ("no_such", "epsilon_greedy")),
        ("rainbow_cartpole", "prioritized=false", ("uniform", "greedy")),
        ("r2d2_cartpole", "prioritized=false", ("sequence", "epsilon_greedy")),
    ],
)
def test_a_name_that_is_given_is_taken_as_said_or_refused(name, overrides, chosen):
    if isinstance(chosen, str):
        with pytest.raises(UsageError, match=chosen):
            resolve(name, overrides)
        return
    hparams = resolve(name, overrides)
    again = HParams.from_dict(hparams.to_dict()).freeze()  # a saved run is what it was
    for each in (hparams, again):
        assert (each.memory_name, each.act_select_name) == chosen
