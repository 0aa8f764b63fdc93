"""`treadle acp`: editors and evaluations drive threads over the Agent Client Protocol."""

from __future__ import annotations

import subprocess
from typing import Any

import click

from ... import __version__
from ...core.errors import ConfigError
from ...core.install import install_command
from ..cli_home import Home
from ..command_options import runs
from ..lazy_group import examples
from ..run_options import take_run_options, with_run_options

__all__ = ["command"]


@click.command(
    "acp",
    epilog=examples(
        "treadle acp",
        "treadle acp --model anthropic:claude-opus-5-5 --engine lossless",
        "treadle acp --sandbox read-only",
    ),
)
@click.argument("login", nargs=-1, metavar="")
@with_run_options
@runs
async def command(home: Home, login: tuple[str, ...], **asked: Any) -> None:
    """Serve an editor over the Agent Client Protocol.

    The editor starts it and talks to it on standard input and output; it ends when that closes.
    One process serves many sessions. A session is a thread: `treadle show`, `treadle web` and
    all other commands see it, and it can be continued in the terminal. Commands run in the
    sandbox. What the editor chooses for a session wins over these options.
    """
    if login:
        # How clients start the sign-in that the agent has offered them.
        raise click.exceptions.Exit(_sign_in(home, login))
    try:
        from ...acp.agent import TreadleAgent
        from ...acp.serving import serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the package {error.name!r} is not installed; {install_command('acp')} adds it"
        ) from None
    from importlib.util import find_spec

    from ..acp_home import AcpHome

    options = take_run_options(asked)
    options.flags()  # what contradicts itself is refused before the first session
    agent = TreadleAgent(
        AcpHome(home, options), __version__, takes_servers=find_spec("mcp") is not None
    )
    await serve(agent)


def _sign_in(home: Home, login: tuple[str, ...]) -> int:
    if login[:2] != ("auth", "add"):
        raise click.UsageError(f"`treadle acp` takes no words: {' '.join(login)!r}")
    from ..acp_home import own_command

    command = [*own_command(home), *login]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - our own program
