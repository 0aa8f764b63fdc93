"""Callers: what the client behind a request can do.

Owns how that is read, which differs between the two eras of the protocol. Invariant: nothing
is remembered from one request to the next.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct

__all__ = ["TASKS", "Caller", "Context", "caller_of"]

TASKS = "io.modelcontextprotocol/tasks"
"""The extension by which a call goes on after its answer."""

Context: TypeAlias = ServerRequestContext[Any, Any]
"""What the SDK hands to a handler."""


class Caller(Struct, frozen=True):
    """What a client can do."""

    modern: bool
    """Whether it speaks the protocol without a handshake."""
    asks_users: bool
    """Whether it can show a form to somebody."""
    takes_tasks: bool


def caller_of(ctx: Context) -> Caller:
    """Return what the client of a request can do."""
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    told = ctx.session.client_capabilities
    forms = told.elicitation if told else None
    shows = forms is not None and (forms.form is not None or forms.url is None)
    reaches = modern or ctx.session.can_send_request
    extensions = (told.extensions if told else None) or {}
    return Caller(
        modern=modern, asks_users=shows and reaches, takes_tasks=modern and TASKS in extensions
    )
