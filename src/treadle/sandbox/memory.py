"""Memory of approvals: what a user said yes to, for a thread or for good.

Owns ``<home>/rules.json``. Invariant: the file is replaced whole and readable by
its owner only, and a rule saved by another process is never lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, field

from ..core.errors import ConfigError
from ..core.files import read_bounded, replace_file
from .approvals import Ask, Decision, ForPrefix, ForThread, Remembered
from .prefixes import Argv, PrefixRule, is_banned, matching

__all__ = ["MOST_BYTES", "Approvals"]

MOST_BYTES = 4 << 20
"""The largest file of rules that is read."""


class _Rules(Struct, frozen=True, kw_only=True):
    version: int = 1
    prefixes: tuple[PrefixRule, ...] = ()


class Approvals(Struct):
    """What was approved, over all threads of one home."""

    home: Path
    _threads: dict[str, set[tuple[Argv, str, bool]]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Where prefixes are kept; people may edit it."""
        return self.home / "rules.json"

    def prefixes(self) -> tuple[PrefixRule, ...]:
        """The approved prefixes. Raises `ConfigError` when the file cannot be read."""
        try:
            rules = msgspec.json.decode(read_bounded(self.file, MOST_BYTES), type=_Rules)
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"cannot read the approved commands in {str(self.file)!r}: {error}; "
                "mend the file or remove it"
            ) from error
        return tuple(rule for rule in rules.prefixes if not is_banned(rule.prefix))

    def remembered(self, thread: str) -> Remembered:
        """What counts as approved in `thread`."""
        return Remembered(self.prefixes(), frozenset(self._threads.get(thread, ())))

    def record(self, thread: str, ask: Ask, decision: Decision) -> None:
        """Remember what the answer to `ask` says for later.

        Raises `ConfigError` for a prefix that is too broad or does not cover the command.
        """
        match decision:
            case ForThread():
                self._threads.setdefault(thread, set()).add((ask.argv, ask.cwd, ask.outside))
            case ForPrefix(prefix):
                self._save(_accepted(ask, prefix))
            case _:
                return

    def forget(self, thread: str) -> None:
        """Drop what was approved for `thread` only."""
        self._threads.pop(thread, None)

    def _save(self, rule: PrefixRule) -> None:
        with self._locked():
            known = self.prefixes()
            if rule not in known:
                rules = msgspec.json.encode(_Rules(prefixes=(*known, rule)))
                replace_file(self.file, msgspec.json.format(rules, indent=2) + b"\n")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.home / "rules.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _accepted(ask: Ask, prefix: Argv) -> PrefixRule:
    from .commands import segments

    if is_banned(prefix):
        raise ConfigError(f"the prefix {list(prefix)!r} would approve too much; name more of it")
    rule = PrefixRule(prefix, outside=ask.outside)
    if not any(matching((rule,), part) for part in segments(ask.argv)):
        raise ConfigError(
            f"the prefix {list(prefix)!r} does not begin the command {list(ask.argv)!r}; "
            "use its first words, each as one argument"
        )
    return rule
