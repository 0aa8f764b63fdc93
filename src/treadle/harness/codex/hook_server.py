"""The socket at which Codex's hooks reach Treadle.

Owns the socket and the events that arrive there. Invariants: it exists only while a thread
needs it, in a directory that commands in a sandbox cannot write to; an event of a thread that
runs no turn forbids its call.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from ...core.ids import new_id
from ...core.wire import NULL, json_bytes
from .hook_config import WatchedTools, client_command, hook_config

__all__ = ["LONGEST_EVENT", "AnswersHooks", "HookEvent", "HookServer", "deny"]

LONGEST_EVENT = 64 << 20
"""Bytes of an event that are read: it contains the output of a command."""

_log = logging.getLogger(__name__)


class HookEvent(Struct, frozen=True, kw_only=True):
    """What Codex tells a hook."""

    session_id: str
    """The id of the Codex thread."""
    hook_event_name: str
    tool_name: str = ""
    tool_input: Raw = NULL
    tool_use_id: str = ""
    tool_response: Raw = NULL


_events = msgspec.json.Decoder(HookEvent)

_KEEPS_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""Newer versions look at the path that was bound, which names a descriptor of the moment."""


def deny(reason: str) -> dict[str, Any]:
    """Return the answer that keeps a call from running; the model reads the reason."""
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


class AnswersHooks(Protocol):
    """A thread whose hooks ask."""

    async def answer_hook(self, event: HookEvent) -> dict[str, Any]:
        """Answer an event of Codex's hooks."""
        ...


class HookServer:
    """Answers the events of Codex's hooks; `find` returns the thread of an event."""

    def __init__(self, directory: Path, find: Callable[[str], AnswersHooks | None]) -> None:
        self._directory = directory
        self._name = f"{new_id('hook')}.sock"
        self._find = find
        self._server: asyncio.Server | None = None

    @property
    def is_listening(self) -> bool:
        """Say whether a thread has needed it."""
        return self._server is not None

    async def config(self, watched: WatchedTools) -> dict[str, Any]:
        """Return the settings of a Codex thread with these tools watched; listen, if any is."""
        if not watched.is_asked:
            return {}
        return hook_config(watched, await self._listen())

    async def _listen(self) -> str:
        """Listen, if that is not done yet; return the command that reaches the socket."""
        if self._server is None:
            await asyncio.to_thread(self._directory.mkdir, mode=0o700, parents=True, exist_ok=True)
            listening = _bind(self._directory, self._name)
            try:
                self._server = await asyncio.start_unix_server(
                    self._handle, sock=listening, **_KEEPS_FILE
                )
            except OSError:
                listening.close()
                (self._directory / self._name).unlink(missing_ok=True)
                raise
        return client_command(self._directory, self._name)

    async def close(self) -> None:
        """Stop listening."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            with suppress(OSError):
                (self._directory / self._name).unlink()

    async def _answer(self, event: HookEvent) -> dict[str, Any]:
        if (thread := self._find(event.session_id)) is not None:
            return await thread.answer_hook(event)
        asks = event.hook_event_name == "PreToolUse"
        return deny("this thread is not Treadle's any more") if asks else {}

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one event; whoever gets no answer keeps its call from running."""
        try:
            event = _events.decode(await _read(reader))
            writer.write(json_bytes(await self._answer(event)) + b"\n")
            await writer.drain()
        except (msgspec.DecodeError, OSError) as error:
            _log.warning("a hook of Codex's could not be answered: %s", error)
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return an event. Raises `OSError` for one that is too long."""
    data = bytearray()
    while chunk := await reader.read(1 << 16):
        data += chunk
        if len(data) > LONGEST_EVENT:
            raise OSError(f"it has more than {LONGEST_EVENT} bytes")
    return bytes(data)


def _bind(directory: Path, name: str) -> socket.socket:
    """Return a socket that only the user can reach, as `name` in `directory`."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # The path of a socket may have 107 bytes only; this one is short.
        short = Path(f"/proc/self/fd/{place}")
        listening.bind(str((short if short.exists() else directory) / name))
    except OSError:
        listening.close()
        raise
    finally:
        os.close(place)
    return listening
