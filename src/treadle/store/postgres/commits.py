"""Commits: a change to a thread, and what became of it.

Owns the way of a change to the server. It is sent in one go, on the assumption that the row is as
the holder left it; where it is not, the row is read and the change is written step by step.
Invariant: a commit whose answer was lost is never repeated before the server has said, and made
sure, that the first one is not there and cannot come any more.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import LeaseLost, NotFound, OutcomeUnknown, StoreError, StoreReplaced
from ..contract import Change, ChangeResult
from ..log_database import FoundRows
from ..queries import find_turn, read_entries
from ..updates import apply_change
from .connections import Connections, Patience
from .database_connection import PostgresConnection, is_lost
from .database_server import MILLISECONDS, ServerClock
from .driver import psycopg
from .leases import KnownThread, PostgresLease
from .server_errors import translate_error
from .thread_rows import PostgresThreadRows, assume_log, read_log

__all__ = ["Commits"]

_MAIL = f"""
  SELECT EXISTS (SELECT 1 FROM inbox WHERE thread = ? AND taken IS NULL), {MILLISECONDS}
"""
_SHUT_OUT = """
  UPDATE threads SET fence = fence + 1 WHERE number = ? AND token = ? AND deleted IS NULL
  RETURNING fence, commits
"""
_WRONG_ASSUMPTION = (
    psycopg.errors.DivisionByZero,
    psycopg.errors.UniqueViolation,
    psycopg.errors.PipelineAborted,
)
_CLASH = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.ForeignKeyViolation,
    psycopg.errors.LockNotAvailable,
)


class _Attempt(Struct):
    """A change on its way, and how far it got."""

    lease: PostgresLease
    change: Change
    now: int
    log: PostgresThreadRows | None = None
    result: ChangeResult | None = None
    was_told: bool = False
    """Whether the server may have been told to commit."""


class Commits:
    """Applies the changes of a store's leases. Its methods block."""

    def __init__(self, connections: Connections, clock: ServerClock) -> None:
        self._connections = connections
        self._clock = clock
        self._numbers: dict[str, int] = {}
        """The numbers of origins that were committed."""

    def apply(self, lease: PostgresLease, change: Change, now: int) -> ChangeResult:
        """Apply a change; return when it is as durable as it asks for."""
        if lease.is_lost:
            raise LeaseLost(lease.thread)
        patience = self._connections.patience()
        try:
            while True:
                attempt = _Attempt(lease, change, now)
                with self._connections.lend(patience) as connection:
                    try:
                        return self._try(connection, attempt)
                    except psycopg.Error as error:
                        lost = is_lost(error)
                        assumed, lease.known = lease.known is not None, None
                        # The driver may think that it has prepared what was not run.
                        connection.close()
                        if not (lost or _may_help(error, assumed=assumed)):
                            raise translate_error(error, self._connections.address) from error
                if lost and attempt.was_told:
                    landed = self._find_out(attempt, patience)
                    if landed is not None:
                        return landed
        except (LeaseLost, OutcomeUnknown, StoreReplaced):
            lease.is_lost = True
            raise

    def _try(self, connection: PostgresConnection, attempt: _Attempt) -> ChangeResult:
        known = None if attempt.change.past else attempt.lease.known
        with nullcontext() if known is None else connection.pipeline():
            asked = self._send(connection, attempt, known)
        mail, told = asked.fetchone()
        self._clock.sync(told)
        return self._note(attempt, mail=mail)

    def _send(
        self, connection: PostgresConnection, attempt: _Attempt, known: KnownThread | None
    ) -> FoundRows:
        """Send all of a change, from BEGIN to COMMIT; return the question that was asked last."""
        lease, change = attempt.lease, attempt.change
        connection.execute("BEGIN")
        self._connections.set_durability(connection, light=change.light)
        if known is None:
            attempt.log = log = read_log(connection, lease, attempt.now)
        else:
            attempt.log = log = assume_log(connection, lease, known, attempt.now)
        log.numbers = self._numbers
        attempt.result = apply_change(log, change)
        asked = connection.execute(_MAIL, (lease.number,))
        attempt.was_told = True
        connection.execute("COMMIT")
        return asked

    def _note(self, attempt: _Attempt, *, mail: bool) -> ChangeResult:
        """Remember what was committed; return what the caller is told."""
        lease, log, result = attempt.lease, attempt.log, attempt.result
        assert log is not None, "it was sent"
        assert result is not None, "it was sent"
        self._numbers.update(log.origins.values())
        lease.commits = log.known.commits
        if not result.repeated:
            lease.commits += 1
        lease.known = KnownThread(
            last=log.last,
            turns=log.turns,
            updated=log.known.updated if result.repeated else log.newest or log.now,
            commits=lease.commits,
            is_root=log.known.is_root,
            newest=log.newest,
        )
        return replace(result, mail=True) if mail else result

    def _find_out(self, attempt: _Attempt, patience: Patience) -> ChangeResult | None:
        """Return the result of a commit whose answer was lost; None where it is not there.

        Raising the fence waits for a transaction of ours that still runs, and shuts out one that
        the server has not begun.
        """
        while True:
            try:
                with self._connections.lend(patience) as connection:
                    return self._connections.transact(
                        connection, lambda db: self._look(db, attempt)
                    )
            except psycopg.Error as error:
                momentary = is_lost(error) or isinstance(error, _CLASH)
                if not momentary or not patience.wait():
                    raise self._unknown(attempt, error) from error
            except StoreError as error:
                raise self._unknown(attempt, error) from error

    def _look(self, connection: PostgresConnection, attempt: _Attempt) -> ChangeResult | None:
        lease, log, result = attempt.lease, attempt.log, attempt.result
        assert log is not None, "it was sent"
        assert result is not None, "it was sent"
        connection.execute("SELECT set_config('lock_timeout', '5000', true)")
        row = connection.execute(_SHUT_OUT, (lease.number, lease.token)).fetchone()
        if row is not None:
            lease.fence, commits = row
            if result.repeated or commits <= log.known.commits:
                return None
        else:
            _ensure_there(connection, log, result, attempt.change)
        mail, told = connection.execute(_MAIL, (lease.number,)).fetchone()
        self._clock.sync(told)
        return self._note(attempt, mail=mail)

    def _unknown(self, attempt: _Attempt, error: Exception) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"{self._connections.address.shown!r} was lost while it committed a change of thread "
            f"{attempt.lease.thread!r}, and could not be asked since ({error}); the change is "
            "there whole, or not at all: open the thread again and read"
        )


