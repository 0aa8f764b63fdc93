"""Snapshots: what a server offered when it was last asked.

Owns the value, its digest, and the files in which a home keeps the newest of each server.
Invariants: everything that a model is told of a server comes from a snapshot, never from the
live server; the digest names the bytes; a file that cannot be read counts as missing.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from msgspec import Struct

from ..core.files import read_bounded, replace_file
from ..core.typed import decode_json
from ..core.wire import UNREADABLE, json_bytes
from .server_settings import McpServer
from .tool_list import ToolRecord

__all__ = ["PromptRecord", "ServerSnapshot", "SnapshotFiles"]

_log = logging.getLogger(__name__)
_LARGEST = 64 << 20
_DIRECTORY = "mcp"


class PromptRecord(Struct, frozen=True, omit_defaults=True):
    """A prompt that a server offers to people."""

    name: str
    description: str = ""
    arguments: tuple[tuple[str, str, bool], ...] = ()
    """Name, description, and whether it is required."""


class ServerSnapshot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one server offered."""

    server: str
    made_for: str
    """The digest of the server's settings: another program is another server."""
    version: str
    """The version of the protocol that was agreed on."""
    title: str = ""
    instructions: str = ""
    tools: tuple[ToolRecord, ...] = ()
    prompts: tuple[PromptRecord, ...] = ()
    has_resources: bool = False

    @property
    def body(self) -> bytes:
        """Return the bytes that the digest names."""
        return json_bytes(self)

    @property
    def digest(self) -> str:
        """Return the digest of everything a model could be told."""
        return hashlib.sha256(self.body).hexdigest()

    @property
    def is_stateless(self) -> bool:
        """Return whether the server speaks the protocol without a handshake."""
        return self.version >= "2026-07-28"

    def tools_for(self, server: McpServer) -> tuple[ToolRecord, ...]:
        """Return the tools that the settings in force let through.

        Settings may have changed since the server was asked.
        """
        wanted, unwanted = server.settings.enabled_tools, server.settings.disabled_tools
        if wanted is None and not unwanted:
            return self.tools
        return tuple(
            tool
            for tool in self.tools
            if tool.name not in unwanted and (wanted is None or tool.name in wanted)
        )

    @classmethod
    def read(cls, body: bytes) -> ServerSnapshot | None:
        """Return the snapshot in `body`; None where it is none."""
        try:
            found = decode_json(body, cls)
        except UNREADABLE:
            return None
        assert isinstance(found, cls)
        return found


class SnapshotFiles(Struct, frozen=True):
    """The newest snapshot of each server, in a directory of a home."""

    directory: Path

    @classmethod
    def in_home(cls, home: Path) -> SnapshotFiles:
        """Return those of a home."""
        return cls(home / _DIRECTORY)

    def load(self, server: McpServer) -> ServerSnapshot | None:
        """Return the snapshot of a server, if it is one of the same program or address."""
        try:
            body = read_bounded(self._file(server), _LARGEST)
        except OSError:
            return None
        found = ServerSnapshot.read(body)
        if found is None:
            _log.warning("the snapshot of the MCP server %r cannot be read", server.name)
        return found if found is not None and found.made_for == server.digest else None

    def save(self, server: McpServer, snapshot: ServerSnapshot) -> None:
        """Keep a snapshot. Raises `OSError`."""
        replace_file(self._file(server), snapshot.body)

    def forget(self, name: str) -> None:
        """Remove what is known of a server."""
        for file in self.directory.glob(f"{name}-*.json"):
            file.unlink(missing_ok=True)

    def _file(self, server: McpServer) -> Path:
        # Two projects may each have a server of that name.
        return self.directory / f"{server.name}-{server.digest[7:23]}.json"
