"""`treadle web`: the inspector, in the browser."""

from __future__ import annotations

import asyncio
import os
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.errors import ConfigError
from ...core.files import replace_file
from ...core.install import install_command
from ...core.redact import learn_environment
from ...core.store_address import index_directory, shown_address
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, shown_thread_argument
from ..lazy_group import examples
from ..output import say, say_json
from ..run_options import RunOptions
from ..spending import own_prices

if TYPE_CHECKING:
    from ...web.inspected_home import ShownHome

__all__ = ["command"]


@click.group(
    "web",
    invoke_without_command=True,
    epilog=examples(
        "treadle web                          look at all threads",
        "treadle web --port 4012 --no-open    print the link only, always the same port",
        "treadle web --control                also talk, steer, approve, rewind and fork",
        "treadle web export last              one HTML file of a thread, without secrets",
    ),
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port  [default: a free one]"
)
@click.option("--no-open", is_flag=True, help="Only print the link.")
@click.option(
    "--control",
    is_flag=True,
    help="Let the page act: run turns, answer questions, rewind and fork threads.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME:PORT",
    multiple=True,
    help="Another name that browsers may call it by; can be repeated.",
)
@as_json
@click.pass_context
def command(ctx: click.Context, /, **asked: object) -> int | None:
    """Show in the browser what the model saw, live, of every thread.

    Every request of every thread, byte for byte: what it shares with the one before, why the
    prefix changed, what fills the window, what it cost. Open the link that is printed: the
    token in it is valid while the server runs. Nothing is written and no thread is held, so it
    works beside whoever runs turns; only with --control can the page act, with the rights of
    your settings. Nobody but this machine can reach it; from another one, forward the port
    (`ssh -L 4012:127.0.0.1:4012 HOST`) and open the link there.
    """
    if ctx.invoked_subcommand is not None:
        return None
    result: int | None = ctx.invoke(_serve, **asked)
    return result


@runs
async def _serve(
    home: Home,
    *,
    port: int,
    no_open: bool,
    control: bool,
    host: str,
    hosts: tuple[str, ...],
    as_json: bool,
) -> None:
    async with _shown_home(home) as shown:
        from ...web.inspector import Inspector
        from ...web.inspector_server import WebPlace, WebServer

        acting = None
        if control:
            from ..web_control import CommandHome

            acting = CommandHome(home, RunOptions())
        place = WebPlace(host=host, port=port, hosts=hosts)
        server = WebServer(Inspector(shown, acting), place)

        def tell() -> None:
            if as_json:
                say_json({"url": server.url, "link": server.link, "control": control})
            else:
                say(f"{server.link}\nCtrl-C ends it")
            if not home.has_log():
                click.echo("there is no thread yet; they appear as soon as there are", err=True)
            if not no_open:
                webbrowser.open(server.link)

        await server.serve(tell)


@command.command(
    "export",
    epilog=examples(
        "treadle web export last",
        "treadle web export 8c11 -o thread.html --requests 50",
    ),
)
@shown_thread_argument
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write  [default: THREAD.html]",
)
@click.option(
    "--requests",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    help="How many of the newest requests to include with all their rows.",
)
@as_json
@runs
async def export(
    home: Home, name: str, *, output: Path | None, requests: int, as_json: bool
) -> None:
    """Write one HTML file of a thread that shows what the inspector shows.

    It needs no server and no network: attach it to an issue, or keep it. Known secrets, and
    what looks like one, are replaced; read it before you publish it all the same. Of a very
    long thread the newest part is in it, and the file says so.
    """
    async with _shown_home(home) as shown:
        from ...web.html_export import export_page
        from ...web.inspector import Inspector

        inspector = Inspector(shown)
        try:
            thread = (await find_thread(shown.store, name)).id
            page = await export_page(inspector, thread, requests=requests)
        finally:
            await inspector.close()
    place = output or Path(f"{thread}.html")
    await asyncio.to_thread(replace_file, place, page.html.encode())
    if as_json:
        say_json({"thread": thread, "file": str(place), "bytes": len(page.html), **page.holds})
    else:
        say(f"{place}  {len(page.html):,} bytes")


@asynccontextmanager
async def _shown_home(home: Home) -> AsyncGenerator[ShownHome]:
    """Open the home to look at. Raises `ConfigError` where the extra is not installed."""
    try:
        from ...web.inspected_home import SharedDatabase, ShownHome, ShownIndex, ShownStore
        from ...web.inspector_server import WebServer  # noqa: F401 - what it needs may not be there
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the package {error.name!r} is not installed; {install_command('web')} adds it"
        ) from None
    learn_environment(os.environ)
    prices = own_prices(home)
    if (address := home.address) is None:
        yield ShownHome(home.path, prices=prices)
        return
    async with home.writable_store() as store, home.index(store) as index:
        if not isinstance(store, ShownStore) or not isinstance(index, ShownIndex):
            raise ConfigError(f"threads at {shown_address(address)!r} cannot be shown in pages")
        directory = index_directory(home.path, address)
        yield ShownHome(home.path, prices=prices, database=SharedDatabase(store, index, directory))
