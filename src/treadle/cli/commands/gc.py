"""`treadle gc`: delete what nobody needs any more."""

from __future__ import annotations

import asyncio

import click

from ...core.errors import StoreError
from ...store.shrink import free_bytes, shrink
from ...thread.retention import collect_garbage
from ..cli_home import LOG, Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import Column, say_json, shown_bytes, table, working

__all__ = ["command"]

_COLUMNS = (Column("WHAT"), Column("DELETED", right=True), Column("BYTES", right=True))
_DATABASES = (LOG, "index.db")


@click.command("gc", epilog=examples("treadle gc --dry-run", "treadle gc"))
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@as_json
@click.pass_obj
def command(home: Home, dry_run: bool, as_json: bool) -> None:
    """Delete what nobody needs any more, and give the space back to the disk.

    Copies of files that no turn can be rewound to, lock files of deleted threads, and free pages
    of the databases. No thread, fork or summary loses anything; `treadle prune` deletes threads.
    """
    with working("collecting"):
        rows = asyncio.run(_collect(home, dry_run=dry_run))
        rows += [_shrink(home, name, dry_run=dry_run) for name in _DATABASES]
    if as_json:
        say_json({what: {"deleted": count, "bytes": size} for what, count, size in rows})
        return
    table(_COLUMNS, [[what, _number(count), shown_bytes(size)] for what, count, size in rows])
    for what, count, _ in rows:
        if count is None and what in _DATABASES:
            click.echo(f"treadle: {what} is in use, so its free pages stay", err=True)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


async def _collect(home: Home, *, dry_run: bool) -> list[tuple[str, int | None, int]]:
    async with home.store() as store:
        found = await collect_garbage(store, home.path, dry_run=dry_run)
    return [
        ("copies of files", found.copies.copies, found.copies.bytes),
        ("lock files", found.locks, 0),
    ]


def _shrink(home: Home, name: str, *, dry_run: bool) -> tuple[str, int | None, int]:
    """Return the name of a database, 0 (None while it is in use), and what shrinking it frees."""
    path = home.path / name
    try:
        freed = free_bytes(path) if dry_run else shrink(path)
    except StoreError:
        freed = None
    return name, None if freed is None else 0, freed or 0
