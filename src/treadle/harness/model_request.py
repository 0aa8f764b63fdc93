"""Asking: from a rendered request to what a model is sent.

Owns the join of the two. Invariant: a preview shows the same bytes, because one function
makes both.
"""

from __future__ import annotations

from ..context.request import Request
from ..context.sent_body import sent_body
from ..core.entries import Head
from ..models.contract import ModelRequest
from .contract import TurnRun

__all__ = ["model_request"]


def model_request(run: TurnRun, request: Request, head: Head | None = None) -> ModelRequest:
    """`request` as the model of `run` is sent it; `head` if it is not the view's own."""
    log = run.log
    head = head or log.view.head
    assert head is not None, "a request was rendered from a view with a head"
    return ModelRequest(head=head, body=sent_body(request, head), thread=log.id, turn=log.turn)
