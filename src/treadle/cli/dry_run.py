"""Dry runs: a thread as a turn would find it, without any change.

Owns how `treadle plan` opens a thread. Invariant: the log, the files of engines and the
state of profiles are never written, so it works beside a writer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from ..engines.contract import Disposes
from ..engines.loading import DEFAULT, EngineContext, engine_registry
from ..policy.auth.auth_state import AuthState, ProfileFacts
from ..policy.auth.order import Pin
from ..store.contract import Lease, Store
from ..store.index import SqliteIndex
from ..store.memory import MemoryStore
from ..thread.thread import Thread
from .chosen_channels import chosen_channels
from .mcp_threads import open_servers
from .output import printable
from .thread_setup import Setup, adapt, thread_options

if TYPE_CHECKING:
    from ..engines.contract import ContextEngine
    from ..thread.options import EngineOptions

__all__ = ["open_dry_run"]


@asynccontextmanager
async def open_dry_run(setup: Setup) -> AsyncIterator[Thread]:
    """Open the thread that `treadle exec` would open with this setup, to look at it only."""
    options = thread_options(setup)
    assert options.routing.credentials is not None, "settings always give one"
    options.routing.credentials.state = _TemporaryAuthState(setup.home)
    async with (
        _store(setup) as store,
        _engine(setup, options.engine) as engine,
        open_servers(setup.config, setup.home, setup.cwd) as servers,
        chosen_channels(setup.settings, os.environ, sys.stdout) as channels,
    ):
        index = SqliteIndex(store, None)
        chosen = msgspec.structs.replace(options.engine, engine=engine)
        tools = msgspec.structs.replace(options.tools, mcp=servers)
        options = options.with_changes(store=store, index=index, engine=chosen, tools=tools)
        try:
            async with Thread.open_with(options, setup.info.id if setup.info else None) as thread:
                # Only now: a thread that is opened with channels delivers what is left.
                thread.policy.options = options.with_changes(channels=channels)
                await adapt(thread, setup)
                yield thread
        finally:
            await index.close()


@asynccontextmanager
async def _store(setup: Setup) -> AsyncIterator[Store]:
    if setup.info is None:
        yield MemoryStore()
        return
    async with setup.place.store() as store:
        yield cast("Store", _ReadOnlyStore(store))


@asynccontextmanager
async def _engine(setup: Setup, options: EngineOptions) -> AsyncIterator[str | ContextEngine]:
    """Make the chosen engine without a directory for its files."""
    name = options.engine
    assert isinstance(name, str), "settings name engines"
    context = EngineContext(config=dict(options.config), cwd=setup.cwd)
    made = await engine_registry().resolve(name, context)
    if made.problem is not None:
        said = f"treadle: {made.problem}; the turn would run without engine {name!r}"
        click.echo(printable(said), err=True)
    if made.engine is None:
        yield DEFAULT
        return
    try:
        yield made.engine
    finally:
        await _dispose(made.engine)


async def _dispose(engine: ContextEngine) -> None:
    if isinstance(engine, Disposes):
        await engine.dispose()


class _ReadOnlyStore:
    """A store that is only read and gives leases that exclude nobody."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def acquire(self, thread: str) -> Lease:
        """Return a lease that excludes nobody."""
        return _NoLease(thread)


@dataclass(slots=True)
class _NoLease:
    """A lease that gives no right to write."""

    thread: str
    fence: int = -1

    async def release(self) -> None:
        """Do nothing."""


class _TemporaryAuthState(AuthState, frozen=True):
    """The stored state of profiles, with pins that last as long as this object."""

    pins: dict[str, Pin] = msgspec.field(default_factory=dict)

    def load(self, provider: str, thread: str) -> ProfileFacts:
        """Return the stored state with the pins of this object."""
        known = AuthState.load(self, provider, thread)
        return msgspec.structs.replace(known, pin=self.pins.get(thread, known.pin))

    def set_pin(self, pin: Pin) -> None:
        """Remember a pin in this object only."""
        self.pins[pin.thread] = pin
