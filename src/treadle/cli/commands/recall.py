"""`treadle recall`: search all threads, and print the entries that were found."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import click

from ...store.contract import HitReasons, Hits, Index, Search, SearchMode, Store
from ...store.indexing_beside import IndexesBeside
from ..batch import Batch, item_json
from ..cli_home import Home
from ..command_options import as_json, runs
from ..durations import parse_moment
from ..entry_ranges import (
    OpenedEntry,
    RecallRange,
    entry_id,
    named_threads,
    open_ranges,
    parse_range,
)
from ..lazy_group import examples
from ..output import iso, printable, say, say_json, working

__all__ = ["answer_at_once", "command"]

_MUCH = 2_000
"""From this many new entries on, the progress of indexing is shown."""
_PASSAGE = 2
"""Entries before and after a result that are one passage with it."""
_ADDED = ("pairs", "meaning", "reply", "window", "stretch")
"""What is added to the words of a passage."""
_EVERYTHING = 10_000_000
"""A number of tokens that is larger than any entry with its neighbours."""


class _Recall(click.Group):
    """A group that treats everything except the name of a command as a search."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the name of the search command when no command is named."""
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args.insert(0, "search")
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the usage of a search, which is the most common use."""
        formatter.write_usage(ctx.command_path, "QUERY [OPTIONS] | show ID | expand ID...")


class _Moment(click.ParamType):  # type: ignore[type-arg] # generic only for type checkers
    """A time: a date, a date with a time of day, or how long ago."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return milliseconds since 1970."""
        try:
            return parse_moment(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(
    "recall",
    cls=_Recall,
    epilog=examples(
        'treadle recall "why did we drop the cache"',
        "treadle recall show last:12",
        "treadle recall expand last:12-40",
    ),
)
@as_json
def command(as_json: bool) -> None:
    """Search all threads, and print the entries that were found.

    The words of QUERY can have any form and any order. Entries with more of the words, and with
    rarer words, come first. "Quoted words" are searched as a phrase. `treadle recall search
    --help` lists the options of a search. To search for the word `show` or `expand`, use
    `treadle recall search show`.
    """
    del as_json


@command.command(
    "search",
    epilog=examples(
        'treadle recall search "flaky test" --role user --since 7d',
        "treadle recall search ZeroDivision --mode substring --json",
        "treadle recall search --batch < questions.jsonl",
    ),
)
@click.argument("query", required=False)
@click.option("--thread", "threads", multiple=True, help="Search only this thread (id or title).")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Print at most this many results.",
)
@click.option("--role", "roles", multiple=True, help="Only entries of this role: user, tool …")
@click.option("--tool", "tools", multiple=True, help="Only calls of this tool and their outputs.")
@click.option("--since", type=_Moment(), help="Only entries since this time: 2026-11-15, or 7d.")
@click.option("--until", type=_Moment(), help="Only entries until this time.")
@click.option(
    "--mode",
    type=click.Choice(("words", "substring", "regex")),
    default="words",
    show_default=True,
    help="How to read QUERY; with `substring` and `regex`, the newest entries come first.",
)
@click.option(
    "--passages",
    is_flag=True,
    help="Leave out results that stand up to two entries beside a better one.",
)
@click.option(
    "--index", "index_all", is_flag=True, help="Index everything before, also by meaning."
)
@click.option("--why", is_flag=True, help="Say of each result why it was found.")
@click.option("--batch", is_flag=True, help="Read queries as JSON lines from standard input.")
@as_json
@runs
async def search(
    home: Home,
    *,
    query: str | None,
    threads: tuple[str, ...],
    limit: int,
    roles: tuple[str, ...],
    tools: tuple[str, ...],
    since: int | None,
    until: int | None,
    mode: SearchMode,
    passages: bool,
    index_all: bool,
    why: bool,
    batch: bool,
    as_json: bool,
) -> None:
    """Search all threads, or those that --thread names.

    With --batch, each line of standard input is `{"id", "query", "thread"?, "limit"?}`, and
    each result is one line of JSON.
    """
    if batch == (query is not None) and not (index_all and query is None):
        raise click.UsageError("Give either a QUERY or --batch.")
    made = home.has_log()
    async with home.store() as store, home.index(store, in_memory=not made) as index:
        wanted = await _threads(store, threads)
        if index_all:
            await _index_everything(index)
        if query is None and not batch:
            await _tell_coverage(index, as_json=as_json)
            return
        if query is None:
            await _prepare(index, wanted)
            await Batch(store, index, limit, wanted).run()
            return
        asked = Search(
            query,
            mode=mode,
            threads=wanted,
            roles=roles,
            tools=tools,
            since=since,
            until=until,
            limit=limit,
            neighbours=_PASSAGE if passages else 0,
            distinct=passages,
            explain=why,
            wait_for_vectors=True,
        )
        if not as_json and sys.stdout.isatty():
            await answer_at_once(index, asked)
            return
        await _prepare(index, wanted)
        hits = await index.search(asked, catch_up=False)
        if as_json:
            known = {"index": await index.coverage()} if isinstance(index, IndexesBeside) else {}
            say_json({"items": list(map(item_json, hits)), "note": hits.note, **known})
            return
    _print(query, hits)


async def _index_everything(index: Index) -> None:
    """Index all words, then all meanings, with progress."""
    await _prepare(index, None)
    if isinstance(index, IndexesBeside):
        with working("indexing by meaning") as tell:
            await index.build_vectors(
                progress=lambda done, total: tell(f"vectors: {done:,} of {total:,} entries")
            )


