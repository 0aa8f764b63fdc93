"""Sent bodies: what a provider is told beside what it caches.

Owns where cache marks stand: behind the instructions, behind the first context, where the
request before ended, and behind the newest item. A provider that looks back from a mark over
a few blocks only finds what it cached, however much a step added. Owns, too, which found tools
are defined for an API that keeps them outside the prefix. Invariant: these two are the only
difference between the bytes that are sent and those that the ledger compares.
"""

from __future__ import annotations

from ..core.capability import offers
from ..core.entries import Head
from ..models.contract import DefersTools
from ..models.formats import format_named
from .recipe import first_context
from .request import HEAD_SEGMENTS, Request

__all__ = ["sent_body"]

_SEARCH = b'"type":"tool_search"'


def sent_body(request: Request, head: Head) -> bytes:
    """Return the bytes of a request that was made under `head` as they are sent."""
    format_ = format_named(head.api)
    body = format_.with_cache_marks(request.body, _cacheable(request), head)
    if offers(format_, DefersTools) and any(_SEARCH in bytes(tool) for tool in head.tools):
        from ..models.formats.deferral import found_definitions

        calls = (row for row in request.rows if row.shape.type.startswith("function_call"))
        found = found_definitions((row.item for row in calls), head)
        # No mark stands before the place where they come in.
        return format_.with_found_tools(body, request.ends, found) if found else body
    return body


def _cacheable(request: Request) -> tuple[int, ...]:
    """The ends of what later requests will have in common with this one."""
    opening = HEAD_SEGMENTS + len(first_context(request.rows))
    return (
        request.ends[HEAD_SEGMENTS - 1],
        request.ends[opening - 1],
        *_previous_end(request),
        request.ends[-1],
    )


def _previous_end(request: Request) -> tuple[int, ...]:
    """Where the request before ended: it had all but the newest answer and what follows it."""
    rows, at = request.rows, len(request.rows)
    while at and rows[at - 1].origin is None:
        at -= 1
    while at and rows[at - 1].origin is not None:
        at -= 1
    return request.ends[HEAD_SEGMENTS + at - 1 : HEAD_SEGMENTS + at] if at else ()
