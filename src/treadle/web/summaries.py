"""The summaries of the lossless engine: over the log, and in the view at a request.

Owns where summaries are found: in the library of the engine, and where that was lost in the
log itself. Invariant: the library is read without a trace, and never more than a bounded part.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..context.view import View, load_view
from ..core.errors import NotFound
from ..core.items import Message, text_of
from ..engines.lossless.nodes import SummaryNode
from ..engines.lossless.sqlite_file import APPLICATION_ID, VERSION
from ..prompt.engine_fragments import parse_history
from ..store.contract import Span
from ..store.database import close_on_error, connect
from ..store.looking import look
from .api_answers import page_of
from .entry_views import shown_entry
from .inspected_home import ShownHome
from .request_views import ShownRequests

__all__ = ["ShownSummaries"]

LIBRARY = Path("engines") / "lossless" / "lossless.db"
_MOST_NODES = 1_500
_MOST_COVERED = 200
_node_decoder = msgspec.msgpack.Decoder(SummaryNode)


class ShownSummaries:
    """Tells about the summaries of threads."""

    def __init__(self, home: ShownHome, requests: ShownRequests) -> None:
        self._home, self._requests = home, requests
        self._path = home.path / LIBRARY

    async def over_log(self, thread: str, number: int | None) -> dict[str, Any]:
        """Return the newest summaries over the log, and which a request showed."""
        info = await self._home.thread(thread)
        lineage = await self._home.store.lineage(info.id)
        nodes, more = await self._nodes(lineage)
        view = await self._view(info.id, number)
        shown = {row.node.id: row.node for row in view.rows if row.node is not None}
        known = {node.id for node in nodes}
        listed = [_node_json(node, in_view=node.id in shown) for node in nodes]
        listed += [
            # The library was lost: the view names them, and the log has their texts.
            {
                "id": node.id,
                "depth": 0,
                "first": node.first,
                "last": node.last,
                "tokens": node.tokens,
                "in_view": True,
                "children": [],
                "degraded": False,
                "source_tokens": None,
            }
            for node in shown.values()
            if node.id not in known
        ]
        return {
            "nodes": sorted(listed, key=lambda each: (each["first"], each["depth"])),
            "entries": {"first": 1, "last": info.last},
            "request": number,
            "more": more,
        }

    async def node(self, thread: str, name: str) -> dict[str, Any]:
        """Return a summary with its text and the entries that it covers."""
        info = await self._home.thread(thread)
        lineage = await self._home.store.lineage(info.id)
        found = await asyncio.to_thread(look, self._path, _open, partial(_find, name=name))
        if found is None or not _is_within(found, lineage):
            found = await self._from_view(info.id, name)
        spans = found.spans or ((found.first, found.last),)
        entries = await self._read_covered(info.id, spans)
        text = page_of(found.text, 0)
        return {
            **_node_json(found, in_view=None),
            "text": text.text,
            "cut": text.next is not None,
            "missing": list(found.missing),
            "spans": [list(span) for span in spans],
            "model": found.model or None,
            "entries": entries[:_MOST_COVERED],
            "more": len(entries) > _MOST_COVERED,
        }

    async def _nodes(self, lineage: Sequence[Span]) -> tuple[list[SummaryNode], bool]:
        nodes: list[SummaryNode] = []
        for span in reversed(lineage):
            room = _MOST_NODES + 1 - len(nodes)
            query = partial(_of_span, span=span, most=room)
            nodes += await asyncio.to_thread(look, self._path, _open, query)
        return nodes[:_MOST_NODES], len(nodes) > _MOST_NODES

    async def _view(self, thread: str, number: int | None) -> View:
        if number is not None:
            return (await self._requests.render(thread, number)).view
        return await load_view(self._home.store, thread, await self._home.registry())

    async def _from_view(self, thread: str, name: str) -> SummaryNode:
        """Return a summary as far as the present view tells it."""
        view = await self._view(thread, None)
        for row in view.rows:
            if row.node is None or row.node.id != name:
                continue
            item = row.item
            told = parse_history(text_of(item.content) if isinstance(item, Message) else "")
            return SummaryNode(
                id=name,
                key="",
                thread=thread,
                first=row.node.first,
                last=row.node.last,
                depth=told.depth,
                text=told.text,
                body=row.body,
                tokens=row.node.tokens,
                degraded=told.degraded,
            )
        raise NotFound("summary", name, "`/summaries` lists those that there are")

    async def _read_covered(
        self, thread: str, spans: Sequence[tuple[int, int]]
    ) -> list[dict[str, Any]]:
        """Return the entries of a summary; one more than are shown, where there are more."""
        found: list[dict[str, Any]] = []
        for first, last in spans:
            room = _MOST_COVERED + 1 - len(found)
            if room <= 0:
                break
            for entry in await self._home.store.read(thread, first, last, limit=room):
                view = shown_entry(entry, visible=True)["view"]
                words = " ".join(view["text"].split())[:160]
                found.append(
                    {
                        "seq": entry.seq,
                        "kind": view["kind"],
                        "title": f"{view['title']}: {words}" if words else view["title"],
                        "tokens": entry.tokens,
                        "time": entry.time,
                    }
                )
        return found


def _node_json(node: SummaryNode, *, in_view: bool | None) -> dict[str, Any]:
    return {
        "id": node.id,
        "depth": node.depth,
        "first": node.first,
        "last": node.last,
        "tokens": node.tokens,
        "source_tokens": node.source_tokens or None,
        "degraded": node.degraded,
        "children": list(node.children),
        "in_view": in_view,
        "time": node.created or None,
        "thread": node.thread,
    }


def _is_within(node: SummaryNode, lineage: Sequence[Span]) -> bool:
    """Return whether a thread has a summary, its own or one of what it shares."""
    return any(each.thread == node.thread and node.last <= each.last for each in lineage)


def _open(path: Path | None, how: str) -> sqlite3.Connection:
    """Open the library; one that is not there has no nodes."""
    if path is not None:
        connection = connect(path, how)
        with close_on_error(connection):
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if (application, version) == (APPLICATION_ID, VERSION):
                return connection
        connection.close()
    empty = sqlite3.connect(":memory:", isolation_level=None)
    empty.execute(
        "CREATE TABLE nodes (id TEXT, thread TEXT, first INTEGER, last INTEGER, node BLOB)"
    )
    return empty


def _of_span(db: sqlite3.Connection, span: Span, most: int) -> list[SummaryNode]:
    rows = db.execute(
        "SELECT node FROM nodes WHERE thread = ? AND last <= ? ORDER BY first DESC LIMIT ?",
        (span.thread, span.last, most),
    )
    return [node for row in rows if (node := _decode(row[0])) is not None]


def _find(db: sqlite3.Connection, name: str) -> SummaryNode | None:
    row = db.execute("SELECT node FROM nodes WHERE id = ?", (name,)).fetchone()
    return None if row is None else _decode(row[0])


def _decode(data: bytes) -> SummaryNode | None:
    try:
        return _node_decoder.decode(data)
    except msgspec.MsgspecError:
        return None  # damaged: `treadle lossless doctor` tells of it