async def _tell_coverage(index: Index, *, as_json: bool) -> None:
    assert isinstance(index, IndexesBeside), "so are all that a home has"
    coverage = await index.coverage()
    if as_json:
        say_json({"index": coverage})
    else:
        say(coverage.told)


async def _threads(store: Store, names: Sequence[str]) -> tuple[str, ...] | None:
    found = [thread for name in names for thread in await named_threads(store, name)]
    return tuple(dict.fromkeys(found)) if names else None


async def _prepare(index: Index, threads: Sequence[str] | None) -> None:
    """Index new entries; show the progress when there are many."""
    with working("searching") as tell:

        def progress(done: int, total: int) -> None:
            if total > _MUCH:
                tell(f"indexing {done:,} of {total:,} entries")

        await index.catch_up(threads, progress=progress)


async def answer_at_once(index: Index, asked: Search) -> None:
    """Print what the newest entries say, index the others, and print what those add.

    The first index of a large home takes minutes; whoever waits for an answer need not.
    """
    with working("searching"):
        hits = await index.search(asked)
    if hits or not hits.left:
        _print(asked.text, hits)
    if not hits.left:
        return
    say("this is from the newest entries; the others are being indexed, Ctrl-C ends it for now")
    await _prepare(index, asked.threads)
    shown = {(hit.thread, hit.seq) for hit in hits}
    found = await index.search(asked, catch_up=False)
    older = Hits([hit for hit in found if (hit.thread, hit.seq) not in shown], found.note)
    if older or not shown:
        _print(asked.text, older)
    else:
        say("nothing better was found in the others")


def _print(query: str, hits: Hits) -> None:
    words = re.findall(r"\w{3,}", query)
    pattern = re.compile("|".join(map(re.escape, words)) or r"(?!)", re.IGNORECASE)
    for hit in hits:
        told = [f"turn {hit.turn}"] if hit.turn else []
        heading = " · ".join([entry_id(hit.thread, hit.seq), hit.role, iso(hit.time), *told])
        click.secho(printable(heading), bold=True)
        shown = pattern.sub(
            lambda found: click.style(found[0], fg="yellow"), printable(hit.snippet)
        )
        click.echo("  " + shown.replace("\n", "\n  "))
        if hit.why is not None:
            click.echo(f"  because of {printable(explain(hit.score, hit.why))}")
        click.echo()
    if not hits:
        say(f"nothing was found for {query!r}; try other words, or --mode substring")
    if hits.note:
        click.echo(printable(hits.note), err=True)


def explain(score: float, why: HitReasons) -> str:
    """Return why a result was found, in a line."""
    added = [*why.words.items(), *((name, getattr(why, name)) for name in _ADDED)]
    sums = [f"{name} {value:.1f}" for name, value in added if value]
    factors = [f"{name} times {value:.2f}" for name, value in why.factors.items() if value != 1.0]
    return f"{' + '.join(sums)}{''.join(f', {each}' for each in factors)} = {score:.1f}"


@command.command(
    "show",
    epilog=examples("treadle recall show last:12", "treadle recall show thr_1a2b:12 --context 5"),
)
@click.argument("name", metavar="ID")
@click.option(
    "--context",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="How many entries before and after it to print.",
)
@as_json
@runs
async def show(home: Home, name: str, context: int, as_json: bool) -> None:
    """Print an entry that was found, and the entries around it."""
    async with home.store() as store:
        at = await parse_range(store, name)
        reach = context * 20
        around = RecallRange(at.thread, max(1, at.first - reach), at.last + reach)
        opened = await open_ranges(home, store, [str(around)], _EVERYTHING)
    before = [one for one in opened.entries if one.seq < at.first]
    here = [one for one in opened.entries if at.first <= one.seq <= at.last]
    after = [one for one in opened.entries if one.seq > at.last]
    shown = [*before[len(before) - context :], *here, *after[:context]]
    if as_json:
        say_json({"id": name, "entries": shown})
        return
    for one in shown:
        _print_entry(one, marked=one in here and context > 0)
    if not here:
        say(f"{at} has no text; `treadle show {at.thread} --all` prints it")


@command.command(
    "expand",
    epilog=examples(
        "treadle recall expand last:12-40",
        "treadle recall expand sum_0a1b2c3d4e5f6071 --tokens 8000",
    ),
)
@click.argument("names", metavar="ID|RANGE|SUMMARY...", nargs=-1, required=True)
@click.option(
    "--tokens",
    type=click.IntRange(min=1),
    default=4_000,
    show_default=True,
    help="Print at most about this many tokens.",
)
@as_json
@runs
async def expand(home: Home, names: tuple[str, ...], tokens: int, as_json: bool) -> None:
    """Print entries, ranges and the entries behind summaries, up to a number of tokens.

    RANGE is THREAD:FIRST-LAST. The last line names the ranges that did not fit.
    """
    async with home.store() as store:
        opened = await open_ranges(home, store, names, tokens)
    if as_json:
        say_json(opened)
        return
    for one in opened.entries:
        _print_entry(one)
    if opened.rest:
        say(f"more: treadle recall expand {' '.join(opened.rest)}")


def _print_entry(one: OpenedEntry, *, marked: bool = False) -> None:
    told = [f"turn {one.turn}"] if one.turn else []
    heading = " · ".join([one.id, one.role, iso(one.time), *told])
    click.secho(("» " if marked else "") + printable(heading), bold=True)
    say("\n".join(f"  {line}".rstrip() for line in one.text.split("\n")))
    say("")
