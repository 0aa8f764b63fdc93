"""Transports: from a server's settings to the streams that the SDK talks over.

Owns which program is started with which variables, and which headers go to which address.
Invariant: values of secrets are in the environment of the process or in the headers of the
request, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from ..config.mcp_settings import McpServerSettings
from ..core.redact import add_secrets
from ..core.search_path import explain_missing, find_program
from .mcp_errors import ServerUnavailable
from .message_mending import mend_streams
from .server_process import ServerProcess, server_environment
from .server_settings import shows_secret
from .stdio import open_stdio

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

__all__ = ["open_transport"]


@asynccontextmanager
async def open_transport(
    name: str,
    settings: McpServerSettings,
    *,
    environ: Mapping[str, str],
    cwd: Path,
    auth: Any,
    lost: asyncio.Event,
    on_refusal: Callable[[], None],
) -> AsyncIterator[TransportStreams]:
    """Open the streams to a server, and set `lost` when they end by themselves.

    `on_refusal` is called when a server over HTTP knows our session no more. Raises
    `ServerUnavailable`.
    """
    if settings.url is None:
        async with _open_process(name, settings, environ, cwd, lost) as streams:
            yield streams
    else:
        async with _open_http(settings, environ, auth, on_refusal) as streams:
            yield mend_streams(streams)


@asynccontextmanager
async def _open_process(
    name: str,
    settings: McpServerSettings,
    environ: Mapping[str, str],
    cwd: Path,
    lost: asyncio.Event,
) -> AsyncIterator[TransportStreams]:
    command = settings.command or ""
    # A repository must not choose what a runner such as npx finds where it starts.
    place = (cwd / settings.cwd).absolute() if settings.cwd else Path(environ.get("HOME") or "/")
    program = _find(name, command, place, environ)
    _learn_secrets(settings.env)
    env = server_environment(environ, settings.env_vars, settings.env)
    try:
        process = ServerProcess.start((program, *settings.args), cwd=place, env=env)
    except (OSError, ValueError) as error:
        raise ServerUnavailable(name, f"{command!r} cannot be started: {error}") from error
    watching = asyncio.create_task(_watch(process, lost))
    try:
        async with open_stdio(process) as streams:
            yield streams
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) or not await process.has_ended():
            raise
        raise ServerUnavailable(name, _end_text(process)) from error
    finally:
        watching.cancel()
        await process.stop()


def _find(name: str, command: str, place: Path, environ: Mapping[str, str]) -> str:
    if "/" in command:
        program = place / command
        if not os.access(program, os.X_OK) or program.is_dir():
            raise ServerUnavailable(name, f"{str(program)!r} is no program that can be started")
        return str(program)
    search = environ.get("PATH", os.defpath)
    found = find_program(command, search)
    if found is None:
        raise ServerUnavailable(name, explain_missing(command, f"{command!r}", search))
    return str(found)


async def _watch(process: ServerProcess, lost: asyncio.Event) -> None:
    await process.wait()
    lost.set()


def _end_text(process: ServerProcess) -> str:
    code = process.code or 0
    how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
    said = f": {process.last_words[:300]}" if process.last_words else ""
    return f"it ended {how}{said}"


@asynccontextmanager
async def _open_http(
    settings: McpServerSettings,
    environ: Mapping[str, str],
    auth: Any,
    on_refusal: Callable[[], None],
) -> AsyncIterator[TransportStreams]:
    headers = dict(settings.headers)
    for header, variable in settings.env_headers.items():
        if environ.get(variable):
            headers[header] = environ[variable]
            add_secrets(environ[variable])
    token = environ.get(settings.bearer_token_variable or "", "")
    if token:
        headers["Authorization"] = f"Bearer {token}"
        add_secrets(token)
    _learn_secrets(headers)

    async def look(response: httpx2.Response) -> None:
        # One that was started again: it has looked at nothing that we sent.
        if response.status_code == 404 and "mcp-session-id" in response.request.headers:
            on_refusal()

    # Whoever waits for an answer has a limit; a call is silent while its user is asked.
    timeout = httpx2.Timeout(30.0, read=None)
    assert settings.url is not None, "an address is looked at before"
    async with (
        httpx2.AsyncClient(
            headers=headers, timeout=timeout, auth=auth, event_hooks={"response": [look]}
        ) as client,
        streamable_http_client(settings.url, http_client=client) as streams,
    ):
        yield streams


def _learn_secrets(values: Mapping[str, str]) -> None:
    """Know what looks like a secret, so that it is in no log and no text for a model."""
    add_secrets(*(text for name, text in values.items() if shows_secret(name, text)))
