"""Previews: the present, a past or the next request of a thread, without its lease.

Owns how `treadle prompt` gets at a request. Invariant: it reads and never writes, so it
works beside a writer and on a home that cannot be written.
"""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import UNSET, Struct, UnsetType

from ..context.ledger import compare
from ..context.request import Renderer, Request
from ..context.sent_body import sent_body
from ..context.view import View, load_view
from ..core.entries import Entry, Reason, RequestMark
from ..core.errors import NotFound
from ..core.wire import Json
from ..prompt.input import LocalImage
from ..prompt.prompt_context import PromptContext
from ..prompt.registry import Registry
from ..store.contract import Store
from .dry_run import open_dry_run
from .output import printable
from .thread_setup import Setup

__all__ = [
    "PLACEHOLDER",
    "Peek",
    "Previous",
    "as_it_stands",
    "previous_request",
    "warn_of",
    "with_input",
]

PLACEHOLDER = "thr_00000000-0000-7000-8000-000000000000"
"""The id of a thread that does not exist yet."""

_PAGE = 256


class Peek(Struct, frozen=True):
    """A request, the view it shows, and why its prefix would break if it would."""

    view: View
    request: Request
    breaks: Reason | None = None
    recorded: bool | None = None
    """For a past request: whether these are the bytes that were sent then."""
    lacks: tuple[str, ...] = ()
    """What the next request may have beyond this."""

    @property
    def body(self) -> bytes:
        """What is sent: the bytes of the request, with the cache marks that its provider gets."""
        assert self.view.head is not None, "a request was rendered from a view with a head"
        return sent_body(self.request, self.view.head)


class Previous(Struct, frozen=True):
    """The request before, and how much of it this request starts with."""

    seq: int
    shared: int
    size: int
    difference: str | None


async def as_it_stands(store: Store, thread: str, registry: Registry, at: int | None) -> Peek:
    """Return the newest request of a thread, or the newest at entry `at`."""
    recorded: bool | None = None
    entry = await _entry(store, thread, at) if at is not None else None
    view = await load_view(store, thread, registry, upto=at)
    request = Renderer().render(view)
    if entry is not None and entry.kind == "request":
        mark = entry.control
        recorded = isinstance(mark, RequestMark) and mark.digest == request.digest
    return Peek(view, request, recorded=recorded)


async def with_input(
    setup: Setup, *given: str | Path, at: int | None = None, schema: Json | UnsetType = UNSET
) -> Peek:
    """Return the request with words and images as the next input; without, its context only.

    A thread's next request may start from an earlier entry, `at`.
    """
    said = [LocalImage(each) if isinstance(each, Path) else each for each in given]
    async with open_dry_run(setup) as thread:
        if at is not None:
            thread.log.view = await load_view(thread.store, thread.id, thread.registry, upto=at)
        elif setup.info is None:
            thread.log.view.cache_key = PLACEHOLDER
        following = await thread.preview(*said, schema=schema)
    for notice in following.notices:
        click.echo(f"treadle: {printable(notice)}", err=True)
    return Peek(following.view, following.request, following.breaks, lacks=following.lacks)


async def previous_request(
    store: Store, thread: str, registry: Registry, peek: Peek, *, before: int
) -> Previous | None:
    """Compare with the newest request in the log before entry `before`."""
    mark = await _newest_mark(store, thread, before - 1)
    if mark is None:
        return None
    control = mark.control
    assert isinstance(control, RequestMark)
    view = await load_view(store, thread, registry, upto=control.upto)
    earlier = Renderer().render(view)
    same = compare(earlier.segments, peek.request.segments)
    shared = sum(segment.size for segment in peek.request.segments[: same.segments])
    return Previous(mark.seq, shared, len(earlier.body), same.difference)


async def _newest_mark(store: Store, thread: str, last: int) -> Entry | None:
    while last > 0:
        page = await store.read(thread, 1, last, reverse=True, limit=_PAGE)
        if not page:
            return None
        for entry in page:
            if entry.kind == "request":
                return entry
        last = page[-1].seq - 1
    return None


async def _entry(store: Store, thread: str, seq: int) -> Entry:
    last = (await store.info(thread)).last
    found = await store.read(thread, seq, seq) if 1 <= seq <= last else []
    if not found:
        raise NotFound("entry", seq, f"thread {thread!r} has entries 1 to {last}")
    return found[0]


def warn_of(context: PromptContext) -> None:
    """Print which AGENTS.md files were left out or cut."""
    for problem in context.agents_docs.problems if context.agents_docs else ():
        click.echo(f"treadle: {printable(problem)}", err=True)
