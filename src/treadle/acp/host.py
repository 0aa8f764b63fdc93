"""The host of the sessions: where threads live and how they are opened.

Owns the interface between the protocol and that place, and the values that pass it. Invariant:
only `open_session` leads to a thread that is written; every refusal is a `TreadleError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from ..core.entries import Entry
from ..mcp.server_settings import McpServer
from ..prompt.input import UserPart
from ..thread.thread import Thread

__all__ = [
    "AcpHost",
    "Choice",
    "KeyVariable",
    "Login",
    "OpenedSession",
    "SessionPage",
    "SessionRequest",
    "Setting",
    "SettingName",
    "SlashCommand",
    "ThreadSummary",
]

SettingName: TypeAlias = Literal["model", "mode", "thought_level", "engine"]
"""What a client may choose for a session; the names are categories of the protocol."""


class SessionRequest(Struct, frozen=True, kw_only=True):
    """A session that a client wants to have open."""

    cwd: Path
    thread: str | None = None
    """None for a new thread."""
    servers: tuple[McpServer, ...] = ()
    """MCP servers that the client brings."""
    directories: tuple[Path, ...] = ()
    """Further directories in which commands may write."""
    chosen: dict[SettingName, str] = {}
    """What the client has chosen in place of the settings."""


class Choice(Struct, frozen=True):
    """A value that a setting can have."""

    value: str
    name: str
    description: str = ""


class Setting(Struct, frozen=True):
    """A setting of a session, with all values that a client may choose."""

    name: SettingName
    title: str
    description: str
    value: str
    choices: tuple[Choice, ...]


class SlashCommand(Struct, frozen=True):
    """A command that a user may type at the beginning of a prompt."""

    name: str
    description: str
    hint: str = ""
    """What may follow it."""


class ThreadSummary(Struct, frozen=True, kw_only=True):
    """A thread in a list; the time is in milliseconds since 1970."""

    id: str
    cwd: str
    title: str
    updated: int


class SessionPage(Struct, frozen=True):
    """Threads, the most recently written first."""

    threads: tuple[ThreadSummary, ...]
    more: bool = False


class KeyVariable(Struct, frozen=True):
    """The variable from which the key of a provider is read."""

    provider: str
    variable: str


class Login(Struct, frozen=True, kw_only=True):
    """How the user may sign in to the provider of the configured model."""

    key: KeyVariable | None = None
    """None where the model needs no key."""
    arguments: tuple[str, ...] = ()
    """How this program stores a key on a terminal; empty where that is not possible."""
    command: tuple[str, ...] = ()
    """The same, as a whole command."""


class OpenedSession(Protocol):
    """A thread that is open for a client."""

    @property
    def thread(self) -> Thread:
        """The thread, which this process writes."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What of the session is not as the client wanted it."""
        ...

    def settings(self) -> tuple[Setting, ...]:
        """Return the settings with their present values. Blocks on files."""
        ...

    def commands(self) -> tuple[SlashCommand, ...]:
        """Return the commands that a prompt may begin with. Blocks on files."""
        ...

    async def expand(self, name: str, arguments: str) -> tuple[UserPart, ...] | None:
        """Return what a command says to the model; None where it is no such command."""
        ...

    def history(self) -> AsyncGenerator[Entry, None]:
        """Yield the entries that people are shown, in log order."""
        ...

    async def title(self) -> str:
        """Return the name of the thread; empty before anything was said."""
        ...

    async def missing_key(self) -> str:
        """Return why no request could be sent now; empty where one could."""
        ...


class AcpHost(Protocol):
    """The home that is served."""

    def open_session(self, asked: SessionRequest) -> AbstractAsyncContextManager[OpenedSession]:
        """Open a thread for writing. Raises `ThreadBusy` where somebody else writes it.

        A thread that is made here is kept, also as long as nothing was said in it.
        """
        ...

    async def forget_if_empty(self, thread: str) -> None:
        """Delete a thread in which nothing was ever said."""
        ...

    async def sessions(self, cwd: Path | None, skip: int, limit: int) -> SessionPage:
        """Return the threads of a directory, or all, behind the first `skip`."""
        ...

    async def fork(self, thread: str) -> str:
        """Create a thread that shares all entries of another one; return its id."""
        ...

    async def delete(self, thread: str) -> None:
        """Delete a thread for good."""
        ...

    def login(self) -> Login:
        """Return how the user may sign in."""
        ...
