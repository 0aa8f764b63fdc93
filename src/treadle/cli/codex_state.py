"""The state of Codex: its version, whether it answers, and the bound threads.

Owns what `treadle codex` and `treadle doctor` tell. Invariant: a Codex is tried in a home that
is thrown away, asks no model, and is gone when the trial is over.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..config import Settings
from ..core.errors import ConfigError, NotFound
from ..harness.codex.app_server import AppServer
from ..harness.codex.binding import KEY, TOPIC, Binding, read_binding
from ..harness.codex.codex_home import CodexHome
from ..harness.codex.errors import CodexError, LoginMissing
from ..harness.codex.version import (
    SUPPORTED_VERSIONS,
    choose_codex,
    probe_version,
    supported_versions,
    version_problem,
)
from ..store.contract import Store

__all__ = [
    "CodexState",
    "ThreadBinding",
    "bindings",
    "codex_binary",
    "codex_state",
    "missing_codex_login",
]


class CodexState(Struct, frozen=True, kw_only=True):
    """The facts about the installed Codex."""

    binary: str | None = None
    version: str | None = None
    supported: str = str(SUPPORTED_VERSIONS)
    """The versions that Treadle supports."""
    home: str
    """Its ``CODEX_HOME``."""
    whose: str
    projection: str
    starts: bool | None = None
    """Whether its app-server answers; None when that was not tested."""
    problem: str | None = None
    """The problem, and the next action."""


class ThreadBinding(Struct, frozen=True, kw_only=True):
    """A thread, and the Codex thread that shows its view."""

    thread: str
    title: str
    codex: str
    model: str
    engine: str
    epoch: int
    """The entry that its view is based on."""
    projection: str
    tools: str
    """The fingerprint of the tools that it was started with; empty for none."""
    since: int
    reason: str
    """Why it replaced the binding before it."""
    codex_version: str
    turn: int
    rollout: str | None


async def codex_state(
    settings: Settings, home: Path, environ: Mapping[str, str], *, start: bool = True
) -> CodexState:
    """Inspect Codex; with `start`, also start its app-server and wait for its handshake."""
    asked = settings.codex
    place = CodexHome.below(home) if asked.home == "private" else CodexHome.of_user(environ)
    state = CodexState(home=str(place.directory), whose=asked.home, projection=asked.projection)
    try:
        binary = await codex_binary(settings, environ)
    except ConfigError as error:
        return replace(state, problem=str(error))
    state = replace(state, binary=str(binary))
    try:
        version = await probe_version(binary)
    except CodexError as error:
        return replace(state, problem=str(error))
    problem = version_problem(version, supported_versions(allow_newer=asked.allow_newer))
    state = replace(state, version=None if version is None else str(version), problem=problem)
    if not start or problem is not None:
        return state
    problem = await _start_problem(binary, environ, allow_newer=asked.allow_newer)
    return replace(state, starts=problem is None, problem=problem)


def missing_codex_login(environ: Mapping[str, str]) -> str:
    """Return that the user's own Codex has no login, and the remedy; empty if it may have one.

    With settings of its own the login may be elsewhere, or none needed: a turn asks Codex.
    """
    place = CodexHome.of_user(environ).directory
    may_have_one = (place / "auth.json").exists() or (place / "config.toml").exists()
    return "" if may_have_one else str(LoginMissing(place))


async def bindings(store: Store) -> list[ThreadBinding]:
    """Return the bindings of all threads that ran on Codex, the newest first."""
    rows = [row for row in await store.outbox(topic=TOPIC) if row.key == KEY]
    found = [(row.thread, binding) for row in rows if (binding := read_binding(row)) is not None]
    told = [await _describe_binding(store, thread, binding) for thread, binding in found]
    return sorted(told, key=lambda each: (-each.since, each.thread))


async def _describe_binding(store: Store, thread: str, binding: Binding) -> ThreadBinding:
    try:
        title = (await store.info(thread)).title
    except NotFound:
        title = ""
    return ThreadBinding(
        thread=thread,
        title=title,
        codex=binding.codex,
        model=binding.model,
        engine=binding.engine,
        epoch=binding.base,
        projection=binding.mode,
        tools=binding.tools,
        since=binding.since,
        reason=binding.reason,
        codex_version=binding.codex_version,
        turn=binding.turn,
        rollout=binding.path,
    )


async def codex_binary(settings: Settings, environ: Mapping[str, str]) -> Path:
    """Return the Codex that is used. Raises `ConfigError` if there is none."""
    named, newer = settings.codex.binary, settings.codex.allow_newer
    if named is not None:
        return await asyncio.to_thread(Path(named).expanduser)
    return await choose_codex(environ.get("PATH"), allow_newer=newer)


async def _start_problem(
    binary: Path, environ: Mapping[str, str], *, allow_newer: bool
) -> str | None:
    """Return why the app-server does not answer; None when it does."""
    with tempfile.TemporaryDirectory(prefix="treadle-codex-") as scratch:
        home = CodexHome.below(Path(scratch))
        launch = await asyncio.to_thread(home.prepare, binary, environ)
        server = AppServer(launch, supported=supported_versions(allow_newer=allow_newer))
        try:
            await server.connection()
        except CodexError as error:
            return str(error)
        finally:
            await server.close()
    return None
