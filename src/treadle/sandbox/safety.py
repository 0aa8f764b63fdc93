"""Safety: commands that only read, and commands that destroy.

Owns two short lists and their option checks. Invariant: what is not known to be safe is not
safe, and what cannot be read counts as dangerous.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath

from ..core.text import word_set
from .commands import LONGEST_SCRIPT, loose_commands, plain_commands

__all__ = ["MOST_WORDS", "is_dangerous", "is_safe_read_only"]

MOST_WORDS = 4_096
"""Words of a command that are examined; one that has more counts as dangerous."""

_DEEPEST = 8
_SHELLS = frozenset(("bash", "zsh", "sh", "dash", "ksh", "ash"))
_WRAPPERS = word_set(
    "sudo doas env command exec builtin nohup nice ionice time timeout setsid stdbuf xargs find "
    "busybox unbuffer watch"
)
_READERS = word_set(
    "cat cd cut echo expr false grep head id ls nl numfmt paste pwd rev seq stat tac tail tr true "
    "uname wc which whoami"
)
_FIND_ACTS = ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint")
_RG_RUNS = ("--pre", "--hostname-bin")
_RG_UNPACKS = ("--search-zip", "-z")
_GIT_READS = frozenset(("branch", "status", "log", "diff", "show"))
_GIT_ACTS = ("--output", "--ext-diff", "--textconv", "--exec", "--open-files-in-pager")
_BRANCH_LISTS = word_set(
    "--list -l --all -a --remotes -r --show-current -v -vv --verbose --no-color --color"
)
_SUSPECT = re.compile(r"r[\\'\"]*m[\\'\"]*\s|\beval\b|sh\b[^\n]{0,80}?\s-\w*c")
"""A removal, or a script within a script, in a script that is too long to be parsed."""
_SED_PRINT = re.compile(r"\d+(,\d+)?p")


def is_safe_read_only(argv: Sequence[str]) -> bool:
    """Return whether `argv` is one or more plain commands that only read.

    >>> is_safe_read_only(("bash", "-lc", "ls | wc -l")), is_safe_read_only(("rm", "x"))
    (True, False)
    """
    commands = plain_commands(argv)
    return commands is not None and all(map(_is_reader, commands))


def is_dangerous(argv: Sequence[str]) -> bool:
    """Return whether `argv` removes files by force, however it is wrapped.

    >>> is_dangerous(("sudo", "bash", "-c", "cd / && rm -rf tmp"))
    True
    """
    return _is_dangerous_at(tuple(argv), 0)


def _is_reader(argv: Sequence[str]) -> bool:
    program, arguments = argv[0], argv[1:]
    if program in _READERS:
        return True
    check = _CHECKS.get(program)
    return check is not None and check(arguments)


def _base64(arguments: Sequence[str]) -> bool:
    return not any(
        each.startswith(("--o", "-o")) or _has_short(each, "o", takes_value="w")
        for each in arguments
    )


def _find(arguments: Sequence[str]) -> bool:
    return not any(each in _FIND_ACTS or each.startswith("-fprint") for each in arguments)


def _rg(arguments: Sequence[str]) -> bool:
    return not any(
        each in _RG_UNPACKS
        or each.partition("=")[0] in _RG_RUNS
        or _has_short(each, "z", takes_value="ABCETefgjmtr")
        for each in arguments
    )


def _git(arguments: Sequence[str]) -> bool:
    subcommand, options = (*arguments[:1], ""), arguments[1:]
    if subcommand[0] not in _GIT_READS or any(_git_acts(each) for each in options):
        return False
    return subcommand[0] != "branch" or all(each in _BRANCH_LISTS for each in options)


def _git_acts(option: str) -> bool:
    """Return whether an option makes git act; git takes any unambiguous beginning of one."""
    name = option.partition("=")[0]
    return len(name) > 3 and any(each.startswith(name) for each in _GIT_ACTS)


def _uniq(arguments: Sequence[str]) -> bool:
    """Check that no second file is named: it would be written. A number may belong to an option."""
    files = [each for each in arguments if not each.startswith(("-", "+")) and not each.isdigit()]
    return len(files) <= 1


def _cargo(arguments: Sequence[str]) -> bool:
    return arguments[:1] == ("check",)


def _sed(arguments: Sequence[str]) -> bool:
    """Check that a range of lines is printed: ``-n 10,20p`` and at most one file."""
    return (
        2 <= len(arguments) <= 3
        and arguments[0] == "-n"
        and _SED_PRINT.fullmatch(arguments[1]) is not None
        and not any(each.startswith("-") for each in arguments[2:])
    )


_CHECKS: dict[str, Callable[[Sequence[str]], bool]] = {
    "base64": _base64,
    "find": _find,
    "rg": _rg,
    "git": _git,
    "cargo": _cargo,
    "sed": _sed,
    "uniq": _uniq,
}


def _has_short(argument: str, letter: str, *, takes_value: str) -> bool:
    """Return whether a cluster such as ``-inz`` has `letter` before an option with a value."""
    if not argument.startswith("-") or argument.startswith("--"):
        return False
    options = re.split(f"[{takes_value}]", argument[1:], maxsplit=1)[0]
    return letter in options


def _is_dangerous_at(argv: Sequence[str], depth: int) -> bool:
    if depth > _DEEPEST or len(argv) > MOST_WORDS:
        return True
    if not argv:
        return False
    starts = range(len(argv)) if PurePath(argv[0]).name in _WRAPPERS else (0,)
    return any(_is_harmful(argv[start:], depth) for start in starts)


def _is_harmful(argv: Sequence[str], depth: int) -> bool:
    program = PurePath(argv[0]).name
    if program == "rm":
        return any(map(_is_force, argv[1:]))
    return any(_is_harmful_script(script, depth) for script in _scripts(program, argv[1:]))


def _is_harmful_script(script: str, depth: int) -> bool:
    if len(script) > LONGEST_SCRIPT:
        return _SUSPECT.search(script) is not None
    return any(_is_dangerous_at(command, depth + 1) for command in loose_commands(script))


def _is_force(argument: str) -> bool:
    if argument.startswith("--"):
        return len(argument) > 2 and "--force".startswith(argument)
    return argument.startswith("-") and "f" in argument


def _scripts(program: str, arguments: Sequence[str]) -> list[str]:
    """Return the shell scripts that a command is given to run."""
    if program in _SHELLS:
        flags = [i for i, each in enumerate(arguments) if re.fullmatch(r"-\w*c\w*", each)]
        return list(arguments[flags[0] + 1 : flags[0] + 2]) if flags else []
    if program in ("trap", "eval"):
        return [arguments[0] if program == "trap" else " ".join(arguments)] if arguments else []
    if program in ("-S", "--split-string"):
        return list(arguments[:1])
    return [program[2:]] if program.startswith("-S") else []
