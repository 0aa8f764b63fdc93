"""A thread as one HTML file, to attach to an issue.

Owns which answers of the API are in the file. Invariants: they are those that the server gives,
so that secrets are taken out at the same place; and a file stays small enough to be sent: of a
very long thread it holds the newest part, and says so.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from .. import __version__
from ..core.errors import TreadleError
from .gate import App, Message, Scope
from .inspector import Inspector
from .inspector_server import web_app
from .page_file import page_file
from .spent import ThreadSpending
from .static_files import read_page

__all__ = ["ExportedPage", "export_page"]

MOST_ENTRIES = 2_000
_PAGE = 500
_MOST_TURNS = 1_000
_MOST_WHOLE = 400
"""Long texts that are in the file whole, the newest first."""
_WHOLE_CHARACTERS = 6 << 20
_MOST_NODES = 200
_MOST_PLANS = 50
_LONGEST_COUNT = 20.0
"""Seconds that a file waits for what its thread and the agents cost."""


class ExportedPage(Struct, frozen=True):
    """A file, and how much of the thread is in it."""

    html: str
    holds: dict[str, int]


async def export_page(inspector: Inspector, thread: str, *, requests: int) -> ExportedPage:
    """Return a page with a thread in it, and with its newest `requests` row by row."""
    collected = _Collected(web_app(inspector), inspector.spending, thread)
    await collected.collect(requests)
    holds = collected.holds
    about = {"version": __version__, "time": int(time.time() * 1000), "thread": thread}
    data = {"export": {**about, "holds": holds}, "answers": collected.answers}
    return ExportedPage(page_file(read_page(), data), holds)


class _Collected:
    """Answers of the API about one thread."""

    def __init__(self, app: App, spending: ThreadSpending, thread: str) -> None:
        self._app, self._spending = app, spending
        self._base = f"/api/threads/{quote(thread)}"
        self.answers: dict[str, Any] = {}
        self.holds: dict[str, int] = {}

    async def collect(self, requests: int) -> None:
        """Ask for all that the page shows of the thread."""
        self.answers["/api/server"] = {
            **await _ask(self._app, "/api/server"),
            "home": "",
            "control": False,
            "pid": 0,
        }
        about = await self._keep("")
        await self._entries()
        await self._turns()
        await self._ledger(requests)
        for path in ("/ledger/overview", "/composition", "/agents"):
            await self._keep(path)
        for point in (await self._keep("/composition/series"))["points"]:
            await self._keep(f"/composition?at={point['request']}")
        for path in ("/ledger/breaks", "/epochs", "/state"):
            found = await self._ask(f"{path}?limit=100")
            self.answers[f"{self._base}{path}"] = {**found, "next": None}
        await self._summaries()
        if turns := about["turns"]:
            await self._keep("/plan")
            for number in range(max(1, turns - _MOST_PLANS), turns):
                await self._keep(f"/plan?turn={number}")
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_COUNT):
                await self._costs()

    async def _costs(self) -> None:
        """Ask again for what is counted beside the requests, when all of it is known."""
        await self._spending.finish()
        await self._keep("")
        await self._keep("/agents")

    async def _entries(self) -> None:
        newest = await self._ask("/entries?limit=1&reverse=1")
        last = newest["last"]
        first = max(last - MOST_ENTRIES + 1, 1) if last else 0
        entries: list[dict[str, Any]] = []
        while last and (not entries or entries[-1]["seq"] < last):
            begin = entries[-1]["seq"] + 1 if entries else first
            page = await self._ask(f"/entries?from={begin}&to={last}&limit={_PAGE}")
            if not page["entries"]:
                break
            entries += page["entries"]
        self.answers[f"{self._base}/entries"] = {"entries": entries, "first": first, "last": last}
        self.holds |= {"entries": len(entries), "first_entry": first, "last_entry": last}
        room = _WHOLE_CHARACTERS
        whole = [each for each in reversed(entries) if each["view"]["cut"]][:_MOST_WHOLE]
        for each in whole:
            found = await self._ask(f"/entries/{each['seq']}")
            room -= len(found["view"]["text"])
            if room < 0:
                break
            self.answers[f"{self._base}/entries/{each['seq']}"] = {**found, "next": None}

    async def _turns(self) -> None:
        turns: list[dict[str, Any]] = []
        page = await self._ask("/turns?limit=100")
        turns += page["turns"]
        while page["next"] and len(turns) < _MOST_TURNS:
            page = await self._ask(f"/turns?limit=100&before={page['next']}")
            turns = page["turns"] + turns
        self.answers[f"{self._base}/turns"] = {"turns": turns, "next": None}
        self.holds["turns"] = len(turns)

    async def _ledger(self, requests: int) -> None:
        rows: list[dict[str, Any]] = []
        found = await self._ask("/ledger?limit=1")
        total = found["total"]
        first = max(total - MOST_ENTRIES + 1, 1)
        while total and (not rows or rows[-1]["number"] < total):
            begin = rows[-1]["number"] + 1 if rows else first
            page = await self._ask(f"/ledger?from={begin}&limit={_PAGE}")
            if not page["requests"]:
                break
            rows += page["requests"]
        self.answers[f"{self._base}/ledger"] = {**found, "requests": rows}
        shown = [row["number"] for row in rows][len(rows) - min(requests, len(rows)) :]
        for number in shown:
            one = f"/requests/{number}"
            await self._keep(one)
            await self._keep(f"{one}/verify")
            if number > 1:
                await self._keep(f"/requests/{number - 1}/diff/{number}")
        if shown:
            await self._whole_request(shown[-1])
        self.holds |= {"requests": len(rows), "whole_requests": len(shown)}

    async def _whole_request(self, number: int) -> None:
        """Keep all texts of the newest request."""
        one = f"/requests/{number}"
        rows = self.answers[f"{self._base}{one}"]["rows"]
        for row in rows:
            page = await self._ask(f"{one}/rows/{row['position']}")
            self.answers[f"{self._base}{one}/rows/{row['position']}"] = {**page, "next": None}
        page = await self._ask(f"{one}/body")
        self.answers[f"{self._base}{one}/body"] = {**page, "next": None}

    async def _summaries(self) -> None:
        found = await self._keep("/summaries")
        for node in found["nodes"][-_MOST_NODES:]:
            await self._keep(f"/summaries/{quote(node['id'])}")

    async def _keep(self, path: str) -> Any:
        found = await self._ask(path)
        self.answers[f"{self._base}{path}"] = found
        return found

    async def _ask(self, path: str) -> Any:
        return await _ask(self._app, f"{self._base}{path}")


async def _ask(app: App, path: str) -> Any:
    """Return what the API answers, without a connection in between."""
    plain, _, query = path.partition("?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": plain,
        "raw_path": plain.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [],
        "client": None,
        "server": None,
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    answer = msgspec.json.decode(b"".join(each.get("body", b"") for each in sent))
    if sent[0]["status"] != 200:
        raise TreadleError(answer["error"]["message"])
    return answer
