"""The agent: what a client can ask for.

Owns the sessions of one connection, and how each method of the protocol reaches them.
Invariants: an error names the cause and the next action; a session is open once; and when the
connection ends, every turn is interrupted and durable before `close` returns.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from acp.schema import (
    AcpMcpServer,
    AgentCapabilities,
    AuthenticateResponse,
    AuthEnvVar,
    ClientCapabilities,
    CloseSessionResponse,
    EnvVarAuthMethod,
    ForkSessionResponse,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    SseMcpServer,
    TerminalAuthMethod,
)

from acp import PROTOCOL_VERSION, RequestError

from ..core.errors import InvalidOption, NotFound, TreadleError
from .client_servers import client_servers
from .editor_session import Asks, Session
from .host import AcpHost, SessionRequest
from .prompt_blocks import Block
from .session_settings import MODE, config_options, mode_state, setting_name
from .standard_transport import DELETE_SESSION

__all__ = ["TreadleAgent"]

_PAGE = 50
_CLOSING = 4.0
"""Seconds in which turns must have become durable when the connection ends."""
_KEY, _TERMINAL = "environment-key", "terminal"
_OLDER_TERMINAL = "terminal-auth"
"""How clients, and the check of the registry, say that from before the protocol knew it."""

_Servers: TypeAlias = list[HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio]


class TreadleAgent:
    """Serves one client."""

    def __init__(self, host: AcpHost, version: str, *, takes_servers: bool) -> None:
        self._host, self._version, self._takes_servers = host, version, takes_servers
        self._client: Asks | None = None
        self._can = ClientCapabilities()
        self._sessions: dict[str, Session] = {}
        self._telling: set[asyncio.Future[None]] = set()

    def on_connect(self, conn: Any) -> None:
        """Take the connection to the client."""
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """Say what this agent can do."""
        del protocol_version, client_info
        self._can = client_capabilities or self._can
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="treadle", title="Treadle", version=self._version),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=self._takes_servers, sse=False),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    delete=SessionDeleteCapabilities(),
                    fork=SessionForkCapabilities(),
                    additional_directories=SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            auth_methods=self._auth_methods(),
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Look whether the key is there; storing one is the business of a terminal."""
        login = self._host.login()
        if method_id not in (_KEY, _TERMINAL):
            raise _refusal(f"there is no way to sign in called {method_id!r}")
        if method_id == _KEY and login.key is not None and not os.environ.get(login.key.variable):
            raise RequestError(
                -32000, f"{login.key.variable} is not set; set it for the agent and start it again"
            )
        return AuthenticateResponse()

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: _Servers | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        """Open a session on a new thread."""
        with _as_errors_of_the_protocol():
            asked = self._request(cwd, None, additional_directories, mcp_servers)
            session = await self._open(asked)
            settings = await asyncio.to_thread(session.settings)
        self._later(session.announce())
        return NewSessionResponse(
            session_id=session.id,
            config_options=config_options(settings),
            modes=mode_state(settings),
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: _Servers | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        """Open a thread that exists, and tell all of it."""
        with _as_errors_of_the_protocol():
            asked = self._request(cwd, session_id, additional_directories, mcp_servers)
            session = await self._open(asked)
            await session.replay()
            settings = await asyncio.to_thread(session.settings)
        self._later(session.announce())
        return LoadSessionResponse(
            config_options=config_options(settings), modes=mode_state(settings)
        )

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: _Servers | None = None,
        **_: Any,
    ) -> ResumeSessionResponse:
        """Open a thread that exists, whose past the client knows."""
        with _as_errors_of_the_protocol():
            asked = self._request(cwd, session_id, additional_directories, mcp_servers)
            session = await self._open(asked)
            settings = await asyncio.to_thread(session.settings)
        self._later(session.announce())
        return ResumeSessionResponse(
            config_options=config_options(settings), modes=mode_state(settings)
        )

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: _Servers | None = None,
        **_: Any,
    ) -> ForkSessionResponse:
        """Open a thread that begins as a copy of another one."""
        with _as_errors_of_the_protocol():
            if session_id in self._sessions:
                thread = await self._session(session_id).opened.thread.fork()
            else:
                thread = await self._host.fork(session_id)
            asked = self._request(cwd, thread, additional_directories, mcp_servers)
            session = await self._open(asked)
            settings = await asyncio.to_thread(session.settings)
        self._later(session.announce())
        return ForkSessionResponse(
            session_id=session.id,
            config_options=config_options(settings),
            modes=mode_state(settings),
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        """List the threads of a directory, or all."""
        skip = int(cursor) if cursor and cursor.isdecimal() and len(cursor) < 10 else 0
        with _as_errors_of_the_protocol():
            place = _directory(cwd) if cwd else None
            page = await self._host.sessions(place, skip, _PAGE)
        sessions = [
            SessionInfo(
                session_id=each.id,
                cwd=each.cwd,
                title=each.title or None,
                updated_at=datetime.fromtimestamp(each.updated / 1000, UTC).isoformat(),
            )
            for each in page.threads
        ]
        return ListSessionsResponse(
            sessions=sessions, next_cursor=str(skip + _PAGE) if page.more else None
        )

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """Close a session; its thread is kept."""
        with _as_errors_of_the_protocol():
            await self._sessions.pop(self._session(session_id).id).close()
        return CloseSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> PromptResponse:
        """Run a turn."""
        with _as_errors_of_the_protocol():
            return await self._session(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Interrupt the turn of a session; its prompt answers `cancelled`."""
        if session_id in self._sessions:
            self._sessions[session_id].cancel()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        """Choose a value of a setting, from the next turn on."""
        with _as_errors_of_the_protocol():
            session, name = self._session(session_id), setting_name(config_id)
            if name is None:
                raise InvalidOption(f"there is no setting {config_id!r}")
            await session.set(name, str(value))
            settings = await asyncio.to_thread(session.settings)
        if name == MODE:
            await session.tell_mode(str(value))
        return SetSessionConfigOptionResponse(config_options=config_options(settings))

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> SetSessionModeResponse:
        """Choose the mode, for clients that know no options."""
        with _as_errors_of_the_protocol():
            session = self._session(session_id)
            await session.set(MODE, mode_id)
            await session.tell_settings()
        return SetSessionModeResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer what the package does not route yet."""
        if method != DELETE_SESSION:
            raise RequestError.method_not_found(f"_{method}")
        thread = params.get("sessionId")
        if not isinstance(thread, str):
            raise _refusal("session/delete needs a 'sessionId'")
        with _as_errors_of_the_protocol():
            if thread in self._sessions:
                await self._sessions.pop(thread).close()
            await self._host.delete(thread)
        return {}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Take no notice of what nobody here knows."""

    async def close(self) -> None:
        """Interrupt what runs, and close all sessions."""
        sessions, self._sessions = tuple(self._sessions.values()), {}
        closing = [asyncio.ensure_future(each.close()) for each in sessions]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSING)

    def _auth_methods(self) -> list[Any]:
        login, methods = self._host.login(), list[Any]()
        if login.key is not None:
            methods.append(
                EnvVarAuthMethod(
                    id=_KEY,
                    type="env_var",
                    name=f"{login.key.variable} in the environment",
                    description=f"The key of {login.key.provider}",
                    vars=[AuthEnvVar(name=login.key.variable)],
                )
            )
        if login.arguments and self._has_terminal():
            name, (program, *arguments) = "Sign in on a terminal", login.command
            whole = {"command": program, "args": arguments, "env": {}, "label": name}
            methods.append(
                TerminalAuthMethod(
                    id=_TERMINAL,
                    type="terminal",
                    name=name,
                    description="Stores a key for later sessions",
                    args=list(login.arguments),
                    field_meta={_OLDER_TERMINAL: whole},
                )
            )
        return methods

    def _has_terminal(self) -> bool:
        """Return whether the client lets its user sign in on a terminal."""
        if self._can.auth is not None and self._can.auth.terminal:
            return True
        return bool((self._can.field_meta or {}).get(_OLDER_TERMINAL))

    def _request(
        self,
        cwd: str,
        thread: str | None,
        directories: list[str] | None,
        servers: _Servers | None,
    ) -> SessionRequest:
        return SessionRequest(
            cwd=_directory(cwd),
            thread=thread,
            directories=tuple(map(_directory, directories or ())),
            servers=client_servers(servers or []),
        )

    async def _open(self, asked: SessionRequest) -> Session:
        """Open a session; one that is open already is closed first."""
        assert self._client is not None, "a client is connected before it asks"
        if asked.thread in self._sessions:
            await self._sessions.pop(asked.thread).close()
        forms = self._can.elicitation is not None and self._can.elicitation.form is not None
        session = Session(self._host, asked, self._client, takes_forms=forms)
        await session.open()
        self._sessions[session.id] = session
        return session

    def _session(self, session: str) -> Session:
        if session not in self._sessions:
            hint = "session/load opens one that exists, session/new makes one"
            raise NotFound("open session", session, hint)
        return self._sessions[session]

    def _later(self, telling: Any) -> None:
        """Tell something after the answer of the present request."""
        asyncio.get_running_loop().call_soon(self._start, telling)

    def _start(self, telling: Any) -> None:
        task = asyncio.ensure_future(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


def _directory(name: str) -> Path:
    place = Path(name)
    if not place.is_absolute() or not place.is_dir():
        raise InvalidOption(f"{name!r} is not the absolute path of a directory")
    return place


def _refusal(text: str) -> RequestError:
    return RequestError(-32602, text)


@contextmanager
def _as_errors_of_the_protocol() -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise RequestError(-32002, str(error)) from None
    except InvalidOption as error:
        raise _refusal(str(error)) from None
    except TreadleError as error:
        raise RequestError(-32603, str(error)) from None
