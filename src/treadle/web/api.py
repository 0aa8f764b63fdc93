"""The routes of the API that read threads.

Owns their paths and parameters. Invariant: every list is bounded, and no route writes.
"""

from __future__ import annotations

import asyncio
import os

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from .. import __version__
from ..context.visible import hidden_stretches
from ..hosts.turn_figures import FIGURES_TYPE, TurnFigures
from .api_answers import Handler, WrongValue, answers, is_asked, number_of, say
from .entry_images import image_of
from .entry_views import shown_entry, whole_entry
from .home_changes import MOST_READERS
from .inspector import Inspector
from .request_routes import request_handlers
from .server_sent_events import event_stream
from .thread_list import totals_json

__all__ = ["LIMITS", "MOST", "reading_routes"]

MOST = 500
LIMITS = {"list": MOST, "page_characters": 256 << 10, "streams": MOST_READERS}
_MOST_BUCKETS = 1_000
_EXPORTED = 40
"""Requests that an exported file has row by row."""


class _Reading:
    """Answers what is asked about threads."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._home = inspector.home
        self._exporting = asyncio.Lock()

    async def server(self, request: Request) -> Response:
        del request
        return say(
            {
                "version": __version__,
                "home": str(self._home.path),
                "control": self._inspector.control,
                "pid": os.getpid(),
                "limits": LIMITS,
            }
        )

    async def figures(self, request: Request) -> Response:
        del request
        live = self._inspector.live
        figures = TurnFigures() if live is None else live.figures
        return Response(figures.text(), media_type=FIGURES_TYPE)

    async def threads(self, request: Request) -> Response:
        cwd = request.query_params.get("cwd")
        limit = number_of(request, "limit", 50, 1, MOST)
        before = _cursor(request.query_params.get("before"))
        return say(await self._inspector.threads.page(before=before, cwd=cwd, limit=limit))

    async def thread(self, request: Request) -> Response:
        info = await self._home.thread(request.path_params["id"])
        return say(await self._inspector.threads.whole(info))

    async def recall(self, request: Request) -> Response:
        asked = request.query_params
        limit = number_of(request, "limit", 20, 1, 100)
        thread = asked.get("thread") or None
        return say(await self._inspector.recall.search(asked.get("q", ""), thread, limit))

    async def events(self, request: Request) -> Response:
        return await event_stream(request, self._inspector.following)

    async def export(self, request: Request) -> Response:
        from .html_export import export_page

        info = await self._home.thread(request.path_params["id"])
        async with self._exporting:
            page = await export_page(self._inspector, info.id, requests=_EXPORTED)
        name = f'attachment; filename="{info.id}.html"'
        return HTMLResponse(page.html, headers={"content-disposition": name})

    async def entries(self, request: Request) -> Response:
        info = await self._home.thread(request.path_params["id"])
        limit = number_of(request, "limit", 100, 1, MOST)
        reverse = is_asked(request, "reverse")
        first = number_of(request, "from", 1, 1)
        last = min(number_of(request, "to", info.last), info.last)
        found = await self._home.store.read(info.id, first, last, reverse=reverse, limit=limit)
        hidden = await hidden_stretches(self._home.store, info.id)
        shown = [
            shown_entry(entry, visible=not any(a <= entry.seq <= b for a, b in hidden))
            for entry in found
        ]
        await self._inspector.ledger.number_requests(info.id, shown)
        return say({"entries": shown, "first": 1 if info.last else 0, "last": info.last})

    async def entry(self, request: Request) -> Response:
        entry, visible = await self._inspector.entry(
            request.path_params["id"], request.path_params["seq"]
        )
        return say(whole_entry(entry, number_of(request, "offset", 0), visible=visible))

    async def image(self, request: Request) -> Response:
        entry, _ = await self._inspector.entry(
            request.path_params["id"], request.path_params["seq"]
        )
        return image_of(entry, request.path_params["number"])

    async def turns(self, request: Request) -> Response:
        limit = number_of(request, "limit", 50, 1, 100)
        before = number_of(request, "before", 0) or None
        answers = is_asked(request, "answers")
        thread = request.path_params["id"]
        return say(await self._inspector.turns.page(thread, before, limit, answers=answers))

    async def ledger(self, request: Request) -> Response:
        info = await self._home.thread(request.path_params["id"])
        newest = await self._home.index.newest_row(info.id)
        limit = number_of(request, "limit", 200, 1, MOST)
        total = newest.number if newest else 0
        asked_from, asked_to = (number_of(request, name, 0) for name in ("from", "to"))
        last = min(asked_to or (asked_from + limit - 1 if asked_from else total), total)
        first = max(asked_from or last - limit + 1, 1)
        rows = await self._home.index.request_page(info.id, first, min(last, first + limit - 1))
        totals = await self._inspector.threads.totals(info.id, newest)
        return say(
            {
                "thread": info.id,
                "requests": await self._inspector.ledger.rows(info.id, rows),
                "total": total,
                "totals": totals_json(totals),
                "indexed": newest is not None or not info.turns,
            }
        )

    async def overview(self, request: Request) -> Response:
        info = await self._home.thread(request.path_params["id"])
        newest = await self._home.index.newest_row(info.id)
        count = number_of(request, "buckets", 200, 1, _MOST_BUCKETS)
        total = newest.number if newest else 0
        found = await self._home.index.buckets(info.id, 1, total, count) if total else []
        shown = [{"from": each.first, "to": each.last, **totals_json(each)} for each in found]
        return say({"thread": info.id, "buckets": shown, "total": total})

    async def breaks(self, request: Request) -> Response:
        info = await self._home.thread(request.path_params["id"])
        limit = number_of(request, "limit", 20, 1, 100)
        before = number_of(request, "before", 0) or None
        rows = await self._home.index.breaks(info.id, before=before, limit=limit + 1)
        shown = await self._inspector.ledger.apart(info.id, rows[:limit])
        more = rows[limit - 1].number if len(rows) > limit else None
        return say({"thread": info.id, "requests": shown, "next": more})

    async def epochs(self, request: Request) -> Response:
        limit = number_of(request, "limit", 20, 1, 100)
        before = number_of(request, "before", 0) or None
        return say(await self._inspector.epochs.page(request.path_params["id"], before, limit))

    async def state(self, request: Request) -> Response:
        limit = number_of(request, "limit", 50, 1, 200)
        before = number_of(request, "before", 0) or None
        return say(await self._inspector.state.changes(request.path_params["id"], before, limit))

    async def agents(self, request: Request) -> Response:
        return say(await self._inspector.agents.tree(request.path_params["id"]))

    async def plan(self, request: Request) -> Response:
        turn = number_of(request, "turn", 0) or None
        return say(await self._inspector.plan(request.path_params["id"], turn))

    async def compare(self, request: Request) -> Response:
        found = self._inspector.comparisons.compare(
            request.path_params["id"], request.path_params["other"]
        )
        return say(await found)


def _cursor(text: str | None) -> tuple[int, str] | None:
    """Return where a page of threads goes on."""
    if not text:
        return None
    time, _, thread = text.partition("-")
    if not time.isdigit() or len(time) > 16:
        raise WrongValue(f"before must be what `next` said, not {text[:40]!r}")
    return int(time), thread


def reading_routes(inspector: Inspector) -> list[Route]:
    """Return the routes that read."""
    reading = _Reading(inspector)
    thread = "/api/threads/{id}"
    table: dict[str, Handler] = {
        "/api/server": reading.server,
        "/metrics": reading.figures,
        "/api/recall": reading.recall,
        "/api/events": reading.events,
        "/api/threads": reading.threads,
        thread: reading.thread,
        f"{thread}/export": reading.export,
        f"{thread}/entries": reading.entries,
        f"{thread}/entries/{{seq:int}}": reading.entry,
        f"{thread}/entries/{{seq:int}}/images/{{number:int}}": reading.image,
        f"{thread}/turns": reading.turns,
        f"{thread}/ledger": reading.ledger,
        f"{thread}/ledger/overview": reading.overview,
        f"{thread}/ledger/breaks": reading.breaks,
        f"{thread}/epochs": reading.epochs,
        f"{thread}/state": reading.state,
        f"{thread}/agents": reading.agents,
        f"{thread}/plan": reading.plan,
        f"{thread}/compare/{{other}}": reading.compare,
        **request_handlers(inspector),
    }
    return [Route(path, answers(handler), methods=["GET"]) for path, handler in table.items()]
