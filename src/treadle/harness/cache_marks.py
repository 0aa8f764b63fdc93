"""Asking: from the bytes of a view to what a model is sent.

Owns where cache marks stand: behind the instructions, behind the first context, and
behind the newest item. Invariant: marks are the only difference to the bytes that the
ledger compares.
"""

from __future__ import annotations

from ..context.recipe import first_context
from ..context.request import HEAD_SEGMENTS, Request
from ..core.entries import Head
from ..models.contract import ModelRequest
from .contract import TurnRun

__all__ = ["model_request"]


def model_request(run: TurnRun, request: Request, head: Head | None = None) -> ModelRequest:
    """`request` as the model of `run` is sent it; `head` if it is not the view's own."""
    log = run.log
    head = head or log.view.head
    assert head is not None, "a request was rendered from a view with a head"
    return ModelRequest(
        head=head,
        body=run.model.format.with_cache_marks(request.body, _cacheable(run, request)),
        thread=log.id,
        turn=log.turn,
    )


def _cacheable(run: TurnRun, request: Request) -> tuple[int, ...]:
    """The ends of what later requests will have in common with this one."""
    opening = {row.seq for row in first_context(run.log.view.rows)}
    # They are the first items, so that the rest need not be looked at.
    first = slice(HEAD_SEGMENTS, HEAD_SEGMENTS + len(opening))
    shown = zip(request.segments[first], request.ends[first], strict=True)
    told = [end for part, end in shown if part.seq in opening]
    return (request.ends[HEAD_SEGMENTS - 1], *told[-1:], request.ends[-1])
