"""Served resources: threads as pages, and their ledgers.

Owns their addresses. Invariant: a resource is never longer than `LONGEST`; what is cut is told.
"""

from __future__ import annotations

from mcp.shared.exceptions import MCPError

from mcp import types

from ..core.errors import NotFound, TreadleError
from ..core.redact import blank_json, redact, redact_known
from ..core.wire import json_bytes
from .agent_home import AgentHome, ThreadSummary
from .callers import Context, caller_of

__all__ = ["LONGEST", "ServedResources"]

LONGEST = 1 << 20
"""Characters of a page."""

_PAGE = 50
_THREAD, _LEDGER = "thread://", "ledger://"
_OLD_NOT_FOUND = -32002
_TEMPLATES = (
    (_THREAD, "A thread", "A conversation, as a Markdown page.", "text/markdown"),
    (
        _LEDGER,
        "A ledger",
        "Every request of a thread: its size, what a cache could reuse, why the prefix changed.",
        "application/json",
    ),
)


class ServedResources:
    """Lists and reads resources."""

    def __init__(self, home: AgentHome) -> None:
        self._home = home

    async def list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List threads and their ledgers, the newest first."""
        del ctx
        cursor = params.cursor if params else None
        if cursor is not None and not (cursor.isdecimal() and len(cursor) < 10):
            raise MCPError(types.INVALID_PARAMS, "the cursor is not one of this server")
        skip = int(cursor or 0)
        found = await self._home.threads(_PAGE, skip)
        return types.ListResourcesResult(
            resources=[each for info in found.threads for each in _resources(info)],
            next_cursor=str(skip + _PAGE) if found.more else None,
        )

    async def templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the forms of addresses."""
        del ctx, params
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=f"{scheme}{{id}}", name=name, description=told, mime_type=kind
                )
                for scheme, name, told, kind in _TEMPLATES
            ]
        )

    async def read(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return the page of a thread, or its ledger as JSON."""
        try:
            text, kind = await self._text(params.uri)
        except NotFound as error:
            code = types.INVALID_PARAMS if caller_of(ctx).modern else _OLD_NOT_FOUND
            raise MCPError(code, redact(str(error)), {"uri": params.uri}) from None
        except TreadleError as error:
            raise MCPError(types.INTERNAL_ERROR, redact(str(error))) from None
        contents = types.TextResourceContents(uri=params.uri, mime_type=kind, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def _text(self, uri: str) -> tuple[str, str]:
        for scheme, _, _, kind in _TEMPLATES:
            if uri.startswith(scheme) and (name := uri.removeprefix(scheme)):
                if scheme == _LEDGER:
                    ledger = await self._home.ledger(name)
                    return blank_json(json_bytes(ledger)).decode(), kind
                return _cut(redact_known(await self._home.page(name))), kind
        raise NotFound("resource", uri, "thread://ID is a thread, ledger://ID its ledger")


def _resources(info: ThreadSummary) -> tuple[types.Resource, ...]:
    name = redact_known(info.name) or info.id
    return (
        types.Resource(
            uri=f"{_THREAD}{info.id}",
            name=name,
            description=f"{info.turns} turns in {redact_known(info.cwd)}",
            mime_type="text/markdown",
        ),
        types.Resource(
            uri=f"{_LEDGER}{info.id}", name=f"Ledger of {name}", mime_type="application/json"
        ),
    )


def _cut(page: str) -> str:
    if len(page) <= LONGEST:
        return page
    return f"{page[:LONGEST]}\n\n… {len(page) - LONGEST:,} characters more; `show` has the newest"
