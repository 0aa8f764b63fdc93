"""`treadle rollback`: hide the last turns of a thread from the model."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ...config import load_config
from ...config.settings import DEFAULT_MODEL
from ...core.entries import Rollback
from ...thread.thread import Thread
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, thread_argument
from ..lazy_group import examples
from ..output import say, say_json
from ..thread_setup import engine_options

__all__ = ["command"]


@click.command(
    "rollback",
    epilog=examples(
        "treadle rollback last", "treadle rollback last 3", "treadle rollback last --to 12"
    ),
)
@thread_argument
@click.argument("turns", type=click.IntRange(min=1), required=False)
@click.option("--to", type=int, metavar="SEQ", help="Hide everything after this entry instead.")
@as_json
@runs
async def command(home: Home, name: str, turns: int | None, to: int | None, as_json: bool) -> None:
    """Hide the last TURNS turns (default: 1) from the model.

    Nothing is deleted: `treadle show --all` prints the hidden entries too.
    """
    if turns is not None and to is not None:
        raise click.UsageError("Give either TURNS or --to, not both.")
    async with home.store() as store, home.index(store) as index:
        found = await find_thread(store, name)
        settings = load_config(home.path, Path(found.cwd), os.environ).settings
        async with Thread.open(
            found.id,
            model=DEFAULT_MODEL,
            home=home.path,
            store=store,
            index=index,
            engine=engine_options(settings),  # it must remove the hidden entries
        ) as thread:
            await (thread.rollback(turns or 1) if to is None else thread.revert(to))
        newest = (await store.info(found.id)).last
        (entry,) = await store.read(found.id, newest, newest)
    control = entry.control
    assert isinstance(control, Rollback)
    first, last = control.cut, entry.seq - 1
    if as_json:
        say_json({"thread": found.id, "entry": entry.seq, "first": first, "last": last})
    elif first > last:
        say(f"there is nothing after entry {last}; nothing was hidden")
    else:
        say(f"entries {first} to {last} are hidden")
