"""Flags of commands: their types, their mistakes in one line, and what several commands have."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from rl import other_names
from rl.errors import UsageError, nearest


class Parser(argparse.ArgumentParser):
    """argparse whose mistakes are UsageErrors: one line, no usage text around it. Flags are typed in full."""

    def __init__(self, **options: Any):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        bare = re.fullmatch(r"argument (--\w+): expected one argument", message)
        taken = {flag: action.metavar for action in self._actions for flag in action.option_strings}
        if bare and taken.get(bare[1]):
            message += f": {bare[1]} {taken[bare[1]]}"
        raise UsageError(message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses all words; raises UsageError for an unknown flag, with the nearest, as for any mistake."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            raise unknown_word(rest[0].partition("=")[0], flags_of(self))
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses as argparse does; raises UsageError for a word that is no text, of which no file could
        tell."""
        words = sys.argv[1:] if args is None else list(args)
        for word in words:
            readable = word.encode(errors="backslashreplace").decode()
            if readable != word:
                raise UsageError(f"{readable} is not UTF-8: rename it, or name another")
        return super().parse_known_args(words, namespace)


def boolean(text: str) -> bool:
    """Parses True and False, in the usual spellings: an argparse type."""
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"needs True or False, not {text!r}")
    return words[text.lower()]


def integer(minimum: int, maximum: int = 2**62 - 1) -> Callable[[str], int]:
    """Makes an argparse type: integers from `minimum` to `maximum`."""

    def parse(text: str) -> int:
        try:
            value = float(text)
            if not value.is_integer():
                raise ValueError(text)
            value = int(text) if text.lstrip("+-").isdecimal() else int(value)  # 1e6 is welcome too
        except (ValueError, OverflowError):
            raise argparse.ArgumentTypeError(f"needs an integer, not {text!r}") from None
        if not minimum <= value <= maximum:
            wanted = f">= {minimum}" if value < minimum else f"<= {maximum}"
            raise argparse.ArgumentTypeError(f"needs an integer {wanted}, not {text}")
        return value

    return parse


def one_of(*known: str) -> Callable[[str], str]:
    """Makes an argparse type: one of the known names."""

    def parse(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"no {text!r}: {nearest(text, known)}")
        return text

    return parse


def policy_flags(parser: argparse.ArgumentParser, run: str = "run") -> None:
    """Adds what says which trained policy a command is about, and what of the caller's own it needs.

    run: how the run is said, "run" or "--run".
    """
    required: dict[str, Any] = {"required": True} if run.startswith("-") else {}
    text = "a run's folder or address, or the folder that it is in"
    parser.add_argument(run, metavar="RUN", help=text, **required)
    kept, text = ("best", "last"), "policy of the run (default best)"
    parser.add_argument("--which", type=one_of(*kept), default="best", metavar="|".join(kept), help=text)
    text = "modules of your own that the run was trained with"
    parser.add_argument("--user_modules", default="", metavar="a,b", help=text)
    parser.add_argument(
        "--env", metavar="module:NAME", help="function of your own that made its environments"
    )


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """Lists all flags of a parser."""
    return [flag for action in parser._actions for flag in action.option_strings]


def unknown_word(word: str, flags: Iterable[str], meant: str | None = None) -> UsageError:
    """Returns the error for a flag that is none of `flags`, or for a word that belongs to no flag.

    meant: words on what it stands for, where that is known; None: the nearest flags.
    """
    what = f"unknown flag {word}" if word.startswith("-") else f"unexpected argument {word!r}"
    return UsageError(f"{what}: {meant or nearest(word, flags, elsewhere=other_names.FLAGS)} (all: --help)")
