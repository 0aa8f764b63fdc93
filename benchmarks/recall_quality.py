"""How well recall finds what was said: made-up talks, questions whose evidence is known.

Every talk is a thread. Each question is asked within its thread; what is measured is the
share of its evidence among the first ten hits, and among ten passages of two turns around a
hit. With `--crowd` the home also holds so many messages of other talks in the same words.

    python -m benchmarks.recall_quality [--kind work|friends|neighbours] [--seeds 100-104]
                                        [--crowd 0] [--vectors] [--home DIR] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from treadle.core.entries import Draft
from treadle.core.items import FunctionCallOutput, InputText, Message, OutputText, encode_item
from treadle.store import Change, SqliteIndex, SqliteStore
from treadle.store.contract import Hit, Search

from .letters import FriendTalk
from .neighbours import NeighbourTalk
from .talks import Said, Talk, WorkTalk

KINDS: dict[str, type[WorkTalk | FriendTalk | NeighbourTalk]] = {
    "work": WorkTalk,
    "friends": FriendTalk,
    "neighbours": NeighbourTalk,
}
CROWD_SEED = 1_000_000
"""Seeds of the talks that only fill the home."""
FIRST = 10
REACH = 2
"""Turns before and after a hit that are shown with it."""


async def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.home) as directory:
        figures = await measure(
            Path(directory), options.kind, options.seeds, options.crowd, vectors=options.vectors
        )
    print(json.dumps(figures, indent=2) if options.json else table(figures))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kind", choices=tuple(KINDS), default="work")
    parser.add_argument("--seeds", type=seed_range, default=seed_range("100-104"))
    parser.add_argument("--crowd", type=int, default=0, help="messages of other talks")
    parser.add_argument("--vectors", action="store_true", help="with the extra `semantic`")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def seed_range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


async def measure(
    home: Path, kind: str, seeds: Iterable[int], crowd: int = 0, *, vectors: bool = False
) -> dict[str, float]:
    """Write the talks, ask all questions, and return the figures."""
    async with await SqliteStore.open(home) as store:
        index = SqliteIndex(store, home)
        await write_crowd(store, kind, crowd)
        asked = [(await write_talk(store, talk), talk) for talk in map_talks(kind, seeds)]
        await index.catch_up()
        if vectors:
            await index.build_vectors()
        figures = await ask_all(index, asked)
        await index.close()
    return figures


def map_talks(kind: str, seeds: Iterable[int]) -> Iterator[Talk]:
    return (KINDS[kind](seed).talk() for seed in seeds)


async def write_crowd(store: SqliteStore, kind: str, messages: int) -> None:
    """Fill the home with other talks of the kind, which use the same words."""
    seed = CROWD_SEED
    while messages > 0:
        talk = KINDS[kind](seed).talk()
        await write_talk(store, talk)
        messages -= len(talk.turns)
        seed += 1


async def write_talk(store: SqliteStore, talk: Talk) -> str:
    """Write a talk as a thread of its own; entry n is turn n."""
    thread = (await store.create()).id
    lease = await store.acquire(thread)
    await store.commit(lease, Change(entries=tuple(map(draft, talk.turns))))
    await lease.release()
    return thread


def draft(said: Said) -> Draft:
    if said.role == "tool":
        return Draft(
            body=encode_item(FunctionCallOutput(call_id="c", output=said.text)), time=said.time
        )
    part = InputText(said.text) if said.role == "user" else OutputText(said.text)
    return Draft(body=encode_item(Message(role=said.role, content=(part,))), time=said.time)


async def ask_all(index: SqliteIndex, asked: list[tuple[str, Talk]]) -> dict[str, float]:
    shares: dict[str, list[float]] = defaultdict(list)
    took: list[float] = []
    for thread, talk in asked:
        for question in talk.questions:
            started = time.perf_counter()
            hits = await index.search(
                Search(question.text, threads=(thread,), limit=50, wait_for_vectors=True),
                catch_up=False,
            )
            took.append(time.perf_counter() - started)
            wanted = set(question.evidence)
            turn = len(wanted & {hit.seq for hit in hits[:FIRST]}) / len(wanted)
            passage = len(wanted & shown(hits)) / len(wanted)
            for name in ("all", question.kind):
                shares[f"turns, {name}"].append(turn)
                shares[f"passages, {name}"].append(passage)
    figures = {name: statistics.mean(found) for name, found in sorted(shares.items())}
    figures["questions"] = len(took)
    figures["ms, median"] = statistics.median(took) * 1e3
    figures["ms, most"] = max(took) * 1e3
    return figures


def shown(hits: Iterable[Hit]) -> set[int]:
    """Return the turns in the first ten passages that say something new."""
    seen: set[int] = set()
    chosen: list[int] = []
    for hit in hits:
        if len(chosen) < FIRST and not any(abs(hit.seq - other) <= REACH for other in chosen):
            chosen.append(hit.seq)
            seen.update(range(hit.seq - REACH, hit.seq + REACH + 1))
    return seen


def table(figures: dict[str, float]) -> str:
    return "\n".join(f"{name:32} {figure:8.3f}" for name, figure in figures.items())


if __name__ == "__main__":
    asyncio.run(main())
