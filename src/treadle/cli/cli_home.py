"""The home directory of a command.

Owns how commands get at the store and the index, and how they find the thread a
person means. Invariant: looking at a home never makes a log in it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

import click
from msgspec import Struct

from ..core.errors import NotFound
from ..core.redact import learn_environment
from ..store.contract import Index, Store, ThreadInfo

__all__ = ["LIBRARY", "LOG", "Home", "find_thread"]

LOG = "log.db"

LIBRARY = "engines/lossless/lossless.db"
"""Where the lossless engine keeps its summaries."""

_CANDIDATES = 5


class Home(Struct, frozen=True):
    """A directory with threads; `given` is None for the user's own home."""

    given: Path | None = None

    @property
    def path(self) -> Path:
        """Return its path; the first writer creates it."""
        if self.given is not None:
            return self.given.expanduser().absolute()
        from ..core.home import home_path

        place = home_path()
        if self.is_former:
            _warn_of_former_name(place)
        return place

    @property
    def is_former(self) -> bool:
        """Return whether it has the former name of this program."""
        from ..core.home import home_path, new_home_path

        return self.given is None and home_path() != new_home_path()

    @asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        """Open the store; it is empty where there is no log yet."""
        if not (self.path / LOG).exists():
            from ..store.memory import MemoryStore

            yield MemoryStore()
            return
        async with self.writable_store() as store:
            yield store

    @asynccontextmanager
    async def writable_store(self) -> AsyncIterator[Store]:
        """Open the store to write to; it is created where there is none."""
        from ..store.sqlite import SqliteStore

        _learn_secrets(self.path)
        async with await SqliteStore.open(self.path) as store:
            yield store

    @asynccontextmanager
    async def index(self, store: Store, *, in_memory: bool = False) -> AsyncIterator[Index]:
        """Open the index beside the log."""
        from ..store.index import SqliteIndex

        index = SqliteIndex(store, None if in_memory else self.path)
        try:
            yield index
        finally:
            await index.close()


def _learn_secrets(home: Path) -> None:
    """Know the keys of a home, so that no command writes them into a log or an export."""
    learn_environment(os.environ)
    if (home / "auth.json").exists():
        from ..policy.auth.credential import AuthError
        from ..policy.auth.secrets import SecretStore

        # Whoever needs them says what is wrong with them.
        with suppress(AuthError, OSError):
            SecretStore(home=home, keyring=None).profiles()


@cache
def _warn_of_former_name(place: Path) -> None:
    """Print once that a home of the former name is used, and how to move it."""
    from ..core.former_name import remember_telling

    if remember_telling(place):
        said = f"treadle: using {str(place)!r}, which has the former name of this program; "
        click.echo(f"{said}`treadle home migrate` moves it", err=True)


async def find_thread(store: Store, name: str) -> ThreadInfo:
    """Return the thread of that name: an id, its beginning or end, a title, or ``last``.

    Raises `NotFound`, or a `ClickException` that lists the candidates.
    """
    found = await _candidates(store, name)
    if not found:
        raise NotFound("thread", name, "`treadle threads` lists them, `treadle new` creates one")
    if len(found) > 1:
        listed = [f"  {info.id}  {info.title}".rstrip() for info in found[:_CANDIDATES]]
        more = len(found) - len(listed)
        listed += [f"  and {more} more"] if more else []
        raise click.ClickException(
            f"{name!r} matches {len(found)} threads; type more of the id:\n" + "\n".join(listed)
        )
    return found[0]


async def _candidates(store: Store, name: str) -> list[ThreadInfo]:
    if name == "last":
        return await store.threads(limit=1)
    if not name:
        return []
    threads = await store.threads()
    exact = [info for info in threads if info.id == name]
    titled = [info for info in threads if info.title == name]
    return (
        exact
        or titled
        or [
            info
            for info in threads
            if info.id.startswith((name, f"thr_{name}")) or info.id.endswith(name)
        ]
    )
