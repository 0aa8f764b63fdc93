"""The home that `treadle mcp serve` serves: set up as all commands set it up.

Owns how calls of other agents reach it, and the bounds of what they may have. Invariant: a
call narrows the rights that the server was started with, and never widens them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct

from ..core.errors import InvalidOption, NotFound, ThreadBusy
from ..core.items import Message, text_of
from ..mcp_server.agent_home import (
    FoundEntries,
    FoundRecord,
    ReadEntries,
    ReadEntry,
    ShownEntry,
    ShownThread,
    ThreadList,
    ThreadSummary,
    TurnReport,
)
from ..mcp_server.tool_arguments import (
    ExpandArguments,
    ReplyArguments,
    RunArguments,
    SearchArguments,
    ShowArguments,
    TurnArguments,
)
from ..store.contract import Search, Store, ThreadInfo, Turn
from ..store.thread_names import thread_name
from ..transfer.exporting import export_thread
from .cli_home import Home, find_thread
from .commands.cache import ledger_json
from .durations import parse_moment
from .entry_ranges import entry_id, named_threads, open_ranges
from .run_options import SANDBOXES, RunOptions
from .thread_setup import Setup, open_thread, prepare
from .transcript import Transcript
from .wanted_entries import wanted_entries

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["ConfiguredHome", "own_errors"]

_ASKING = ("never", "on-request", "untrusted")
"""From the policy that asks least to the one that asks most."""
_GONE = "the process that ran it has ended; what it did is in the log"


class ConfiguredHome(Struct, frozen=True):
    """A home with the options of the server, and the directories that calls may work in."""

    home: Home
    options: RunOptions
    roots: tuple[Path, ...]

    @asynccontextmanager
    async def open_thread(self, asked: TurnArguments, *, attended: bool) -> AsyncIterator[Thread]:
        """Open the thread of a call for writing, with rights no wider than the server's."""
        with own_errors():
            setup = await self._setup(asked, attended=attended)
        title = asked.title if isinstance(asked, RunArguments) else ""
        async with open_thread(setup, title=title) as thread:
            yield thread

    async def threads(self, limit: int, skip: int = 0) -> ThreadList:
        """Return the threads behind the first `skip`."""
        async with self.home.store() as store:
            found = await store.threads(limit=skip + limit + 1)
            listed = [await _summary(store, info) for info in found[skip : skip + limit]]
        return ThreadList(listed, more=len(found) > skip + limit)

    async def show(self, asked: ShowArguments) -> ShownThread:
        """Return the newest entries of a thread that people are shown."""
        with own_errors():
            async with self.home.store() as store:
                info = await find_thread(store, asked.thread)
                transcript, shown = Transcript(), []
                entries = wanted_entries(store, info.id, asked.limit, transcript.shows)
                async with aclosing(entries) as found:
                    async for entry, visible in found:
                        heading, text = transcript.block(entry, visible=visible)
                        name = entry_id(info.id, entry.seq)
                        shown.append(ShownEntry(id=name, heading=heading, text=text))
                return ShownThread(thread=await _summary(store, info), entries=shown)

    async def search(self, asked: SearchArguments) -> FoundEntries:
        """Search as `treadle recall` does; new entries are indexed first."""
        made = self.home.has_log()
        with own_errors():
            async with (
                self.home.store() as store,
                self.home.index(store, in_memory=not made) as index,
            ):
                named: list[str] = []
                for name in asked.threads:
                    named += await named_threads(store, name)
                search = Search(
                    asked.query,
                    mode=asked.mode,
                    threads=tuple(dict.fromkeys(named)) if named else None,
                    roles=asked.roles,
                    tools=asked.tools,
                    since=parse_moment(asked.since) if asked.since else None,
                    until=parse_moment(asked.until) if asked.until else None,
                    limit=asked.limit,
                )
                hits = await index.search(search)
        items = [
            FoundRecord(
                id=entry_id(hit.thread, hit.seq),
                thread=hit.thread,
                turn=hit.turn,
                time=hit.time,
                role=hit.role,
                snippet=hit.snippet,
            )
            for hit in hits
        ]
        return FoundEntries(items, note=hits.note)

    async def expand(self, asked: ExpandArguments) -> ReadEntries:
        """Return entries, ranges, and the entries behind summaries."""
        with own_errors():
            async with self.home.store() as store:
                opened = await open_ranges(self.home, store, asked.ids, asked.tokens)
        entries = [
            ReadEntry(id=each.id, turn=each.turn, time=each.time, role=each.role, text=each.text)
            for each in opened.entries
        ]
        return ReadEntries(entries, opened.rest)

    async def report(self, thread: str, turn: str) -> TurnReport:
        """Return how a turn ended that any process ran, by what the log says."""
        async with self.home.store() as store:
            found = [each for each in await store.turns(thread) if each.id == turn]
            if not found:
                raise NotFound("turn", turn, "`threads` lists the threads")
            return await _report(store, thread, found[0])

    async def page(self, thread: str) -> str:
        """Return a thread as a Markdown page."""
        with own_errors():
            async with self.home.store() as store:
                name = (await find_thread(store, thread)).id
                async with aclosing(export_thread(store, name, "markdown")) as parts:
                    return b"".join([part async for part in parts]).decode(errors="replace")

    async def ledger(self, thread: str) -> dict[str, Any]:
        """Return the requests of a thread, as `treadle cache --json` prints them."""
        with own_errors():
            async with self.home.store() as store, self.home.index(store) as index:
                name = (await find_thread(store, thread)).id
                return ledger_json(name, await index.rows(name))

    async def _setup(self, asked: TurnArguments, *, attended: bool) -> Setup:
        options = msgspec.structs.replace(self.options, model=asked.model or self.options.model)
        resume = asked.thread if isinstance(asked, ReplyArguments) else None
        if isinstance(asked, RunArguments) and asked.cwd is not None:
            options = msgspec.structs.replace(options, cwd=self._directory(asked.cwd))
        elif resume is not None:
            # A thread goes on in its own directory, not in the one of the server.
            options = msgspec.structs.replace(options, cwd=None)
        setup = await prepare(self.home, options, resume, attended=attended)
        self._check_root(setup.cwd)
        settings = setup.settings
        return msgspec.structs.replace(
            setup,
            settings=msgspec.structs.replace(
                settings,
                sandbox=_narrow("sandbox", settings.sandbox, asked.sandbox, SANDBOXES[::-1]),
                approval=_narrow("approval", settings.approval, asked.approval, _ASKING),
            ),
        )

    def _directory(self, name: str) -> Path:
        place = Path(name)
        if not place.is_absolute() or not place.is_dir():
            raise InvalidOption(f"cwd {name!r} is not the absolute path of a directory")
        return place

    def _check_root(self, place: Path) -> None:
        """Refuse to work where the server was not told to."""
        if not any(place.resolve().is_relative_to(root.resolve()) for root in self.roots):
            roots = ", ".join(repr(str(root)) for root in self.roots)
            raise InvalidOption(
                f"{str(place)!r} is outside of what this server works in ({roots}); "
                "start it with `--root` for another directory"
            )


