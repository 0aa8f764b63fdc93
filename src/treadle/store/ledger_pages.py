"""Queries of the ledger for a page.

Owns the SELECTs behind `PagesRequests`. Invariant: each uses the key of its table; only sums
over all requests of a thread, and the search for breaks, read more than they return.
"""

from __future__ import annotations

from .contract import LedgerRow
from .index_tables import COLUMNS, find_thread_number, ledger_row
from .log_database import LogDatabase
from .pages import LedgerBucket, LedgerTotals

__all__ = [
    "find_breaks",
    "first_sent",
    "page_requests",
    "request_after",
    "sum_buckets",
    "sum_requests",
]

_SUMS = (
    "count(*), coalesce(sum(size), 0), coalesce(sum(shared_size), 0), count(difference), "
    "coalesce(sum(unexplained), 0), sum(input_tokens), sum(cached_tokens)"
)
_SUMMED = LedgerTotals.__struct_fields__


def page_requests(connection: LogDatabase, thread: str, first: int, last: int) -> list[LedgerRow]:
    """Return the requests with the numbers `first` to `last`."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM requests WHERE thread = ? AND number BETWEEN ? AND ? "
        "ORDER BY number",
        (find_thread_number(connection, thread), first, last),
    )
    return [ledger_row(row, thread) for row in rows]


def request_after(connection: LogDatabase, thread: str, seq: int) -> LedgerRow | None:
    """Return the first request that was noted after the entry `seq`.

    Numbers and entries grow together, so that halving finds it by the key.
    """
    number = find_thread_number(connection, thread)
    (high,) = connection.execute(
        "SELECT coalesce(max(number), 0) + 1 FROM requests WHERE thread = ?", (number,)
    ).fetchone()
    low, end = 1, high
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(
            "SELECT seq FROM requests WHERE thread = ? AND number = ?", (number, middle)
        ).fetchone()
        if row is None or row[0] <= seq:
            low = middle + 1
        else:
            high = middle
    found = page_requests(connection, thread, low, low) if low < end else []
    return found[0] if found else None


def find_breaks(
    connection: LogDatabase, thread: str, before: int | None, limit: int
) -> list[LedgerRow]:
    """Return the newest requests below `before` whose prefix differs, newest first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM requests WHERE thread = ? AND number < ? "
        "AND difference IS NOT NULL ORDER BY number DESC LIMIT ?",
        (find_thread_number(connection, thread), (1 << 62) if before is None else before, limit),
    )
    return [ledger_row(row, thread) for row in rows]


def sum_requests(connection: LogDatabase, thread: str, after: int) -> LedgerTotals:
    """Return the sums over the requests with a number above `after`."""
    row = connection.execute(
        f"SELECT {_SUMS} FROM requests WHERE thread = ? AND number > ?",
        (find_thread_number(connection, thread), after),
    ).fetchone()
    return LedgerTotals(**dict(zip(_SUMMED, row, strict=True)))


def sum_buckets(
    connection: LogDatabase, thread: str, first: int, last: int, count: int
) -> list[LedgerBucket]:
    """Return the sums over `count` stretches of about the same length."""
    width = max(-(-(last - first + 1) // count), 1)
    rows = connection.execute(
        f"SELECT min(number), max(number), {_SUMS} FROM requests "
        "WHERE thread = :thread AND number BETWEEN :first AND :last "
        "GROUP BY (number - :first) / :width ORDER BY 1",
        {
            "thread": find_thread_number(connection, thread),
            "first": first,
            "last": last,
            "width": width,
        },
    )
    return [
        LedgerBucket(first=row[0], last=row[1], **dict(zip(_SUMMED, row[2:], strict=True)))
        for row in rows
    ]


def first_sent(connection: LogDatabase, thread: str, number: int) -> list[int]:
    """Return since which request each segment of a request stands where it stands."""
    known = find_thread_number(connection, thread)
    row = connection.execute(
        "SELECT segments FROM requests WHERE thread = ? AND number = ?", (known, number)
    ).fetchone()
    if row is None:
        return []
    rows = connection.execute(
        "SELECT max(generation) FROM segments WHERE thread = ? AND position < ? "
        "AND generation <= ? GROUP BY position ORDER BY position",
        (known, row[0], number),
    )
    return [each for (each,) in rows]
