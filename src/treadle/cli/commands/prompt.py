"""`treadle prompt`: show the exact request of the next turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from ...context.head import named_model
from ...context.layout import Line, row_lines
from ...core.items import Message, text_of
from ...core.text import approx_tokens
from ...prompt.registry import Registry, installed_registry
from ...prompt.skill_fragments import SkillsState
from ...store.contract import Store, ThreadInfo
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, text_argument
from ..lazy_group import examples
from ..output import Column, say, say_document, table
from ..output_schema import read_output_schema, with_input_files
from ..prompt_preview import Peek, Previous, as_it_stands, previous_request, with_input
from ..run_options import RunOptions, take_run_options, with_run_options
from ..terminal_input import is_attended
from ..thread_setup import Setup, prepare, warn_of_project

__all__ = ["command"]

_COLUMNS = (
    Column("#", right=True),
    Column("ROLE"),
    Column("WHAT", gives=True),
    Column("TOKENS", right=True),
)


class PromptQuery(Struct, frozen=True, kw_only=True):
    """The arguments of the command."""

    text: str | None
    name: str | None
    at: int | None
    images: tuple[Path, ...]
    output_schema: Path | None
    options: RunOptions

    @property
    def has_input(self) -> bool:
        """Whether there is an input for another turn."""
        return self.text is not None or bool(self.images)


@click.command(
    "prompt",
    epilog=examples(
        'treadle prompt "fix the bug"',
        "treadle prompt --thread last --json | jq .input",
        "treadle prompt --thread last --at 12",
    ),
)
@text_argument
@click.option("--thread", "name", metavar="THREAD", help="Show the request of this thread.")
@click.option("--at", type=int, metavar="SEQ", help="Show the request as it was at this entry.")
@with_input_files
@with_run_options
@as_json
@runs
async def command(home: Home, *, as_json: bool, **asked: Any) -> None:
    """Show the request that `treadle exec` would send. Nothing is sent, created or changed.

    Without --thread, it is the first request of a new thread with TEXT (`-` reads TEXT from
    standard input). With --thread and TEXT, it is the next request of that thread. With
    --thread and no TEXT, it is the newest request of that thread. --json prints the body,
    byte for byte.
    """
    options = take_run_options(asked)
    query = PromptQuery(**asked, options=options)
    registry = await asyncio.to_thread(installed_registry)
    if query.name is None:
        peek, earlier = await _of_a_new_thread(home, query), None
    else:
        peek, earlier = await _of_a_thread(home, registry, query, query.name)
    if as_json:
        say_document(peek.body)
    else:
        _print(peek, earlier, registry)


async def _of_a_new_thread(home: Home, query: PromptQuery) -> Peek:
    if query.at is not None:
        raise click.UsageError("--at needs --thread.")
    setup = await prepare(home, query.options, attended=is_attended())
    return await _with_files(setup, query)


async def _of_a_thread(
    home: Home, registry: Registry, query: PromptQuery, name: str
) -> tuple[Peek, Previous | None]:
    async with home.store() as store:
        info = await find_thread(store, name)
        if not query.has_input:
            peek = await _as_it_stands(store, info.id, registry, query)
            before = query.at or info.last + 1
        else:
            peek = await _with_input(home, info, query)
            before = peek.view.upto + 1
        return peek, await previous_request(store, info.id, registry, peek, before=before)


async def _as_it_stands(store: Store, thread: str, registry: Registry, query: PromptQuery) -> Peek:
    if query.options != RunOptions() or query.output_schema is not None:
        raise click.UsageError(
            "--model and similar options need TEXT; a recorded request has its own."
        )
    return await as_it_stands(store, thread, registry, query.at)


async def _with_input(home: Home, info: ThreadInfo, query: PromptQuery) -> Peek:
    setup = await prepare(home, query.options, info.id, attended=is_attended())
    return await _with_files(setup, query)


async def _with_files(setup: Setup, query: PromptQuery) -> Peek:
    schema = read_output_schema(query.output_schema, setup)
    warn_of_project(setup)
    words = () if query.text is None else (query.text,)
    return await with_input(setup, *words, *query.images, at=query.at, schema=schema)


def _print(peek: Peek, earlier: Previous | None, registry: Registry) -> None:
    for title, value in _heading(peek, earlier).items():
        say(f"{title:<8}{value}")
    say("")
    table(_COLUMNS, [_row(line) for line in row_lines(peek.request.rows, registry)])


def _row(line: Line) -> list[str]:
    return [f"{line.position:02d}", line.kind, line.what, f"{line.tokens:,}"]


def _heading(peek: Peek, earlier: Previous | None) -> dict[str, str]:
    request, head = peek.request, peek.view.head
    sizes = {segment.kind: segment.size for segment in request.segments[:3]}
    tokens = peek.view.tokens + approx_tokens(sum(sizes.values()))
    parts = ", ".join(f"{kind} {size:,}" for kind, size in sizes.items())
    heading = {
        "model": named_model(head),
        "epoch": _epoch(peek),
        "bytes": f"{len(request.body):,} ({parts})",
        "tokens": f"about {tokens:,}",
        "items": str(request.items),
    }
    if skills := _skill_tokens(peek):
        heading["skills"] = f"about {skills:,} tokens, for the list and its changes"
    if earlier is not None:
        heading["shared"] = _shared_text(earlier)
    if peek.lacks:
        heading["without"] = "; ".join(peek.lacks)
    if peek.recorded is not None:
        same = "these are the bytes that were sent" if peek.recorded else "OTHER bytes were sent"
        heading["proof"] = f"{same} (digest {request.digest})"
    return heading


def _skill_tokens(peek: Peek) -> int:
    """Return about what the list of skills takes in the view."""
    items = [
        (row.item, mark.part)
        for row in peek.view.rows
        for mark in row.fragments
        if mark.id == SkillsState.id
    ]
    texts = [
        text_of(item.content[part : part + 1])
        for item, part in items
        if isinstance(item, Message) and part is not None
    ]
    return approx_tokens(sum(len(text.encode()) for text in texts))


def _epoch(peek: Peek) -> str:
    if peek.breaks is not None:
        return f"a new one ({peek.breaks.value})"
    return f"since entry {peek.view.epoch} ({peek.view.reason.value})"


def _shared_text(earlier: Previous) -> str:
    percent = 100 * earlier.shared // max(earlier.size, 1)
    broke = f", then {earlier.difference} differs" if earlier.difference else ""
    shared = f"{earlier.shared:,} bytes ({percent}%) of the request at entry {earlier.seq}"
    return f"{shared}{broke}"
