"""`treadle work`: run the turns that nobody runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.errors import NotFound
from ...hosts import news as said
from ...hosts.worker import Worker, WorkerBounds
from ...store.shared_store import open_shared
from ...thread.recorded import recorded_rights
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..live_address import serve_live
from ..output import say, say_json
from ..run_options import RunOptions
from ..thread_setup import open_thread, prepare

if TYPE_CHECKING:
    from ...hosts.news import News
    from ...store.contract import ThreadInfo
    from ...thread.thread import Thread

__all__ = ["command"]


@click.command(
    "work",
    epilog=examples(
        "treadle work",
        "treadle work --once",
        "treadle work --turns 8 --per-profile 2 --json",
    ),
)
@click.option(
    "--turns",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="How many turns run at once.",
)
@click.option(
    "--per-profile",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many of them may ask one provider under one profile  [default: all]",
)
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="How often a turn is tried that cannot be run, or whose worker died.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=8.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a step may go on once the worker is asked to end.",
)
@click.option(
    "--live",
    metavar="HOST:PORT",
    help="Where others watch turns live; `off` for nowhere  [default: this machine, any port]",
)
@click.option(
    "--live-name",
    metavar="NAME",
    help="What other machines call this one  [default: HOST, or the name of this machine]",
)
@click.option("--once", is_flag=True, help="End when nothing waits any more.")
@as_json
@runs
async def command(
    home: Home,
    *,
    turns: int,
    per_profile: int | None,
    attempts: int,
    grace: float,
    live: str | None,
    live_name: str | None,
    once: bool,
    as_json: bool,
) -> int:
    """Run turns that nobody runs, until it is told to end.

    A turn is started by a message (`treadle send`), or was left open by a process that died.
    One turn at a time runs per thread, wherever its workers are; the one that waits longest goes
    first. It runs in the directory of its thread, with the model and the rights that the thread
    had last, and with the settings in force there for everything else; calls that need an
    approval are refused. A turn that cannot be run is tried again after a while, at last it ends
    as failed, with the reason.

    SIGTERM or Ctrl-C ends the worker: turns are left open after their present step, for the next
    worker. A second one does not wait for the step.

    With the extra `web`, what happens in its turns can be watched live (`treadle show --follow`),
    from this machine or, with --live, from others. Whoever watches shows a token: that in
    TREADLE_LIVE_TOKEN, or the one that the worker puts into its home.

    With --once the exit code is 1 when a turn did not complete.
    """
    bounds = WorkerBounds(turns=turns, per_profile=per_profile, attempts=attempts, grace=grace)
    async with open_shared(home.path, home.address) as place:
        opened = partial(_open, home)
        report = say_json if as_json else _tell
        async with serve_live(home, place.store, live, live_name) as feed:
            worker = Worker(place.store, opened, bounds=bounds, report=report, live=feed)
            _end_on_signals(worker)
            await worker.run(once=once)
    return int(once and worker.failed > 0)


@asynccontextmanager
async def _open(home: Home, info: ThreadInfo) -> AsyncIterator[Thread]:
    """Open a thread as `treadle exec --resume` does, with the rights that it had last."""
    if not await asyncio.to_thread(Path(info.cwd).is_dir):
        hint = f"thread {info.id} works there; make it, or `treadle exec -C DIR --resume …`"
        raise NotFound("directory", info.cwd, hint)
    setup = await prepare(home, RunOptions(), info.id, attended=False)
    async with open_thread(setup, keep_empty=True) as thread:
        thread.adopt(recorded_rights(thread.view, thread.log.setup.settings))
        yield thread


def _end_on_signals(worker: Worker) -> None:
    """Drain at the first signal, hand back at the second, and leave at the third."""
    heard = 0

    def end() -> None:
        nonlocal heard
        heard += 1
        if heard == 1:
            click.echo("treadle: ending after the present steps; once more: at once", err=True)
            worker.drain()
        elif heard == 2:
            worker.stop()
        else:
            os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, end)


def _tell(news: News) -> None:
    match news:
        case said.TurnTaken(thread=thread, attempt=attempt):
            again = f" (attempt {attempt})" if attempt > 1 else ""
            say(f"{thread} runs{again}")
        case said.TurnEnded(thread=thread, status=status, error=error):
            say(f"{thread} {status}{f': {error}' if error else ''}")
        case said.TurnHandedBack(thread=thread):
            say(f"{thread} handed back")
        case said.TurnFailed(thread=thread, error=error, attempts=attempts, gave_up=gave_up):
            what = "given up" if gave_up else "will be tried again"
            say(f"{thread} {what} after {attempts} attempts: {error}")
        case said.Yielded(thread=thread, holder=holder):
            say(f"{thread} is run by {holder or 'another process'}")
        case said.Troubled(error=error):
            click.echo(f"treadle: {error}", err=True)
