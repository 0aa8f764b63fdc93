"""`treadle send`: send a message to a thread."""

from __future__ import annotations

import click

from ...subagents import post_message
from ...thread.posting import announce
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, text_argument, thread_argument
from ..lazy_group import examples
from ..output import say, say_json

__all__ = ["command"]


@click.command(
    "send",
    epilog=examples(
        'treadle send last "look at the tests too"',
        'treadle send 8c11 "the build is green" --from 0a3f --channel ci',
    ),
)
@thread_argument
@text_argument
@click.option(
    "--from", "source", metavar="THREAD", help="The thread that sends the message  [default: you]"
)
@click.option("--channel", help="The name of the channel that the message comes from.")
@click.option("--key", help="Store the message only once for this key.")
@as_json
@runs
async def command(
    home: Home,
    *,
    name: str,
    text: str | None,
    source: str | None,
    channel: str | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Send a message to the inbox of THREAD.

    A running turn reads the message before its next step, in any process. Otherwise the next
    turn reads it: a worker (`treadle work`) runs that turn, or `treadle exec --resume THREAD`
    without a prompt. With TEXT `-`, the message is read from standard input.
    """
    if not (text or "").strip():
        raise click.UsageError("There is no TEXT to send.")
    async with home.store() as store:
        thread = (await find_thread(store, name)).id
        sender = None if source is None else (await find_thread(store, source)).id
        left = await post_message(
            store, thread, text or "", source=sender, channel=channel, key=key
        )
        await announce(store)
    if as_json:
        say_json({"thread": thread, "number": left.number, "key": left.key})
    else:
        say(f"sent to {thread}")
