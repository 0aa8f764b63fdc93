"""Commands about the conversation: `/resume`, `/threads`, `/rewind`, `/title` and `/init`.

Invariant: what leaves the view comes back to the line, so that nothing the user wrote is lost.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...core.redact import redact_known
from ...prompt.command_requests import init_request, title_request
from ...store.contract import Change
from ...store.thread_names import shorten_name, thread_name
from ..cli_home import find_thread
from ..output import one_line
from .choose import Choice
from .mentions import Said
from .past import past_turns
from .picker import choose_thread, where_and_when

if TYPE_CHECKING:
    from .slash import Leave, Slash

__all__ = ["list_threads", "name_thread", "resume", "rewind", "write_instructions"]

_MOST_THREADS = 10
_MOST_TURNS = 100
_PURPOSE = "title"


async def resume(slash: Slash, rest: str) -> Leave | None:
    """Leave for another thread: the one that is named, or one from a list."""
    from .slash import Leave

    session = slash.session
    store, own = session.thread.store, session.thread.id
    if rest:
        chosen: str | None = (await find_thread(store, rest)).id
    else:
        cwd = Path(session.thread.log.setup.cwd)
        chosen = await choose_thread(store, cwd, session.front.choose, current=own)
    if chosen is None:
        session.screen.quiet("this thread goes on")
        return None
    if chosen == own:
        session.screen.say("that is this thread")
        return None
    return Leave(msgspec.structs.replace(slash.options, model=None), chosen)


async def list_threads(slash: Slash, rest: str) -> None:
    """List the threads written most recently."""
    del rest
    session, now = slash.session, time.time()
    store = session.thread.store
    for info in await store.threads(limit=_MOST_THREADS):
        mark = "*" if info.id == session.thread.id else " "
        name = one_line(await thread_name(store, info), 50) or "(nothing said yet)"
        session.screen.say(f"{mark} {info.id}  {name}")
        session.screen.quiet(f"    {where_and_when(info, now)}")


async def rewind(slash: Slash, rest: str) -> None:
    """Go back to before a message, which comes back into the line."""
    del rest
    session = slash.session
    turns = await past_turns(session.thread.store, session.thread.id, _MOST_TURNS)
    if not turns:
        session.screen.say("there is nothing to go back to")
        return
    rows = [Choice(turn.said[0], one_line(turn.answer, 60)) for turn in turns]
    at = await session.front.choose("Go back to before which message?", rows, len(rows) - 1)
    if at is None:
        return
    await session.thread.rollback(len(turns) - at)
    session.front.restore("\n".join(turns[at].said))
    session.screen.say("the model sees nothing from that message on; files are not changed")


async def name_thread(slash: Slash, rest: str) -> None:
    """Give the thread a title, or let the model find one."""
    session = slash.session
    if rest:
        await _name(slash, rest)
        return
    thread = session.thread
    if not session.has_completed:
        session.screen.trouble(
            "the model can name a thread after a turn of this session; /title TEXT names it now"
        )
        return
    turns = await past_turns(thread.store, thread.id, _MOST_TURNS)

    async def ask_and_name() -> None:
        ask = thread.engine.model_for(_PURPOSE)
        said = [words for turn in turns for words in turn.said]
        answer = await ask(title_request(said))
        await _name(slash, answer.strip().strip("\"'").partition("\n")[0])

    session.start("finding a title", ask_and_name())


async def _name(slash: Slash, title: str) -> None:
    name = shorten_name(redact_known(title))
    if not name:
        slash.session.screen.trouble("the model found no title; /title TEXT gives one")
        return
    await slash.session.thread.log.commit(Change(title=name))
    slash.session.screen.say(f"title: {name}")


async def write_instructions(slash: Slash, rest: str) -> None:
    """Let the model write AGENTS.md, or improve it."""
    del rest
    session = slash.session
    file = Path(session.thread.log.setup.cwd, "AGENTS.md")
    exists = await asyncio.to_thread(file.exists)
    text = init_request(exists=exists)
    await session.say(Said(text, (text,)))