def _narrow(name: str, given: str, asked: str | None, order: tuple[str, ...]) -> str:
    """Return what a call asks for, if that is no more than what is `given`."""
    if asked is None:
        return given
    if order.index(asked) < order.index(given):
        raise InvalidOption(
            f"{name} {asked!r} is more than this server may give, which is {given!r}; "
            f"leave it out, or start the server with `--{name} {asked}`"
        )
    return asked


async def _summary(store: Store, info: ThreadInfo) -> ThreadSummary:
    return ThreadSummary(
        id=info.id,
        name=await thread_name(store, info),
        cwd=info.cwd,
        turns=info.turns,
        entries=info.last,
        created=info.created,
        updated=info.updated,
    )


async def _report(store: Store, thread: str, turn: Turn) -> TurnReport:
    match turn.state:
        case "completed":
            text = await _last_message(store, thread, turn)
            return TurnReport(thread=thread, turn=turn.id, status="completed", text=text)
        case "failed":
            error = "the turn failed; `show` has the reason"
            return TurnReport(thread=thread, turn=turn.id, status="failed", error=error)
        case "admitted" | "running" if await _is_written(store, thread):
            return TurnReport(thread=thread, turn=turn.id, status="running")
        case _:
            return TurnReport(thread=thread, turn=turn.id, status="interrupted", error=_GONE)


async def _is_written(store: Store, thread: str) -> bool:
    """Return whether a process writes the thread at the moment."""
    try:
        lease = await store.acquire(thread)
    except ThreadBusy:
        return True
    await lease.release()
    return False


async def _last_message(store: Store, thread: str, turn: Turn) -> str:
    last = (await store.info(thread)).last
    for entry in await store.read(thread, max(turn.first, 1), last, reverse=True):
        if entry.kind == "item" and entry.turn == turn.number:
            item = entry.item
            if isinstance(item, Message) and item.role == "assistant":
                return text_of(item.content)
    return ""


@contextmanager
def own_errors() -> Iterator[None]:
    """Turn what the command line would say into an error of the library."""
    try:
        yield
    except click.ClickException as error:
        raise InvalidOption(error.format_message()) from None
    except ValueError as error:
        raise InvalidOption(str(error)) from None
