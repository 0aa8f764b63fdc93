"""Approvals: what a user is asked, may answer, and has approved before.

Owns the questions and the answers, and ``<home>/rules.json``. Invariants: a prefix matches
whole arguments, never text, and holds in the directory it was approved in and below; the file
is replaced whole and readable by its owner only, and a rule saved by another process is never
lost.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from ..core.errors import ConfigError
from ..core.files import read_bounded, replace_file
from ..core.typed import decode_json
from .prefixes import find_shape, has_shape
from .repository import Repository

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
    "is_sound",
    "matching_rule",
]

ApprovalPolicy: TypeAlias = Literal["never", "on-request", "untrusted"]

Argv: TypeAlias = tuple[str, ...]
"""A program and its arguments."""

MOST_BYTES = 4 << 20
"""The largest file of rules that is read."""

_VERSION = 2
_log = logging.getLogger(__name__)


class Escalation(Struct, frozen=True):
    """A model's request to run a command outside the sandbox."""

    justification: str = ""
    prefix: Argv = ()


class Command(Struct, frozen=True):
    """A command that a model wants to run."""

    argv: Argv
    cwd: str
    escalation: Escalation | None = None
    shell: str = ""
    """The shell that the user chose, by its full path; other paths of that name are programs."""


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
    """The first words of commands that need no further approval in `directory` and below.

    `outside` lets such a command leave the sandbox. A rule without a directory, as versions
    before the second had it, holds nowhere.
    """

    prefix: Argv
    outside: bool = False
    directory: str = ""

    def holds_in(self, directory: Path) -> bool:
        """Return whether the rule holds in `directory`, which must be free of links."""
        return self.directory.startswith("/") and directory.is_relative_to(self.directory)


class PastApprovals(Struct, frozen=True):
    """What the user has approved before."""

    prefixes: tuple[PrefixRule, ...] = ()
    commands: frozenset[tuple[Argv, str, bool]] = frozenset()
    """Whole commands of this thread: arguments, directory, and whether outside."""


def matching_rule(
    rules: Iterable[PrefixRule], command: Sequence[str], repository: Repository | None = None
) -> PrefixRule | None:
    """Return the rule that covers `command`; one that lets it leave the sandbox wins.

    `repository` is the one that the command runs in, if it is a plain one.
    """
    found = [
        rule
        for rule in rules
        if tuple(command[: len(rule.prefix)]) == rule.prefix
        and has_shape(command, outside=rule.outside, repository=repository)
    ]
    return max(found, key=lambda rule: rule.outside, default=None)


class _Rules(Struct, frozen=True, kw_only=True):
    """The content of ``rules.json``."""

    version: int = _VERSION
    prefixes: tuple[PrefixRule, ...] = ()


class Approvals(Struct):
    """What was approved, over all threads of one home."""

    home: Path
    _threads: dict[str, set[tuple[Argv, str, bool]]] = field(default_factory=dict)
    _told: bool = False
    """Whether rules that hold nowhere were pointed out."""

    @property
    def file(self) -> Path:
        """Return the file of approved prefixes; people may edit it."""
        return self.home / "rules.json"

    def load_prefixes(self, directory: Path | str) -> tuple[PrefixRule, ...]:
        """Read the prefixes that are approved in `directory`.

        Raises `ConfigError` when the file cannot be read.
        """
        if not (rules := self._read_rules()):
            return ()
        place = Path(os.path.realpath(directory))
        return tuple(rule for rule in rules if rule.holds_in(place))

    def load(self, thread: str, directory: Path | str) -> PastApprovals:
        """Return what counts as approved in `thread` for a command in `directory`."""
        approved = frozenset(self._threads.get(thread, ()))
        return PastApprovals(self.load_prefixes(directory), approved)

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

    def _read_rules(self) -> tuple[PrefixRule, ...]:
        """Read the rules that hold anywhere: those that name a directory and have a shape."""
        try:
            rules = decode_json(read_bounded(self.file, MOST_BYTES), _Rules)
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"cannot read the approved commands in {str(self.file)!r}: {error}; "
                "fix the file or remove it"
            ) from error
        if rules.version > _VERSION:
            raise ConfigError(
                f"the approved commands in {str(self.file)!r} have version {rules.version}, and "
                f"this Treadle reads {_VERSION}; use the newer one, or remove the file"
            )
        good = tuple(rule for rule in rules.prefixes if rule.directory and is_sound(rule))
        self._tell(len(rules.prefixes) - len(good))
        return good

    def _tell(self, useless: int) -> None:
        if useless and not self._told:
            self._told = True
            _log.warning(
                "%d approved prefixes in %r hold no longer: they name no directory, or could run "
                "anything; approve them again where you need them",
                useless,
                str(self.file),
            )

    def _save(self, rule: PrefixRule) -> None:
        with self._lock():
            known = self._read_rules()
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


def is_sound(rule: PrefixRule) -> bool:
    """Return whether a rule has a shape; in which repository it holds is looked at later."""
    shape = find_shape(rule.prefix)
    if shape is None or (rule.outside and not shape.outside):
        return False
    return has_shape(rule.prefix, outside=False)


def _checked_rule(ask: Ask, prefix: Argv) -> PrefixRule:
    from .commands import segments  # loads a parser, which a first request does not need

    rule = PrefixRule(prefix, ask.outside, os.path.realpath(ask.cwd))
    if not is_sound(rule):
        raise ConfigError(
            f"the prefix {list(prefix)!r} would approve too much; approve the command for this "
            "thread, or each time"
        )
    # The question offered it only where it settles the whole command; here its words count.
    if not any(tuple(part[: len(prefix)]) == prefix for part in segments(ask.argv)):
        raise ConfigError(
            f"the prefix {list(prefix)!r} does not begin the command {list(ask.argv)!r}; "
            "use its first words, each as one argument"
        )
    return rule
