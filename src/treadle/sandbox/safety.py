"""Safety: commands that only read, and commands that destroy.

Owns two short lists and their option checks. Invariant: what is not known to be safe is not
safe, and what cannot be read counts as dangerous.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import PurePath

from ..core.words import word_set
from .commands import LONGEST_SCRIPT, documents, loose_commands, plain_commands
from .place import is_system_shell

__all__ = ["MOST_WORDS", "RUN_PROJECTS", "is_dangerous", "is_safe_read_only"]

MOST_WORDS = 4_096
"""Words of a command that are examined; one that has more counts as dangerous."""

RUN_PROJECTS = frozenset(("cargo", "git"))
"""Programs that may run what a project names, even where they only look."""

_DEEPEST = 8
_MOST_SCRIPTS = 64
_SHELLS = word_set("bash zsh sh dash ksh mksh ash rbash csh tcsh fish")
_WORD_HOLDERS = word_set("echo printf grep egrep fgrep zgrep rg ack ag man which type apropos")
"""Programs that print, find or look up the words that they are given, and run none of them."""
_OWN_REMOVAL = word_set("git hg svn docker podman npm pnpm yarn brew")
"""Programs with an `rm` of their own, which removes no files, or files that can be restored."""
_SCRIPT_TAKERS = word_set("eval trap alias ssh watch parallel tmux screen source .")
"""Programs that read their words as scripts; others do after an option such as `-c`."""
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
_UNIQ_VALUE = re.compile(r"-[A-Za-z]*[fsw]|--(?:s[a-z-]*|ch[a-z-]*)")
"""An option of `uniq` whose value is the next word."""
_FLAG = re.compile(r"-[A-Za-z]*c[A-Za-z]*|--command|-S|--split-string")
_ATTACHED = re.compile(r"(?:--command=|--split-string=|-S)(.+)", re.DOTALL)
_REMOVAL = re.compile(r"-[rRdfvi]*f[rRdfvi]*|--force")
_SED_PRINT = re.compile(r"\d+(,\d+)?p")


def is_safe_read_only(
    argv: Sequence[str], is_shell: Callable[[str], bool] = is_system_shell
) -> bool:
    """Return whether `argv` is one or more plain commands that only read.

    >>> is_safe_read_only(("bash", "-lc", "ls | wc -l")), is_safe_read_only(("rm", "x"))
    (True, False)
    """
    commands = plain_commands(argv, is_shell)
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
    """Check that no second file is named: it would be written."""
    files, waiting = 0, list(reversed(arguments))
    while waiting:
        each = waiting.pop()
        if each == "--":
            files, waiting = files + len(waiting), []
        elif each == "-" or not each.startswith("-"):
            files += 1
        elif _UNIQ_VALUE.fullmatch(each):
            waiting[-1:] = []
    return files <= 1


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
    if _removes_by_force(argv):
        return True
    scripts = list(islice(_scripts(argv), _MOST_SCRIPTS + 1))
    return len(scripts) > _MOST_SCRIPTS or any(_is_harmful(script, depth) for script in scripts)


def _removes_by_force(argv: Sequence[str]) -> bool:
    """Return whether `argv` is a forced `rm`, or hands one to another program."""
    program = _name(argv[0])
    if program[:1] in ("$", "`"):
        # Nobody can tell what it is; with these options it is what it looks like.
        return any(_REMOVAL.fullmatch(each) for each in argv[1:])
    first = 2 if program in _OWN_REMOVAL else 0
    last = 1 if program in _WORD_HOLDERS else len(argv)
    start = next((i for i in range(first, last) if _name(argv[i]) == "rm"), None)
    return start is not None and any(map(_is_force, argv[start + 1 :]))


def _is_harmful(script: str, depth: int) -> bool:
    if len(script) > LONGEST_SCRIPT:
        return _SUSPECT.search(script) is not None
    commands = list(loose_commands(script))
    if any(_is_dangerous_at(command, depth + 1) for command in commands):
        return True
    if not any(map(_reads_script, commands)):
        return False
    # A shell reads its script from a pipe or a document: from any text that is here.
    texts = (*(" ".join(command[1:]) for command in commands), *documents(script))
    return any(_is_harmful(text, depth + 1) for text in texts[:_MOST_SCRIPTS] if text)


def _is_force(argument: str) -> bool:
    if argument.startswith("--"):
        return len(argument) > 2 and "--force".startswith(argument)
    return argument.startswith("-") and "f" in argument


def _reads_script(command: Sequence[str]) -> bool:
    """Return whether `command` is a shell that reads a script from its input."""
    names = [_name(each) for each in command]
    start = next((i for i, name in enumerate(names) if name in _SHELLS), None)
    if start is None or names[0] in _WORD_HOLDERS:
        return False
    rest = command[start + 1 :]
    return all(each.startswith("-") and not _FLAG.fullmatch(each) for each in rest) or "-s" in rest


def _scripts(argv: Sequence[str]) -> Iterator[str]:
    """Yield the shell scripts that a command is given to run."""
    program = _name(argv[0])
    if program in _WORD_HOLDERS:
        return
    for index, word in enumerate(argv[1:], 1):
        if _FLAG.fullmatch(word):
            yield from [each for each in argv[index + 1 : index + 3] if each != "--"][:1]
        elif attached := _ATTACHED.fullmatch(word):
            yield attached[1]
    takers = (index for index, word in enumerate(argv) if _name(word) in _SCRIPT_TAKERS)
    if (taker := next(takers, None)) is not None:
        rest = argv[taker + 1 :]
        yield " ".join(rest)
        yield from (word.partition("=")[2] if "=" in word else word for word in rest if " " in word)


def _name(word: str) -> str:
    return PurePath(word).name
