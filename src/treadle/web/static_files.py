"""The files of the page.

Owns which files are served and as what. Invariant: the list is made when the server starts,
from the package alone; no path of a request ever reaches the disk, and no link is followed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

__all__ = ["INDEX", "PageFile", "PageFiles", "read_page"]

INDEX = "index.html"
PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFile(Struct, frozen=True):
    """A file of the page."""

    name: str
    type: str
    data: bytes
    etag: str


def read_page(place: Path = PAGE) -> dict[str, PageFile]:
    """Return the files of the page by their names below `page`; those that we know, no links."""
    found: dict[str, PageFile] = {}
    for path in sorted(place.rglob("*")):
        kind = _TYPES.get(path.suffix)
        if kind is None or path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        name = path.relative_to(place).as_posix()
        found[name] = PageFile(name, kind, data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return found


class PageFiles:
    """Serves the files of the page."""

    def __init__(self, files: dict[str, PageFile]) -> None:
        self._files = files

    async def index(self, request: Request) -> Response:
        """Answer with the page itself."""
        return self._answer(request, INDEX)

    async def file(self, request: Request) -> Response:
        """Answer with a file of the page."""
        return self._answer(request, request.path_params["name"])

    def _answer(self, request: Request, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            return Response("there is no such file\n", 404, media_type="text/plain")
        head = {"etag": file.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=head)
        return Response(file.data, headers={**head, "content-type": file.type})
