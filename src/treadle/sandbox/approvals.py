"""Approvals: what a user is asked, may answer, and has approved before.

Owns the questions and the answers, the list of prefixes that are too broad to approve, and
``<home>/rules.json``. Invariants: a prefix matches whole arguments, never text; the file is
replaced whole and readable by its owner only, and a rule saved by another process is never
lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from ..core.errors import ConfigError
from ..core.files import read_bounded, replace_file
from ..core.text import word_set

__all__ = [
    "MOST_BYTES",
    "ApprovalPolicy",
    "Approvals",
    "Argv",
    "Ask",
    "Command",
    "Decision",
    "Escalation",
    "ForPrefix",
    "ForThread",
    "No",
    "NoAndStop",
    "Once",
    "PastApprovals",
    "PrefixRule",
    "is_banned",
    "matching_rule",
]

ApprovalPolicy: TypeAlias = Literal["never", "on-request", "untrusted"]

Argv: TypeAlias = tuple[str, ...]
"""A program and its arguments."""

MOST_BYTES = 4 << 20
"""The largest file of rules that is read."""

_INTERPRETERS = word_set(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit Rscript "
    "julia osascript tclsh expect ipython irb ghci jshell scala groovy awk gawk mawk"
)
_SHELLS = word_set("bash sh zsh fish dash ksh csh tcsh pwsh powershell cmd busybox")
_LAUNCHERS = word_set(
    "env sudo doas su xargs nohup nice ionice time timeout watch exec eval command builtin setsid "
    "stdbuf chroot unshare nsenter systemd-run parallel"
)
_DESTROYERS = word_set("rm dd mkfs shred chmod chown kill mv")
_TOOLS = word_set(
    "git make npm npx pnpm yarn bunx pip pip3 pipx uv uvx poetry cargo go curl wget gh apt apt- "
    "get ssh script docker podman kubectl"
)
_FIRST_WORDS = _DESTROYERS | _TOOLS
_INLINE = word_set("-c -lc -ic -e -E -m -i -n -p -r -s --eval --command --print exec")
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


class Escalation(Struct, frozen=True):
    """A model's request to run a command outside the sandbox."""

    justification: str = ""
    prefix: Argv = ()


class Command(Struct, frozen=True):
    """A command that a model wants to run."""

    argv: Argv
    cwd: str
    escalation: Escalation | None = None


class Ask(Struct, frozen=True, kw_only=True, tag="ask"):
    """Show a command to the user first. `prefix` is what could be approved for good."""

    argv: Argv
    cwd: str
    reason: str
    outside: bool = False
    prefix: Argv | None = None


class Once(Struct, frozen=True, tag="once"):
    """Approve this time."""


class ForThread(Struct, frozen=True, tag="thread"):
    """Approve this command, also later, as long as this thread is open."""


class ForPrefix(Struct, frozen=True, tag="prefix"):
    """Approve this command, and from now on every command with this prefix."""

    prefix: Argv


class No(Struct, frozen=True, tag="no"):
    """Refuse; the turn continues, and the model reads `note`."""

    note: str = ""


class NoAndStop(Struct, frozen=True, tag="stop"):
    """Refuse, and end the turn."""


Decision: TypeAlias = Once | ForThread | ForPrefix | No | NoAndStop
"""What a host may answer to an `Ask`."""


class PrefixRule(Struct, frozen=True):
    """The first words of commands that need no further approval.

    `outside` lets such a command leave the sandbox.
    """

    prefix: Argv
    outside: bool = False


class PastApprovals(Struct, frozen=True):
    """What the user has approved before."""

    prefixes: tuple[PrefixRule, ...] = ()
    commands: frozenset[tuple[Argv, str, bool]] = frozenset()
    """Whole commands of this thread: arguments, directory, and whether outside."""


def is_banned(prefix: Sequence[str]) -> bool:
    """Return whether approving `prefix` would approve nearly everything.

    >>> is_banned(("npm", "run")), is_banned(("npm", "run", "test"))
    (True, False)
    """
    if not prefix:
        return True
    first, rest = prefix[0].rpartition("/")[2], tuple(prefix[1:])
    if first in _LAUNCHERS:
        return is_banned(_launched_command(rest))
    if first in _INTERPRETERS | _SHELLS:
        return not rest or rest[-1] in _INLINE or all(each.startswith("-") for each in rest)
    # `find` takes a command to run wherever its arguments end.
    return first == "find" or (not rest and first in _FIRST_WORDS) or (first, *rest) in _RUNNERS


def _launched_command(arguments: Argv) -> Argv:
    """Return what is left after options, assignments and numbers."""
    for index, each in enumerate(arguments):
        if not (each.startswith("-") or "=" in each or each[:1].isdigit()):
            return arguments[index:]
    return ()


def matching_rule(rules: Iterable[PrefixRule], command: Sequence[str]) -> PrefixRule | None:
    """Return the rule that covers `command`; one that lets it leave the sandbox wins."""
    found = [rule for rule in rules if tuple(command[: len(rule.prefix)]) == rule.prefix]
    return max(found, key=lambda rule: rule.outside, default=None)


class _Rules(Struct, frozen=True, kw_only=True):
    """The content of ``rules.json``."""

    version: int = 1
    prefixes: tuple[PrefixRule, ...] = ()


class Approvals(Struct):
    """What was approved, over all threads of one home."""

    home: Path
    _threads: dict[str, set[tuple[Argv, str, bool]]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Return the file of approved prefixes; people may edit it."""
        return self.home / "rules.json"

    def load_prefixes(self) -> tuple[PrefixRule, ...]:
        """Read the approved prefixes. Raises `ConfigError` when the file cannot be read."""
        try:
            rules = msgspec.json.decode(read_bounded(self.file, MOST_BYTES), type=_Rules)
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"cannot read the approved commands in {str(self.file)!r}: {error}; "
                "fix the file or remove it"
            ) from error
        return tuple(rule for rule in rules.prefixes if not is_banned(rule.prefix))

    def load(self, thread: str) -> PastApprovals:
        """Return what counts as approved in `thread`; reads the file of prefixes."""
        return PastApprovals(self.load_prefixes(), frozenset(self._threads.get(thread, ())))

    def record(self, thread: str, ask: Ask, decision: Decision) -> None:
        """Remember what the answer to `ask` says for later.

        Raises `ConfigError` for a prefix that is too broad or does not cover the command.
        """
        match decision:
            case ForThread():
                self._threads.setdefault(thread, set()).add((ask.argv, ask.cwd, ask.outside))
            case ForPrefix(prefix):
                self._save(_checked_rule(ask, prefix))
            case _:
                return

    def forget(self, thread: str) -> None:
        """Drop what was approved for `thread` only."""
        self._threads.pop(thread, None)

    def _save(self, rule: PrefixRule) -> None:
        with self._lock():
            known = self.load_prefixes()
            if rule not in known:
                rules = msgspec.json.encode(_Rules(prefixes=(*known, rule)))
                replace_file(self.file, msgspec.json.format(rules, indent=2) + b"\n")

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = os.open(self.home / "rules.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _checked_rule(ask: Ask, prefix: Argv) -> PrefixRule:
    from .commands import segments  # loads a parser, which a first request does not need

    if is_banned(prefix):
        raise ConfigError(f"the prefix {list(prefix)!r} would approve too much; name more of it")
    rule = PrefixRule(prefix, outside=ask.outside)
    if not any(matching_rule((rule,), part) for part in segments(ask.argv)):
        raise ConfigError(
            f"the prefix {list(prefix)!r} does not begin the command {list(ask.argv)!r}; "
            "use its first words, each as one argument"
        )
    return rule
