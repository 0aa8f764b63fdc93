"""The routes of the API that read single requests, windows and summaries.

Owns their paths and parameters. Invariant: what they cost depends on the view of one request,
not on how long its thread is.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from .api_answers import Handler, is_asked, number_of, say
from .inspector import Inspector

__all__ = ["request_handlers"]

_MOST_POINTS = 200


class _Requests:
    """Answers what is asked about requests."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._requests = inspector.requests

    async def one(self, request: Request) -> Response:
        thread, number = await self._find(request)
        rows = await self._requests.rows(thread, number)
        rendered = await self._requests.render(thread, number)
        told = (await self._inspector.ledger.apart(thread, [rendered.row]))[0]
        return say({"request": told, "digest": rendered.mark.digest, "rows": rows})

    async def row(self, request: Request) -> Response:
        thread, number = await self._find(request)
        position = request.path_params["position"]
        offset = number_of(request, "offset", 0)
        return say(await self._requests.row_page(thread, number, position, offset))

    async def body(self, request: Request) -> Response:
        thread, number = await self._find(request)
        raw = is_asked(request, "raw")
        offset = number_of(request, "offset", 0)
        return say(await self._requests.body_page(thread, number, offset, raw=raw))

    async def verify(self, request: Request) -> Response:
        return say(await self._requests.verify(*await self._find(request)))

    async def diff(self, request: Request) -> Response:
        thread, number = await self._find(request)
        other = request.path_params["other"]
        return say(await self._inspector.diffs.compare(thread, number, other))

    async def composition(self, request: Request) -> Response:
        thread = await self._thread(request)
        number = number_of(request, "at", 0) or None
        return say(await self._inspector.windows.at(thread, number))

    async def series(self, request: Request) -> Response:
        thread = await self._thread(request)
        points = number_of(request, "points", 60, 2, _MOST_POINTS)
        return say(await self._inspector.windows.series(thread, points))

    async def summaries(self, request: Request) -> Response:
        thread = await self._thread(request)
        number = number_of(request, "request", 0) or None
        return say(await self._inspector.summaries.over_log(thread, number))

    async def summary(self, request: Request) -> Response:
        thread = await self._thread(request)
        return say(await self._inspector.summaries.node(thread, request.path_params["name"]))

    async def _find(self, request: Request) -> tuple[str, int]:
        return await self._thread(request), request.path_params["number"]

    async def _thread(self, request: Request) -> str:
        return (await self._inspector.home.thread(request.path_params["id"])).id


def request_handlers(inspector: Inspector) -> dict[str, Handler]:
    """Return the handlers by their paths."""
    requests = _Requests(inspector)
    thread = "/api/threads/{id}"
    one = f"{thread}/requests/{{number:int}}"
    return {
        one: requests.one,
        f"{one}/rows/{{position:int}}": requests.row,
        f"{one}/body": requests.body,
        f"{one}/verify": requests.verify,
        f"{one}/diff/{{other:int}}": requests.diff,
        f"{thread}/composition": requests.composition,
        f"{thread}/composition/series": requests.series,
        f"{thread}/summaries": requests.summaries,
        f"{thread}/summaries/{{name}}": requests.summary,
    }