def _may_help(error: psycopg.Error, *, assumed: bool) -> bool:
    """Return whether to try again, after reading the row where it was assumed."""
    return isinstance(error, _CLASH) or (assumed and isinstance(error, _WRONG_ASSUMPTION))


def _ensure_there(
    connection: PostgresConnection, log: PostgresThreadRows, result: ChangeResult, change: Change
) -> None:
    """Raise `LeaseLost` unless a change is in a log that somebody else has taken over."""
    ids = [turn.id for turn in change.past]
    ids += [result.turn.id] if result.turn is not None else []
    there = False
    with suppress(NotFound):
        if result.repeated:
            there = False
        elif ids:
            known = "SELECT 1 FROM turns WHERE thread = ? AND turn = ?"
            there = connection.execute(known, (log.number, ids[-1])).fetchone() is not None
        elif result.entries:
            newest = result.entries[-1]
            there = newest in read_entries(connection, log.thread, [(newest.seq, newest.seq)])
        elif change.end is not None:
            turn = find_turn(connection, log.thread, change.end.number)
            there = turn == log.as_ended(turn, change.end)
        else:
            raise OutcomeUnknown(
                f"thread {log.thread!r} was taken over while a change was committed that leaves no "
                "trace of its own; open the thread again and read"
            )
    if not there:
        raise LeaseLost(log.thread)
