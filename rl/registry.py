"""The one registry class: names are found without importing anything heavy, objects are imported on demand.

A family of components (hparams sets, environments, models, ...) is a folder; its `registry.py` makes one
`Registry`. A file of that folder joins the family by decorating a top-level function or class with that
registry's `register`. The folder is scanned by parsing its files, so that listing the names imports no file:
a file is imported only when one of its names is asked for.

The name of a function is its own name, the name of a class is its file's name. A family may name a module
constant that overrides both (environments: `ENV_ID = "CartPole-v1"`).
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rl.errors import UsageError, nearest, where_raised

T = TypeVar("T", bound=Callable[..., Any])


@dataclass
class Entry:
    """One registered name; `value` is None until its module has been imported."""

    name: str
    description: str  # first line of the docstring
    module: str
    qualname: str
    path: str
    value: Any = None


class Registry:
    """The names of one family of components.

    Args:
        family: name of the family as users see it, such as "act_select" (`train.py --list act_select`).
        package: dotted name of the folder's package, such as "rl.agents.algos.act_select".
        parameters: names of the parameters that a member is called with, in order; further parameters of a
            member must have defaults. Checked when a member registers.
        name_constant: module constant that holds the registered name instead of the function or file name.
        contract: a `typing.Protocol` whose public members every member has. Checked when one is asked for.
    """

    def __init__(
        self,
        family: str,
        package: str,
        parameters: tuple[str, ...],
        name_constant: str | None = None,
        contract: type | None = None,
    ) -> None:
        self.family = family
        self.package = package
        self.parameters = parameters
        self.name_constant = name_constant
        self.contract = contract
        self._found: dict[str, Entry] | None = None

    def register(self, member: T) -> T:
        """Puts a function or class into this registry, after checking its parameters; a decorator.

        Raises:
            TypeError: the parameters are not those of this family.
            UsageError: the name is taken.
        """
        path = _source_path(member)
        self._check_parameters(member, path)
        entry = Entry(
            name=self._runtime_name(member, path),
            description=_first_line(member.__doc__),
            module=member.__module__,
            qualname=member.__qualname__,
            path=path,
            value=member,
        )
        known = self._entries()
        other = known.get(entry.name)
        if other is None:
            known[entry.name] = entry
        elif _same_place(entry, other):
            other.value = member
        else:
            raise self._duplicate(entry.name, other.path, path)
        return member

    def get(self, name: str) -> Any:
        """Returns the object registered as `name`; imports its module if that has not happened yet.

        Raises:
            UsageError: no such name, or it lacks what the family's contract asks for.
        """
        entry = self.entry(name)
        if entry.value is None:
            importlib.import_module(entry.module)
            entry = self.entry(name)
        if entry.value is None:
            raise RuntimeError(f"{entry.path} was imported, but did not register {name!r} in {self.family}")
        if self.contract is not None and (missing := lacking(entry.value, self.contract)):
            raise UsageError(
                f"{self.family} {name} ({entry.qualname} in {entry.path}) lacks {', '.join(missing)}: see "
                f"{self.contract.__module__.replace('.', '/')}.py"
            )
        return entry.value

    def entry(self, name: str) -> Entry:
        """Returns what is known of `name` without importing its module; UsageError if there is no such
        name."""
        known = self._entries()
        if name not in known:
            hint = nearest(name, known)
            raise UsageError(
                f"unknown {self.family} name {name!r}: {hint} (all: --list {self.family}; "
                "one of your own needs --user_modules)"
            )
        return known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def names(self) -> list[str]:
        """Returns all names, sorted; imports nothing."""
        return sorted(self._entries())

    def entries(self) -> list[Entry]:
        """Returns all entries, sorted by name; imports nothing."""
        return [self._entries()[name] for name in self.names()]

    def _entries(self) -> dict[str, Entry]:
        if self._found is None:
            found: dict[str, Entry] = {}
            for entry in self._scan():
                if entry.name in found:
                    raise self._duplicate(entry.name, found[entry.name].path, entry.path)
                found[entry.name] = entry
            self._found = found
        return self._found

    def _scan(self) -> Iterator[Entry]:
        folder = _package_folder(self.package)
        for path in _python_files(folder):
            text = path.read_text(encoding="utf-8")
            if "register" not in text:  # parsing is what costs; most helper files end here
                continue
            try:
                tree = ast.parse(text)
            except SyntaxError as error:
                raise UsageError(f"cannot read {path}, line {error.lineno}: {error.msg}") from error
            relative = path.relative_to(folder).with_suffix("")
            module = ".".join((self.package, *relative.parts))
            yield from self._scan_file(tree, module, str(path))

    def _scan_file(self, tree: ast.Module, module: str, path: str) -> Iterator[Entry]:
        decorators = self._decorators(tree, module)
        constant = _string_constant(tree, self.name_constant) if self.name_constant else None
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            if not any(ast.unparse(each) in decorators for each in node.decorator_list):
                continue
            own = Path(path).stem if isinstance(node, ast.ClassDef) else node.name
            docstring = ast.get_docstring(node) or ast.get_docstring(tree)
            yield Entry(constant or own, _first_line(docstring), module, node.name, path)

    def _decorators(self, tree: ast.Module, module: str) -> set[str]:
        """How this registry's `register` is spelt in a file: a file may also import another family's."""
        spelt = set()
        for node in tree.body:
            if not isinstance(node, ast.ImportFrom):
                continue
            source = "." * node.level + (node.module or "")
            if node.level:
                source = importlib.util.resolve_name(source, module.rpartition(".")[0])
            for alias in node.names:
                name = alias.asname or alias.name
                if source == f"{self.package}.registry" and alias.name == "register":
                    spelt.add(name)
                elif source in (self.package, f"{self.package}.registry") and alias.name == "registry":
                    spelt.add(f"{name}.register")
        return spelt

    def _runtime_name(self, member: Any, path: str) -> str:
        if self.name_constant:
            constant = getattr(sys.modules.get(member.__module__), self.name_constant, None)
            if isinstance(constant, str):
                return constant
        return Path(path).stem if inspect.isclass(member) else str(member.__name__)

    def _check_parameters(self, member: Any, path: str) -> None:
        signature = _signature(member)
        given = list(signature.parameters.values())
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        count = len(self.parameters)
        matches = tuple(each.name for each in given[:count]) == self.parameters
        matches = matches and all(each.kind in positional for each in given[:count])
        free = all(each.default is not each.empty or each.kind in variadic for each in given[count:])
        if matches and free:
            return
        expected = f"({', '.join(self.parameters)})"
        raise TypeError(
            f"{path}: {member.__qualname__}{signature} cannot be registered in "
            f"{self.family}: expected the signature {expected}; parameters after those need defaults (is "
            f"`register` that of {self.family}, in a file that registers in several families?)"
        )

    def _duplicate(self, name: str, first: str, second: str) -> UsageError:
        if first == second:
            return UsageError(
                f"{self.family} name {name!r} is registered twice, in {first}: classes are called after "
                "their file, so that each needs one of its own"
            )
        return UsageError(
            f"{self.family} name {name!r} is registered twice, in {first} and in {second}: rename one of them"
        )


def _signature(member: Any) -> inspect.Signature:
    """Returns how a function or class is called. Of a class that inherits its `__init__`, Python 3.11.2 says
    what any `__new__` below that takes, as Keras's, which is anything."""
    bases = member.__mro__ if inspect.isclass(member) else ()
    first = next((base for base in bases if {"__new__", "__init__"} & vars(base).keys()), object)
    if first is object or "__new__" in vars(first):
        return inspect.signature(member)
    signature = inspect.signature(vars(first)["__init__"])
    given = list(signature.parameters.values())[1:]  # but self
    return signature.replace(parameters=given, return_annotation=inspect.Signature.empty)


