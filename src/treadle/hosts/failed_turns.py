"""Attempts: how often a turn was tried, and when it is tried no more.

Owns one outbox row for a turn that went wrong, until it ends. Invariants: an attempt counts for
all workers, also one whose worker died of it; no clock of another machine decides how long is
waited; and a turn that is given up is a failed turn, with its input and the reason in its log.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Raw, Struct

from ..context.compose import inbox_draft
from ..core.entries import Notice, control_draft
from ..core.errors import LeaseLost
from ..core.ids import new_id
from ..core.typed import decode_json
from ..core.wire import json_bytes
from ..prompt.registry import installed_registry
from ..store.contract import (
    THIS_TURN,
    Admission,
    Change,
    ChangeResult,
    InboxMessage,
    OutboxDraft,
    OutboxRow,
    Store,
    Turn,
    TurnEnd,
)

__all__ = ["MOST_ATTEMPTS", "TurnAttempts", "Waiting", "find_waiting", "was_asked"]

MOST_ATTEMPTS = 5
_TOPIC = "work"
_SHORTEST, _LONGEST = 1.0, 60.0
_OPENING = 100
"""Within so many entries after its admission, a turn asks its model."""
_OPEN = ("admitted", "running")

Commit: TypeAlias = Callable[[Change], Awaitable[ChangeResult]]


class Waiting(Struct, frozen=True, kw_only=True):
    """What a thread waits for: the turn that somebody left open, or the next message."""

    turn: Turn | None = None
    message: InboxMessage | None = None

    @property
    def key(self) -> str:
        """The name under which attempts at it are counted."""
        if self.turn is not None:
            return self.turn.id
        return self.message.key if self.message is not None else ""


async def find_waiting(store: Store, thread: str) -> Waiting | None:
    """Return what `thread` waits for; None where nothing does any more."""
    newest = await store.turns(thread, limit=1)
    if newest and newest[-1].state in _OPEN:
        return Waiting(turn=newest[-1])
    mail = [message for message in await store.inbox(thread) if message.kind == "input"]
    return Waiting(message=mail[0]) if mail else None


async def was_asked(store: Store, thread: str, turn: Turn) -> bool:
    """Return whether a model was asked in a turn that is open: somebody ran it before."""
    entries = await store.read(thread, turn.first, limit=_OPENING)
    return any(entry.kind == "request" and entry.turn == turn.number for entry in entries)


class _Counted(Struct, frozen=True):
    """The body of the row."""

    turn: str
    before: int = 0
    """Attempts that were made before anybody counted."""


class TurnAttempts:
    """Counts attempts at turns, in the store."""

    def __init__(self, store: Store, most: int = MOST_ATTEMPTS) -> None:
        self._store, self.most = store, most
        self._due: dict[str, tuple[int, float]] = {}
        """By threads: the attempts that are known of, and when the next is due here."""

    @property
    def resting(self) -> int:
        """How many threads are known that wait for another attempt, or did."""
        return len(self._due)

    async def is_due(self, thread: str) -> bool:
        """Return whether a thread may be tried now."""
        if not (rows := await self._rows(thread)):
            self._due.pop(thread, None)
            return True
        attempts = max(row.attempts for row in rows)
        known, due = self._due.get(thread, (0, 0.0))
        if attempts != known:
            # Counted from now, and not from a time that another machine wrote.
            due = time.monotonic() + _delay(attempts)
            self._due[thread] = attempts, due
        return time.monotonic() >= due

    async def count(
        self, commit: Commit, thread: str, key: str, why: str, *, before: int = 0
    ) -> int:
        """Count one more attempt at the turn `key`; return how many there were with it.

        `before` the first that is counted there may have been others.
        """
        rows = {row.key: row for row in await self._rows(thread)}
        former = tuple(row.number for row in rows.values() if row.key != key)
        if key not in rows or former:
            body = Raw(json_bytes(_Counted(key, before)))
            await commit(
                Change(outbox=(OutboxDraft(topic=_TOPIC, key=key, body=body),), settle=former)
            )
            rows = {row.key: row for row in await self._rows(thread)}
        if key not in rows:
            raise LeaseLost(thread)  # somebody ended the turn between the two
        row = rows[key]
        await self._store.retry(row.number, why)
        return row.attempts + 1 + decode_json(bytes(row.body), _Counted).before

    async def forget(self, commit: Commit, thread: str) -> None:
        """Forget the attempts at the turns of a thread: one has ended, or was handed back."""
        if rows := await self._rows(thread):
            await commit(Change(settle=tuple(row.number for row in rows)))
        self._due.pop(thread, None)

    async def give_up(self, commit: Commit, thread: str, waiting: Waiting, why: str) -> None:
        """End a turn as failed, with the reason in its log; its input is there, too."""
        rows = tuple(row.number for row in await self._rows(thread))
        info = await self._store.info(thread)
        told = Notice("error", f"the turn was given up after {self.most} attempts: {why}")
        if (turn := waiting.turn) is not None:
            end = TurnEnd(number=turn.number, state="failed", outcome=_outcome(why))
            entry = control_draft(told, turn=turn.number, step=0)
            await commit(Change(entries=(entry,), end=end, settle=rows))
            return
        message = waiting.message
        assert message is not None, "what waits is a turn or a message"
        await commit(
            Change(
                admit=Admission(id=new_id("turn"), input=message.body),
                entries=(
                    inbox_draft(message, await asyncio.to_thread(installed_registry), THIS_TURN, 0),
                    control_draft(told, turn=THIS_TURN, step=0),
                ),
                end=TurnEnd(number=info.turns + 1, state="failed", outcome=_outcome(why)),
                take=(message.number,),
                settle=rows,
            )
        )

    async def newest_error(self, thread: str) -> str:
        """Return why the last attempt failed."""
        errors = [row.error for row in await self._rows(thread) if row.error]
        return errors[-1] if errors else "nobody knows why"

    async def _rows(self, thread: str) -> list[OutboxRow]:
        return await self._store.outbox(thread=thread, topic=_TOPIC)


class _GivenUp(Struct, frozen=True):
    """The outcome of a turn that was given up."""

    error: str


def _outcome(why: str) -> Raw:
    return Raw(json_bytes(_GivenUp(why)))


def _delay(attempts: int) -> float:
    longest = min(_LONGEST, _SHORTEST * float(2 ** min(attempts - 1, 10)))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads workers, hides nothing
