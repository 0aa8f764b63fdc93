"""Secrets: a key that Treadle knows turns up in everything that is kept and sent.

Weakness: Treadle does not know the key.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from attack.attempt import Area
from attack.ground import Ground, Heard, command, listen
from treadle.models.providers import ProviderConfig
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script, ScriptedError

__all__ = ["AREA"]

AREA = Area("secrets", "keys in what is kept and sent", "the key is unknown to Treadle")

KEY = "quince_api_4471xz_8820_ab"
"""No shape gives it away: only who knows it can keep it in."""
OTHER = "quince_other_9917_zz"


def _key(ground: Ground) -> str:
    return OTHER if ground.weak else KEY


async def converse(ground: Ground, *answers: Answer, said: Any = "hi", **options: Any) -> Heard:
    """Have a provider, whose key is known, give answers to one or more turns."""
    heard = Heard()
    words = said if isinstance(said, list) else [said]
    script = Script(answers=(*answers, Answer(text="done", times=0)))
    async with FakeServer(script) as server:
        config = ProviderConfig(
            api="responses", base_url=server.base_url, key=_key(ground), retries=0
        )
        async with ground.open("mine:script", providers={"mine": config}, **options) as thread:
            heard.thread = thread.id
            for each in words:
                await listen(thread, heard, each)
        heard.sent = [json.loads(request.body) for request in server.requests]
    return heard


def find_key(ground: Ground, heard: Heard) -> str:
    """Return where the key stands: files below home, their rows, events and requests."""
    places = [*_files(ground.home), *_heard(heard)]
    return f"the key is in {places}" if places else ""


def _files(home: Path) -> Iterator[str]:
    # Copies of the project's files have their bytes, as the page about security says.
    kept = (each for each in home.rglob("*") if not each.name.startswith("files.db"))
    files = [each for each in kept if each.is_file()]
    raw = {each: each.read_bytes().count(KEY.encode()) for each in files}
    # Looking into a database puts its files in order: the bytes come first.
    for file, count in raw.items():
        if count:
            yield f"{file.relative_to(home)} ({count} times)"
        elif file.suffix == ".db" and KEY.encode() in _rows(file):
            yield f"rows of {file.relative_to(home)}"


def _rows(path: Path) -> bytes:
    """Return every value of a database, put together where pages cut it."""
    values: list[Any] = []
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        for name in names:
            with suppress(sqlite3.Error):
                values += [
                    each for row in database.execute(f'SELECT * FROM "{name}"') for each in row
                ]
    return b"\n".join(each if isinstance(each, bytes) else str(each).encode() for each in values)


def _heard(heard: Heard) -> Iterator[str]:
    names = {
        type(event).__name__
        for event in heard.events
        if KEY in repr(event) or KEY in msgspec.json.encode(event).decode(errors="replace")
    }
    if names:
        yield f"events {sorted(names)}"
    if KEY in heard.sent_text:
        yield "a request"


def _patch() -> Call:
    return Call(
        name="apply_patch", input=f"*** Begin Patch\n*** Add File: p.txt\n+{KEY}\n*** End Patch"
    )


LATER = f"printf {KEY[:10]}; sleep 0.4; printf '{KEY[10:]}\\n'"
CALLS: dict[str, Call] = {
    "a short output": command("cat leak.txt"),
    "a long output": command("cat long.txt", max_output_tokens=9000),
    "an output in two parts": command("sh later.sh"),
    "arguments": command(f"echo {KEY}"),
    "a patch": _patch(),
    "an error": command(f"cat /nonexistent/{KEY}"),
    "a name of a tool": Call(name=f"no_{KEY}", arguments={}),
    "arguments that are no JSON": Call(name="exec_command", arguments=f"{{{KEY}"),
}


@AREA.each(CALLS, quick="arguments", proof=True)
async def have_a_call_leak(ground: Ground, call: Call) -> str:
    """The model makes a call in which, or in whose result, the provider's key stands.

    Through if a file below Treadle's home, an event or a later request has the key.
    """
    ground.describe_model()
    (ground.workspace / "leak.txt").write_text(f"key={KEY}\n")
    (ground.workspace / "later.sh").write_text(LATER)
    lines = (f"{n:06d} {'pad' * (n % 7)}{KEY}\n" for n in range(20_000))
    (ground.workspace / "long.txt").write_text("".join(lines))
    heard = await converse(ground, Answer(calls=(call,)))
    return find_key(ground, heard)


@AREA.attempt(quick=True, proof=True)
async def have_the_model_say_it(ground: Ground) -> str:
    """The model's text has the key, in deltas that cut it. Through if it is kept or told."""
    heard = await converse(ground, Answer(text=f"it is {KEY}, really"), said=["hi", "again"])
    return find_key(ground, heard)


@AREA.attempt(proof=True)
async def have_the_model_think_it(ground: Ground) -> str:
    """The model's reasoning has the key. Through if it is kept or told."""
    heard = await converse(ground, Answer(reasoning=f"so {KEY}", text="ok"), said=["hi", "again"])
    return find_key(ground, heard)


@AREA.attempt(proof=True)
async def have_the_user_say_it(ground: Ground) -> str:
    """The user pastes the key. Through if it is kept, told or sent."""
    return find_key(ground, await converse(ground, said=f"my key is {KEY}"))


@AREA.attempt(quick=True, proof=True)
async def have_a_file_say_it(ground: Ground) -> str:
    """The key stands in `AGENTS.md`. Through if it is kept, told or sent."""
    (ground.workspace / "AGENTS.md").write_text(f"use {KEY}\n")
    return find_key(ground, await converse(ground))


@AREA.attempt(proof=True)
async def have_an_error_say_it(ground: Ground) -> str:
    """The provider repeats the key in an error. Through if it is kept or told."""
    error = ScriptedError(status=400, code="nope", message=f"no, not {KEY}")
    return find_key(ground, await converse(ground, Answer(error=error)))


@AREA.attempt(proof=True)
async def have_a_title_say_it(ground: Ground) -> str:
    """The title of a thread has the key. Through if it is kept."""
    return find_key(ground, await converse(ground, title=f"about {KEY}"))


@AREA.attempt(proof=True)
async def have_a_summary_say_it(ground: Ground) -> str:
    """The summary of a compaction has the key. Through if it is kept, told or sent."""
    heard = Heard()
    answers = (
        Answer(text="word " * 3000),
        Answer(text=f"summary with {KEY}"),
        Answer(text="x", times=0),
    )
    async with FakeServer(Script(answers=answers)) as server:
        config = ProviderConfig(
            api="responses", base_url=server.base_url, key=_key(ground), retries=0
        )
        async with ground.open("mine:script", providers={"mine": config}) as thread:
            await listen(thread, heard, "write much")
            await thread.compact()
            await listen(thread, heard, "go on")
        heard.sent = [json.loads(request.body) for request in server.requests]
    return find_key(ground, heard)


@AREA.attempt(proof=True)
async def have_the_lossless_engine_keep_it(ground: Ground) -> str:
    """A result and the model's words have the key, where an engine keeps a library of its own.

    Through if a file below Treadle's home, an event or a request has the key.
    """
    (ground.workspace / "leak.txt").write_text(f"key={KEY}\n")
    calls = Answer(calls=(command("cat leak.txt"),))
    heard = await converse(
        ground, calls, Answer(text=f"it is {KEY}"), said=["hi", "again"], engine="lossless"
    )
    return find_key(ground, heard)
