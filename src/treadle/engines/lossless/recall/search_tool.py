"""The tool `recall_search`: search everything that was said and done.

Owns how hits are shown. Invariant: every line of a result begins with the id that opens
it, and a result never grows beyond what a model can read at once.
"""

# No postponed annotations: tools are made of them, and evaluating text takes time.

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ....core.errors import SearchRefused
from ....store.contract import Hit, Hits, Search
from ....tools.contract import ToolContext, ToolResult
from .record_texts import Record, entry_id, format_time, records_of
from .resolver import RecallRefused, Resolver

__all__ = ["SearchTool"]

_MOST_BYTES = 40_000
_LAST_LINE = 80
"""Bytes that are reserved for the line about what was left out."""
_SNIPPET_CHARS = 400
_NEIGHBOUR_CHARS = 160
_SPARE_HITS = 10
"""How many more hits are asked for, because some only repeat earlier results."""

_ALL_THREADS = "*"
_Role: TypeAlias = Literal["user", "assistant", "tool", "thinking", "agent"]
_Time: TypeAlias = Annotated[
    str, Meta(max_length=40, description="A date or a time, such as 2026-01-31T15:00; UTC.")
]


class SearchTool(Struct):
    """Holds the function behind the tool; a model reads its docstring."""

    resolver: Resolver

    async def recall_search(
        self,
        query: Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1_000,
                description='What to look for; "quoted phrases" count more.',
            ),
        ],
        context: ToolContext,
        *,
        mode: Annotated[
            Literal["words", "substring", "regex"],
            Meta(description="Any of the words, the text as it stands, or a regular expression."),
        ] = "words",
        thread: Annotated[
            str,
            Meta(
                max_length=100,
                description="Another thread's id, or * for all you may read; else this one.",
            ),
        ] = "",
        roles: Annotated[tuple[_Role, ...], Meta(description="Only what these said.")] = (),
        tools: Annotated[
            tuple[str, ...], Meta(max_length=20, description="Only calls and results of these.")
        ] = (),
        since: _Time = "",
        until: _Time = "",
        limit: Annotated[int, Meta(ge=1, le=50)] = 10,
        neighbours: Annotated[
            int, Meta(ge=0, le=5, description="How many entries beside each hit to show.")
        ] = 2,
    ) -> ToolResult:
        """Search everything that was said and done in this thread, also what left the context.

        Each line is [thread:seq] who, when: an excerpt. Open an id with recall_expand.
        """
        try:
            search = Search(
                query,
                mode=mode,
                threads=None if thread == _ALL_THREADS else (thread or context.thread,),
                roles=roles,
                tools=tools,
                since=_parse_time("since", since),
                until=_parse_time("until", until),
                limit=limit + _SPARE_HITS,
                neighbours=neighbours,
                distinct=mode == "words",
                snippet=_SNIPPET_CHARS * 4 // 5,
            )
            if thread != _ALL_THREADS:
                await self.resolver.log_of(context.thread, thread)
            hits = await (await self.resolver.log_of(context.thread)).find(search)
            return ToolResult(await self._render(context, query, hits, limit))
        except (RecallRefused, SearchRefused) as error:
            return ToolResult(f"recall_search failed: {error}", success=False)

    async def _render(self, context: ToolContext, query: str, hits: Hits, limit: int) -> str:
        known = await self._read_hits(context.thread, hits)
        found = [hit for hit in hits if _hit_id(hit) in known and not known[_hit_id(hit)].is_echo]
        if not found:
            none = "Nothing was found; try other words, or mode substring for a part of a name."
            return f"{none}\n{hits.note}".rstrip()
        from ....store.search.terms import parse_query  # loaded by what has searched already

        neighbours = known.keys() - set(map(_hit_id, found))
        needles = [term.needle for term in parse_query(query).terms]
        lines: list[str] = []
        spare = min(_MOST_BYTES, context.output_limit or _MOST_BYTES) - _LAST_LINE - len(hits.note)
        for at, hit in enumerate(found[:limit]):
            block = _hit_block(hit, known, neighbours, needles)
            spare -= len(block.encode()) + 1
            if spare < 0:
                left = len(found[:limit]) - at
                lines.append(f"{left} more hits are left out; narrow the search.")
                break
            lines.append(block)
        return "\n".join(filter(None, (*lines, hits.note)))

    async def _read_hits(self, reader: str, hits: Sequence[Hit]) -> dict[str, Record]:
        """Return hits and their neighbours, by their ids."""
        wanted: dict[str, set[int]] = defaultdict(set)
        for hit in hits:
            wanted[hit.thread].update(hit.neighbours, (hit.seq,))
        known: dict[str, Record] = {}
        for thread, entries in wanted.items():
            log = await self.resolver.log_of(reader, thread)
            conversation = await log.spans([(seq, seq) for seq in sorted(entries)])
            known |= {record.id: record for record in records_of(thread, conversation)}
        return known


def _hit_id(hit: Hit) -> str:
    return entry_id(hit.thread, hit.seq)


def _hit_block(
    hit: Hit, known: dict[str, Record], neighbours: set[str], needles: Sequence[str]
) -> str:
    """Return a hit between its neighbours; each of `neighbours` is shown once and removed."""
    near = {entry_id(hit.thread, seq) for seq in hit.neighbours} & neighbours
    neighbours -= near
    records = sorted((known[id_] for id_ in near), key=lambda record: record.seq)
    before = [_neighbour_line(record, needles) for record in records if record.seq < hit.seq]
    after = [_neighbour_line(record, needles) for record in records if record.seq > hit.seq]
    snippet = _shorten(hit.snippet, _SNIPPET_CHARS)
    line = f"[{_hit_id(hit)}] {hit.role or 'entry'}, {format_time(hit.time)}: {snippet}"
    return "\n".join((*before, line, *after))


def _neighbour_line(record: Record, needles: Sequence[str]) -> str:
    """Return what of a neighbour has words of the query; its beginning where it has none."""
    from ....store.search.reader import best_snippet

    shown = best_snippet(record.text, needles, _NEIGHBOUR_CHARS * 4 // 5)
    return f"    [{record.seq}] {record.role}: {_shorten(shown, _NEIGHBOUR_CHARS)}"


def _shorten(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _parse_time(name: str, text: str) -> int | None:
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise RecallRefused(
            f"{name!r} is {text!r}; write a date or a time such as 2026-01-31T15:00"
        ) from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