def import_user_modules(modules: Iterable[str] | str) -> tuple[str, ...]:
    """Imports modules outside this package that register their own components; returns their names.

    Args:
        modules: names (`my_algo`, `package.my_algo`), found as Python finds them, or paths of their files
            (`parts/my_algo.py`); or the text of `--user_modules`, with commas between. The current folder,
            and those of paths, are searched behind all others: a file in them never stands in for a library.

    Raises:
        UsageError: a module cannot be imported, or what it registers is refused.
    """
    listed = modules.split(",") if isinstance(modules, str) else modules
    names = tuple(name.strip() for name in listed if name.strip())
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    for name in names:
        file = os.path.abspath(name) if name.endswith(".py") else None
        if file is not None and os.path.dirname(file) not in sys.path:
            sys.path.append(os.path.dirname(file))
        try:
            module = importlib.import_module(Path(name).stem if file else name)
            if file is not None and os.path.realpath(module.__file__ or "") != os.path.realpath(file):
                raise UsageError(f"user module {name}: {module.__name__} is another module's name, rename it")
        except UsageError:
            raise
        except (Exception, SystemExit) as error:  # whatever a user's module raises: theirs to read, in a line
            what = where_raised(error)
            if "<frozen " in what:  # by the import itself: no such module, or no Python in it
                what = f"{type(error).__name__}: {error or 'no message'}"
            raise UsageError(f"cannot import user module {name!r}: {what}") from error
    return names


