"""Following a thread: what others write in it, as it happens.

Invariant: an answer that was printed while it was made is not printed again when it is whole.
"""

from __future__ import annotations

import sys
from contextlib import aclosing
from functools import partial

import click

from ..core.entries import Entry
from ..core.items import Message, text_of
from ..harness.events import Event, TextDelta
from ..hosts.watch import find_live_token, watch_thread
from ..store.contract import Store
from ..store.json_views import entry_json
from .cli_home import Home
from .output import printable, say, say_json
from .transcript import Transcript

__all__ = ["follow_thread"]


async def follow_thread(
    home: Home, store: Store, thread: str, seen: int, transcript: Transcript, *, as_json: bool
) -> None:
    """Print what comes behind the entry `seen`, until somebody ends it."""
    printer = _Printer(transcript)
    watching = watch_thread(
        store, thread, after=seen, token=partial(find_live_token, home.path), trouble=_tell
    )
    async with aclosing(watching) as news:
        async for each in news:
            if not as_json:
                printer.show(each)
            elif isinstance(each, Entry):
                say_json(entry_json(each, visible=True))
            else:
                say_json({"live": each})
            sys.stdout.flush()


class _Printer:
    """Prints entries, and answers while they are made."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._spoken = ""

    def show(self, each: Entry | Event) -> None:
        if isinstance(each, TextDelta):
            if not self._spoken:
                click.secho("assistant", bold=True)
            self._spoken += each.text
            click.echo(printable(each.text), nl=False)
        elif isinstance(each, Entry) and self._transcript.shows(each, True):
            self._show_entry(each)

    def _show_entry(self, entry: Entry) -> None:
        spoken, self._spoken = self._spoken, ""
        if spoken:
            say("")
            if _words(entry).strip() == spoken.strip():
                say("")
                return
        heading, body = self._transcript.block(entry, visible=True)
        click.secho(heading, bold=True)
        if body:
            say(body)
        say("")


def _words(entry: Entry) -> str:
    item = entry.item if entry.kind == "item" else None
    return text_of(item.content) if isinstance(item, Message) else ""


def _tell(trouble: str) -> None:
    click.echo(f"treadle: {printable(trouble)}", err=True)
