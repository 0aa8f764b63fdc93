"""Looking: finding what was said.

Owns `recall_search`. Invariant: every line of a result begins with the id that opens it,
and a result never grows beyond what a model can read at once.
"""

# No postponed annotations: tools are made of them, and to read them from text takes its time.

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ....core.errors import SearchRefused
from ....store.contract import Hit, Hits, Search
from ....tools.contract import ToolContext, ToolResult
from .desk import Desk, Refusal
from .records import Record, entry_id, records_of, when

__all__ = ["Looking"]

_MOST_BYTES = 40_000
_LAST_LINE = 80
"""Bytes that are kept for what was left out."""
_SNIPPET = 400
_BESIDE = 160
"""Characters of an entry that stands beside a hit."""

_ECHOES = 10
"""How many more hits are looked at, because some only repeat earlier results."""

_EVERYWHERE = "*"
_Role: TypeAlias = Literal["user", "assistant", "tool", "thinking", "agent"]
_Time: TypeAlias = Annotated[
    str, Meta(max_length=40, description="A date or a time, such as 2026-01-31T15:00; UTC.")
]


class Looking(Struct):
    """The function behind the tool; its docstring is what a model reads."""

    desk: Desk

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
        ] = 1,
    ) -> ToolResult:
        """Search everything that was said and done in this thread, also what left the context.

        Each line is [thread:seq] who, when: an excerpt. Open an id with recall_expand.
        """
        try:
            asked = Search(
                query,
                mode=mode,
                threads=None if thread == _EVERYWHERE else (thread or context.thread,),
                roles=roles,
                tools=tools,
                since=_time("since", since),
                until=_time("until", until),
                limit=limit + _ECHOES,
                neighbours=neighbours,
            )
            if thread != _EVERYWHERE:
                await self.desk.log(context.thread, thread)
            hits = await (await self.desk.log(context.thread)).find(asked)
            return ToolResult(await self._told(context, hits, limit))
        except (Refusal, SearchRefused) as error:
            return ToolResult(f"recall_search failed: {error}", success=False)

    async def _told(self, context: ToolContext, hits: Hits, limit: int) -> str:
        known = await self._read(context.thread, hits)
        found = [hit for hit in hits if _id(hit) in known and not known[_id(hit)].echo]
        if not found:
            none = "Nothing was found; try other words, or mode substring for a part of a name."
            return f"{none}\n{hits.note}".rstrip()
        beside = known.keys() - set(map(_id, found))
        lines: list[str] = []
        spare = min(_MOST_BYTES, context.room or _MOST_BYTES) - _LAST_LINE - len(hits.note)
        for at, hit in enumerate(found[:limit]):
            block = _block(hit, known, beside)
            spare -= len(block.encode()) + 1
            if spare < 0:
                left = len(found[:limit]) - at
                lines.append(f"{left} more hits are left out; narrow the search.")
                break
            lines.append(block)
        return "\n".join(filter(None, (*lines, hits.note)))

    async def _read(self, reader: str, hits: Sequence[Hit]) -> dict[str, Record]:
        """Hits and their neighbours, by their ids."""
        wanted: dict[str, set[int]] = defaultdict(set)
        for hit in hits:
            wanted[hit.thread].update(hit.neighbours, (hit.seq,))
        known: dict[str, Record] = {}
        for thread, entries in wanted.items():
            log = await self.desk.log(reader, thread)
            said = await log.spans([(seq, seq) for seq in sorted(entries)])
            known |= {record.id: record for record in records_of(thread, said)}
        return known


def _id(hit: Hit) -> str:
    """The name of what was found."""
    return entry_id(hit.thread, hit.seq)


def _block(hit: Hit, known: dict[str, Record], beside: set[str]) -> str:
    """A hit between its neighbours; those in `beside` are shown once."""
    near = {entry_id(hit.thread, seq) for seq in hit.neighbours} & beside
    beside -= near
    records = sorted((known[id_] for id_ in near), key=lambda record: record.seq)
    before = [_beside(record) for record in records if record.seq < hit.seq]
    after = [_beside(record) for record in records if record.seq > hit.seq]
    line = f"[{_id(hit)}] {hit.role or 'entry'}, {when(hit.time)}: {_short(hit.snippet, _SNIPPET)}"
    return "\n".join((*before, line, *after))


def _beside(record: Record) -> str:
    return f"    [{record.seq}] {record.role}: {_short(record.text, _BESIDE)}"


def _short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _time(name: str, text: str) -> int | None:
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Refusal(
            f"{name!r} is {text!r}; write a date or a time such as 2026-01-31T15:00"
        ) from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
