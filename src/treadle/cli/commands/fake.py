"""`treadle fake`: serve a script as a model endpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import click

from ...core.loopback import LoopbackRequest
from ...testing.fake import FakeServer
from ...testing.script import load_script
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import say, say_json

__all__ = ["command"]

_APIS: tuple[Literal["responses", "chat", "messages"], ...] = ("responses", "chat", "messages")


@click.command(
    "fake",
    epilog=examples(
        "treadle fake demo.toml --port 4010",
        "treadle fake demo.toml --format chat --json | jq -r .path",
    ),
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port  [default: a free one]"
)
@click.option(
    "--format",
    "apis",
    type=click.Choice(_APIS),
    multiple=True,
    help="Serve only this format; can be repeated  [default: all three]",
)
@as_json
@runs
async def command(
    home: Home, *, script: Path, port: int, apis: tuple[str, ...], as_json: bool
) -> None:
    """Serve SCRIPT as a model, on the loopback interface, until interrupted.

    Any client of the Responses, Chat Completions or Messages API can use it, the official
    ones too, with or without a stream. The command prints the addresses to give to clients,
    and then every request. A script is TOML (or one answer on each line, as JSON):

    \b
      [[answer]]                  # the first that fits and is left is given
      when = "tests"              # only if the newest messages contain this
      text = "I will run them."
      calls = [{ name = "exec_command", arguments = { cmd = "make test" } }]

    \b
      [[answer]]                  # an error instead of an answer
      when = "quickly"
      error = { status = 429, code = "rate_limit_exceeded", message = "slow down" }

    \b
      [[answer]]
      reasoning = "They pass."
      text = "All tests pass."
      times = 0                   # any number of times; once without it

    `delay`, `pace`, `cut`, `stall` and `stop` are faults; `usage` sets token counts. Requests
    may name any model. When no answer is left, the server answers 400 and says so.
    """  # noqa: D301 - click wants the character itself

    def print_request(request: LoopbackRequest) -> None:
        method, path, size = request.method, request.path, len(request.body)
        if as_json:
            say_json({"method": method, "path": path, "bytes": size})
        else:
            say(f"{method} {path} {size} bytes")

    del home
    chosen = tuple(api for api in _APIS if not apis or api in apis)
    async with FakeServer(
        load_script(script), port=port, apis=chosen, on_request=print_request
    ) as server:
        if as_json:
            say_json({"base_url": server.base_url})
        else:
            say(f"OPENAI_BASE_URL={server.base_url}")
            say(f"ANTHROPIC_BASE_URL={server.base_url.removesuffix('/v1')}")
        await asyncio.get_running_loop().create_future()
