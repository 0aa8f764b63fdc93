"""First steps: what somebody is told who starts a chat whose model cannot be asked yet.

Owns the choice between storing a key, a server of this machine and the scripted demo.
Invariant: it is said before the first word of the chat, and nothing is chosen silently.
"""

from __future__ import annotations

import click
import msgspec

from .cli_home import Home
from .output import printable
from .run_options import RunOptions
from .terminal_input import read_line
from .thread_setup import Setup, prepare
from .user_questions import Read
from .ways_in import DEMO, find_local_servers, missing_access, missing_server

__all__ = ["offer_a_way_in"]

_MOST_MODELS = 3
"""So many models of a server are offered."""


async def offer_a_way_in(
    home: Home, options: RunOptions, thread: str | None, read: Read = read_line
) -> RunOptions:
    """Return the options to chat with; where the model cannot be asked, let the user choose."""
    setup = await prepare(home, options, thread)
    missing = await missing_access(setup)
    works = "without a key"
    if not missing:
        missing, works = await missing_server(setup), "now"
    if not missing:
        return options
    click.echo(f"treadle: {printable(missing)}", err=True)
    models = await _usable_models(setup)
    for number, (model, what) in enumerate(models, 1):
        click.echo(f"  {number}  {printable(model)}: {printable(what)}", err=True)
    chosen = await _choose(len(models), works, read)
    if chosen is None:
        raise click.exceptions.Exit(1)
    return msgspec.structs.replace(options, model=models[chosen - 1][0])


async def _usable_models(setup: Setup) -> list[tuple[str, str]]:
    """Return the models that need no key, and what each is."""
    servers = await find_local_servers(setup.settings)
    found = [
        (model, f"on your machine, at {server.base_url}")
        for server in servers
        for model in server.models[:_MOST_MODELS]
    ]
    return [*found, (DEMO, "a script that answers without a model, to look around")]


async def _choose(most: int, works: str, read: Read) -> int | None:
    """Return the number that the user types; None where they want to leave."""
    which = "1" if most == 1 else f"1 to {most}"
    click.echo(f"This works {works}. `treadle setup` asks what you have and stores it.", err=True)
    while True:
        try:
            said = (await read(f"{which} starts it, Enter leaves > ")).strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not said:
            return None
        if said.isdecimal() and 1 <= int(said) <= most:
            return int(said)
