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
from ..core.former_name import remember_telling
from ..core.redact import learn_environment
from ..store.contract import Index, Store, ThreadInfo

__all__ = [
    "LIBRARY",
    "LOG",
    "Home",
    "current_directory",
    "find_thread",
    "is_same_directory",
    "last_thread",
]

LOG = "log.db"

LIBRARY = "engines/lossless/lossless.db"
"""Where the lossless engine keeps its summaries."""

_CANDIDATES = 5


class Home(Struct, frozen=True):
    """A directory with threads; `given` is None for the user's own home."""

    given: Path | None = None
    given_store: str | None = None
    """Where the user says that threads live; None: where the settings say."""

    @property
    def address(self) -> str | None:
        """Return the address of the database with the threads; None for the file in the home.

        Raises `ConfigError`.
        """
        from ..core.store_address import check_address

        named = self.given_store
        if not named and (self.path / "config.toml").exists():
            from ..config.config_file import ConfigFile

            file = ConfigFile.read(self.path / "config.toml")
            named = None if file is None else file.table.get("store")
        return check_address(named) if isinstance(named, str) and named else None

    def has_log(self) -> bool:
        """Return whether there are threads to look at, or a database where there may be some."""
        return self.address is not None or (self.path / LOG).exists()

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
        if not self.has_log():
            from ..store.memory import MemoryStore

            yield MemoryStore()
            return
        async with self.writable_store() as store:
            yield store

    @asynccontextmanager
    async def writable_store(self) -> AsyncIterator[Store]:
        """Open the store to write to; it is created where there is none."""
        _learn_secrets(self.path)
        if (address := self.address) is not None:
            from ..store.postgres.postgres_store import PostgresStore

            async with await PostgresStore.open(address) as database:
                yield database
            return
        from ..store.sqlite import SqliteStore

        async with await SqliteStore.open(self.path) as store:
            yield store

    @asynccontextmanager
    async def index(self, store: Store, *, in_memory: bool = False) -> AsyncIterator[Index]:
        """Open the index beside the log."""
        from ..store.shared_store import index_beside

        index = index_beside(store, None if in_memory else self.path)
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
    if remember_telling(place):
        said = f"treadle: using {str(place)!r}, which has the former name of this program; "
        click.echo(f"{said}`treadle home migrate` moves it", err=True)


async def find_thread(store: Store, name: str, where: Path | None = None) -> ThreadInfo:
    """Return the thread of that name: an id, its beginning or end, a title, or ``last``.

    ``last`` is the thread that was written last in the directory `where`, by default the
    current one. Raises `NotFound`, or a `ClickException` that lists the candidates.
    """
    if name == "last":
        return await last_thread(store, where or current_directory())
    found = await _candidates(store, name) or await _find_by_shown_name(store, name)
    if not found:
        raise NotFound("thread", name, "`treadle threads` lists them, `treadle new` creates one")
    if len(found) > 1:
        listed = [await _candidate_row(store, info) for info in found[:_CANDIDATES]]
        more = len(found) - len(listed)
        listed += [f"  and {more} more"] if more else []
        raise click.ClickException(
            f"{name!r} matches {len(found)} threads; type more of the id:\n" + "\n".join(listed)
        )
    return found[0]


async def _candidate_row(store: Store, info: ThreadInfo) -> str:
    from ..store.thread_names import thread_name

    return f"  {info.id}  {await thread_name(store, info)}".rstrip()


async def _find_by_shown_name(store: Store, name: str) -> list[ThreadInfo]:
    """Return the threads that are listed under that name, where nothing else has it."""
    from ..store.thread_names import thread_name

    untitled = [info for info in await store.threads() if name and not info.title]
    return [info for info in untitled if await thread_name(store, info) == name]


async def last_thread(store: Store, where: Path | None) -> ThreadInfo:
    """Return the thread that was written last in the directory `where`; None: of all.

    A thread that was only imported is never the last: nobody has worked in it here.
    Raises `NotFound`, which names the newest one elsewhere.
    """
    newest: ThreadInfo | None = None
    for info in await store.threads():
        if not info.cwd and await _is_only_imported(store, info):
            continue
        if where is None or not info.cwd or is_same_directory(info.cwd, where):
            return info
        newest = newest or info
    if newest is None:
        raise NotFound("thread", "last", "there is none yet; `treadle` starts one")
    raise NotFound(
        "thread of the directory",
        str(where),
        f"the newest elsewhere is {newest.id} in {newest.cwd!r}: name it, "
        "or use `--last --anywhere`",
    )


async def _is_only_imported(store: Store, info: ThreadInfo) -> bool:
    """Return whether the newest entry of a thread came from a file."""
    newest = await store.read(info.id, info.last, info.last) if info.last else []
    return bool(newest) and newest[0].source_id is not None


def current_directory() -> Path | None:
    """Return the current directory; None where it was removed."""
    try:
        return Path().absolute()
    except FileNotFoundError:
        return None


def is_same_directory(cwd: str, where: Path) -> bool:
    """Return whether a thread's directory is `where`, also by another path."""
    return os.path.realpath(cwd) == os.path.realpath(where)


async def _candidates(store: Store, name: str) -> list[ThreadInfo]:
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
