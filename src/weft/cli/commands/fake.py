"""`weft fake`: a model endpoint that answers from a script."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from ..home import Home
from ..lazy import examples
from ..options import runs
from ..output import say

__all__ = ["command"]

_APIS: tuple[Literal["responses", "chat", "messages"], ...] = ("responses", "chat", "messages")


@click.command(
    "fake",
    epilog=examples(
        "weft fake demo.toml --port 4010",
        "OPENAI_BASE_URL=http://127.0.0.1:4010/v1 OPENAI_API_KEY=none weft exec 'hello'",
    ),
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="[default: a free one]")
@click.option(
    "--format",
    "apis",
    type=click.Choice(_APIS),
    multiple=True,
    help="Speak only this; may be given again  [default: all three]",
)
@runs
async def command(home: Home, *, script: Path, port: int, apis: tuple[str, ...]) -> None:
    """Serve SCRIPT on the loopback interface until interrupted.

    It speaks the Responses, Chat Completions and Messages formats over real HTTP,
    with the errors, delays and cuts that the script asks for. Every request is listed.
    """
    import asyncio

    from ...loopback import Request
    from ...testing.fake import FakeServer
    from ...testing.script import load_script

    def told(request: Request) -> None:
        say(f"{request.method} {request.path} {len(request.body)} bytes")

    del home
    chosen = tuple(api for api in _APIS if not apis or api in apis)
    async with FakeServer(load_script(script), port=port, apis=chosen, on_request=told) as server:
        root = server.base_url
        say(f"OPENAI_BASE_URL={root}")
        say(f"ANTHROPIC_BASE_URL={root.removesuffix('/v1')}")
        await asyncio.get_running_loop().create_future()
