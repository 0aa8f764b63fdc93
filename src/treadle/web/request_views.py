"""Requests as the inspector shows them: rendered again from the log, row by row.

Owns the way from a request of the ledger to its bytes. Invariant: what is shown was rendered
from the log and from nothing else, so that its digest can be compared with what was sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from ..context.recipe import first_context
from ..context.request import HEAD_SEGMENTS, Renderer, Request
from ..context.row import Row
from ..context.sent_body import sent_body
from ..context.tokens import estimate_item
from ..context.view import View, load_view
from ..core.entries import Head, RequestMark
from ..core.errors import NotFound
from ..core.items import FunctionCallOutput, Item, Message, Reasoning, item_type
from ..core.redact import redact
from ..core.text import approx_tokens
from ..store.contract import LedgerRow
from .api_answers import TextPage, cut_page
from .entry_views import item_text
from .inspected_home import Remembered, ShownHome

__all__ = ["Rendered", "ShownRequests", "row_label", "row_role", "row_text"]

_SEEN = 320
"""Characters of a row that a list of rows shows."""


class Rendered(Struct):
    """A request, rendered again."""

    row: LedgerRow
    mark: RequestMark
    view: View
    head: Head
    request: Request
    texts: dict[str, str] = field(default_factory=dict)
    """Long texts of it, without secrets, which are read a page at a time."""

    def piece(self, position: int) -> bytes:
        """Return the bytes of one segment."""
        ends = self.request.ends
        return self.request.body[ends[position - 1] if position else 0 : ends[position]]

    def item_row(self, position: int) -> Row | None:
        """Return the row that a segment shows; None for the head."""
        at = position - HEAD_SEGMENTS
        return self.request.rows[at] if at >= 0 else None


class ShownRequests:
    """Tells about single requests of threads."""

    def __init__(self, home: ShownHome) -> None:
        self._home = home
        self._rendered: Remembered[tuple[str, str], Rendered] = Remembered(4)

    async def render(self, thread: str, number: int) -> Rendered:
        """Render a request again. Raises `NotFound`."""
        row = await self._home.request(thread, number)
        key = thread, f"{row.seq} {row.digest}"
        if (known := self._rendered.get(key)) is not None:
            return known
        (entry,) = await self._home.store.read(thread, row.seq, row.seq)
        mark = entry.control
        if not isinstance(mark, RequestMark):
            raise NotFound("request", number, "`treadle cache --rebuild` makes the ledger anew")
        registry = await self._home.registry()
        view = await load_view(self._home.store, thread, registry, upto=mark.upto)
        request = await asyncio.to_thread(Renderer().render, view)
        assert view.head is not None, "a view without a head cannot be rendered"
        return self._rendered.put(key, Rendered(row, mark, view, view.head, request))

    async def rows(self, thread: str, number: int) -> list[dict[str, Any]]:
        """Return the rows of a request, in the order in which the model read them."""
        rendered = await self.render(thread, number)
        since = await self._home.index.first_sent(thread, number)
        return await asyncio.to_thread(_rows, rendered, since)

    async def row_page(self, thread: str, number: int, position: int, offset: int) -> TextPage:
        """Return a page of what one row says."""
        rendered = await self.render(thread, number)
        if position >= len(rendered.request.segments):
            raise NotFound(
                "row", position, f"the request has rows 0 to {len(rendered.request.segments) - 1}"
            )
        return await _page(
            rendered, f"row {position}", lambda: row_text(rendered, position), offset
        )

    async def body_page(self, thread: str, number: int, offset: int, *, raw: bool) -> TextPage:
        """Return a page of the body as it was sent: with line breaks, or to the byte."""
        rendered = await self.render(thread, number)

        def body() -> str:
            text = sent_body(rendered.request, rendered.head).decode(errors="replace")
            return text if raw else json.dumps(json.loads(text), indent=2, ensure_ascii=False)

        return await _page(rendered, "raw" if raw else "body", body, offset)

    async def verify(self, thread: str, number: int) -> dict[str, object]:
        """Render a request again, and compare its digest with what the log says was sent."""
        rendered = await self.render(thread, number)
        return {
            "same": rendered.request.digest == rendered.mark.digest,
            "digest": rendered.mark.digest,
            "rendered": rendered.request.digest,
            "size": rendered.mark.size,
            "rendered_size": len(rendered.request.body),
        }


async def _page(rendered: Rendered, name: str, read: Callable[[], str], offset: int) -> TextPage:
    if name not in rendered.texts:
        rendered.texts.clear()  # whoever reads on reads the same text
        rendered.texts[name] = await asyncio.to_thread(lambda: redact(read()))
    return cut_page(rendered.texts[name], offset)


def _rows(rendered: Rendered, since: list[int]) -> list[dict[str, Any]]:
    opening = len(first_context(rendered.request.rows))
    shown = []
    for position, segment in enumerate(rendered.request.segments):
        row = rendered.item_row(position)
        text = row_text(rendered, position)
        seen = redact(text[: 4 * _SEEN])[:_SEEN]
        shown.append(
            {
                "position": position,
                "kind": "head" if row is None else row.shape.type or "message",
                "role": segment.kind if row is None else row_role(row),
                "label": row_label(rendered, position),
                "part": segment.kind if row is None else _part(row, position, opening),
                "fragments": [] if row is None else [mark.id for mark in row.fragments],
                "tokens": _tokens(row, segment.size),
                "bytes": segment.size,
                "seq": None if row is None else row.seq,
                "node": None if row is None or row.node is None else row.node.id,
                "first_request": since[position] if position < len(since) else None,
                "shared": position < rendered.row.shared_segments,
                "text": seen,
                "cut": len(text) > len(seen),
                "chars": len(text),
            }
        )
    return shown


def _part(row: Row, position: int, opening: int) -> str:
    if row.summary:
        return "summary"
    if position < HEAD_SEGMENTS + opening:
        return "context"
    return "difference" if row.contextual else "entry"


def _tokens(row: Row | None, size: int) -> int:
    if row is None:
        return approx_tokens(size)
    return row.tokens or estimate_item(row.item, len(row.body))


def row_role(row: Row) -> str:
    """Return who said a row, or what sort of row it is."""
    names = {
        "reasoning": "reasoning",
        "function_call": "call",
        "custom_tool_call": "call",
        "local_shell_call": "call",
        "function_call_output": "output",
        "custom_tool_call_output": "output",
    }
    return row.shape.role or names.get(row.shape.type) or row.shape.type or "message"


def row_label(rendered: Rendered, position: int) -> str:
    """Return what a row is called; empty where its text says it best."""
    row = rendered.item_row(position)
    if row is None:
        kind = rendered.request.segments[position].kind
        count = len(rendered.head.tools)
        names = {
            "params": f"{rendered.head.provider}:{rendered.head.model}",
            "tools": f"{count} tool" if count == 1 else f"{count} tools",
        }
        return names.get(kind, kind)
    if row.fragments:
        return row.fragments[0].id
    return _item_label(row.item, rendered, row)


def _item_label(item: Item, rendered: Rendered, row: Row) -> str:
    match item:
        case Message() | Reasoning():
            return "summary" if row.summary else ""
        case _ if row.shape.type.endswith("_output"):
            return _called_name(rendered, row) or "result"
        case _:
            return getattr(item, "name", None) or item_type(item) or ""


def _called_name(rendered: Rendered, row: Row) -> str:
    """Return the name of the call that a row answers."""
    item = row.item
    if isinstance(item, FunctionCallOutput) and item.name:
        return item.name
    wanted = row.shape.call_id
    for each in rendered.request.rows:
        if each.shape.call_id == wanted and each is not row:
            return getattr(each.item, "name", None) or ""
    return ""


def row_text(rendered: Rendered, position: int) -> str:
    """Return what a row says; of the head what its segment stands for."""
    row = rendered.item_row(position)
    if row is not None:
        return item_text(row.item, row.body) or rendered.piece(position).decode(errors="replace")
    kind = rendered.request.segments[position].kind
    if kind == "instructions" and rendered.head.instructions:
        return rendered.head.instructions
    if kind == "tools" and rendered.head.tools:
        tools = [json.loads(bytes(tool)) for tool in rendered.head.tools]
        return json.dumps(tools, indent=2, ensure_ascii=False)
    return rendered.piece(position).decode(errors="replace").strip(", \n")