def lacking(part: object, contract: type) -> list[str]:
    """Returns the public names that a `typing.Protocol` asks for and `part`, a class or an object, does not
    have."""
    protocols = [kind for kind in contract.__mro__ if vars(kind).get("_is_protocol") and kind is not Protocol]
    wanted = {name for kind in protocols for name in (*vars(kind), *vars(kind).get("__annotations__", ()))}
    kinds = (part if isinstance(part, type) else type(part)).__mro__
    said = {name for kind in kinds for name in vars(kind).get("__annotations__", ())}
    return sorted(name for name in wanted - said - set(dir(part)) if not name.startswith("_"))


def check_hparams(hparams: Any, contract: type, part: str) -> None:
    """Raises UsageError where the hparams lack what a part ("memory uniform") reads, a `typing.Protocol`."""
    missing = lacking(hparams, contract)
    if missing:
        raise UsageError(
            f"{part} needs the hparams {', '.join(missing)}, which {type(hparams).__name__} lacks: take "
            "another part, or give that class these fields"
        )


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{package} is not a package with files")
    return Path(spec.submodule_search_locations[0])


def _python_files(folder: Path) -> Iterator[Path]:
    """Files of a family, sorted; a folder inside it that has a registry of its own is another family's."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name.isidentifier() and not (path / "registry.py").exists():
                yield from _python_files(path)
        elif path.suffix == ".py" and path.name != "registry.py":
            yield path


def _string_constant(tree: ast.Module, name: str) -> str | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        named = any(isinstance(each, ast.Name) and each.id == name for each in targets)
        if named and isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None


def _source_path(member: Any) -> str:
    if not (inspect.isclass(member) or inspect.isfunction(member)):
        raise TypeError(f"only a function or a class can be registered, not {member!r}")
    if inspect.isfunction(member):
        return member.__code__.co_filename
    module = sys.modules.get(member.__module__)
    return getattr(module, "__file__", None) or f"{member.__module__}.py"


def _same_place(one: Entry, other: Entry) -> bool:
    """Whether both are the same definition, executed again (reload, `python -m`, a notebook's cell)."""
    if one.qualname != other.qualname:
        return False
    return one.module == other.module or os.path.realpath(one.path) == os.path.realpath(other.path)


def _first_line(docstring: str | None) -> str:
    lines = (docstring or "").strip().splitlines()
    return lines[0].strip() if lines else ""
