"""Prefixes: which beginnings of a command a user can approve for good.

Owns the list of beginnings that are too broad. Invariant: a prefix matches whole
arguments, never text, and none that can run anything at all is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from .words import words

__all__ = ["Argv", "PrefixRule", "is_banned", "matching"]

Argv: TypeAlias = tuple[str, ...]
"""A program and its arguments."""

_INTERPRETERS = words(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit Rscript julia "
    "osascript tclsh expect ipython irb ghci jshell scala groovy awk gawk mawk"
)
_SHELLS = words("bash sh zsh fish dash ksh csh tcsh pwsh powershell cmd busybox")
_LAUNCHERS = words(
    "env sudo doas su xargs nohup nice ionice time timeout watch exec eval command builtin setsid "
    "stdbuf chroot unshare nsenter systemd-run parallel"
)
_DESTROYERS = words("rm dd mkfs shred chmod chown kill mv")
_TOOLS = words(
    "git make npm npx pnpm yarn bunx pip pip3 pipx uv uvx poetry cargo go curl wget gh apt apt-get "
    "ssh script docker podman kubectl"
)
_FIRST_WORDS = _DESTROYERS | _TOOLS
_INLINE = words("-c -lc -ic -e -E -m -i -n -p -r -s --eval --command --print exec")
_RUNNERS = frozenset(
    (
        *(("npm", word) for word in ("run", "exec", "x")),
        *(("pnpm", word) for word in ("run", "exec", "dlx")),
        *(("yarn", word) for word in ("run", "exec", "dlx")),
        *(("uv", "run"), ("poetry", "run"), ("cargo", "run"), ("go", "run"), ("bun", "run")),
        *(("deno", "run"), ("deno", "eval"), ("docker", "run"), ("docker", "exec")),
        *(("git", "-c"), ("git", "-C"), ("rm", "-f"), ("rm", "-r"), ("rm", "-rf"), ("gh", "api")),
    )
)


class PrefixRule(Struct, frozen=True):
    """A beginning that needs no further approval; `outside` lets it leave the sandbox."""

    prefix: Argv
    outside: bool = False


def is_banned(prefix: Sequence[str]) -> bool:
    """Whether approving `prefix` would approve nearly everything.

    >>> is_banned(("npm", "run")), is_banned(("npm", "run", "test"))
    (True, False)
    """
    if not prefix:
        return True
    first, rest = _name(prefix[0]), tuple(prefix[1:])
    if first in _LAUNCHERS:
        return is_banned(_launched(rest))
    if first in _INTERPRETERS | _SHELLS:
        return not rest or rest[-1] in _INLINE or all(each.startswith("-") for each in rest)
    # `find` takes a command to run wherever its arguments end.
    return first == "find" or (not rest and first in _FIRST_WORDS) or (first, *rest) in _RUNNERS


def _launched(arguments: Argv) -> Argv:
    """What is left after options, assignments and numbers."""
    for index, each in enumerate(arguments):
        if not (each.startswith("-") or "=" in each or each[:1].isdigit()):
            return arguments[index:]
    return ()


def matching(rules: Iterable[PrefixRule], command: Sequence[str]) -> PrefixRule | None:
    """The rule that covers `command`; one that lets it out wins."""
    found = [rule for rule in rules if tuple(command[: len(rule.prefix)]) == rule.prefix]
    return max(found, key=lambda rule: rule.outside, default=None)


def _name(word: str) -> str:
    return word.rpartition("/")[2]
