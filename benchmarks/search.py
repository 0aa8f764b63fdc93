"""Search at growing sizes: what indexing costs, how fast answers come, and how good they are.

A made-up corpus is written through the store and indexed as `treadle recall` does. Latencies
are medians, also of CPU time, which a busy machine moves less. Recall is the share of
needles among the first hits, asked for in their own words (five hits) and in others about
the same names (ten).

    python -m benchmarks.search [--sizes 1000,100000] [--rounds 15] [--home DIR] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from treadle.core.entries import Draft
from treadle.core.items import FunctionCallOutput, InputText, Message, OutputText, encode_item
from treadle.store import Change, SqliteIndex, SqliteStore
from treadle.store.contract import Search

from .corpus import Corpus

Results: TypeAlias = dict[str, float]

CHUNK = 2_000
"""Messages of one transaction."""
THREAD = 10_000
"""Messages of one thread."""


async def main() -> None:
    options = arguments()
    results = {}
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.home) as directory:
            results[size] = await measure(Path(directory), Corpus(size), options.rounds)
    print(json.dumps(results, indent=2) if options.json else table(results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",")],
        default=[1_000, 10_000, 100_000, 1_000_000],
    )
    return parser.parse_args()


async def measure(home: Path, corpus: Corpus, rounds: int) -> Results:
    async with await SqliteStore.open(home) as store:
        results = await write_corpus(store, corpus)
        index = SqliteIndex(store, home)
        started, busy = time.perf_counter(), time.process_time()
        await index.catch_up()
        results["index, µs a message"] = (time.perf_counter() - started) / corpus.size * 1e6
        results["index, µs of CPU"] = (time.process_time() - busy) / corpus.size * 1e6
        results |= await latencies(index, corpus, rounds)
        results |= await quality(index, corpus)
        await index.close()
    return results | sizes(home, corpus)


async def write_corpus(store: SqliteStore, corpus: Corpus) -> Results:
    spent, messages = 0.0, corpus.messages()
    for _ in range(0, corpus.size, THREAD):
        lease = await store.acquire((await store.create()).id)
        for _ in range(0, THREAD, CHUNK):
            drafts = tuple(draft(*message) for message in islice(messages, CHUNK))
            started = time.perf_counter()
            await store.commit(lease, Change(entries=drafts))
            spent += time.perf_counter() - started
        await lease.release()
    return {"log, µs a message": spent / corpus.size * 1e6}


def draft(role: str, text: str) -> Draft:
    if role == "tool":
        return Draft(body=encode_item(FunctionCallOutput(call_id="c", output=text)))
    part = InputText(text) if role == "user" else OutputText(text)
    return Draft(body=encode_item(Message(role=role, content=(part,))))


def sizes(home: Path, corpus: Corpus) -> Results:
    return {
        f"{name}, bytes a message": sum(path.stat().st_size for path in home.glob(f"{name}.db*"))
        / corpus.size
        for name in ("log", "index")
    }


async def latencies(index: SqliteIndex, corpus: Corpus, rounds: int) -> Results:
    needle = corpus.needles[len(corpus.needles) // 2]
    common, rare = "error", needle.words.split()[0]
    asked = {
        "a common word": Search(common),
        "a rare word": Search(rare),
        "three common words": Search("file test number"),
        "a question": Search(needle.paraphrase),
        "a common word in a thread": Search(common, threads=(await a_thread(index),)),
        "a substring": Search("visionErr", mode="substring"),
        "a regular expression": Search(r"Errno \d+\] Connection", mode="regex"),
        "two characters": Search("接続"),
    }
    figures: Results = {}
    for name, query in asked.items():
        figures[f"{name}, ms"], figures[f"{name}, ms of CPU"] = await latency(index, query, rounds)
    return figures


async def a_thread(index: SqliteIndex) -> str:
    return (await index.search("error", limit=1))[0].thread


async def latency(index: SqliteIndex, query: Search, rounds: int) -> tuple[float, float]:
    took, busy = [], []
    for _ in range(rounds):
        started, worked = time.perf_counter(), time.process_time()
        await index.search(query)
        took.append(time.perf_counter() - started)
        busy.append(time.process_time() - worked)
    return statistics.median(took) * 1e3, statistics.median(busy) * 1e3


async def quality(index: SqliteIndex, corpus: Corpus) -> Results:
    own = [(needle.words, needle.text) for needle in corpus.needles]
    other = [(needle.paraphrase, needle.text) for needle in corpus.needles]
    return {
        "needles in the first 5, %": await measure_search(index, own, 5),
        "paraphrases in the first 10, %": await measure_search(index, other, 10),
    }


async def measure_search(index: SqliteIndex, asked: Sequence[tuple[str, str]], first: int) -> float:
    good = 0
    for question, text in asked:
        hits = await index.search(Search(question, limit=first), catch_up=False)
        good += any(hit.snippet.strip("…") in text for hit in hits)
    return 100 * good / len(asked)


def table(results: dict[int, Results]) -> str:
    lines = ["| messages |" + "".join(f" {size:,} |" for size in results)]
    lines.append("|---|" + "---|" * len(results))
    for name in next(iter(results.values())):
        cells = "".join(f" {figures[name]:,.1f} |" for figures in results.values())
        lines.append(f"| {name} |{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    asyncio.run(main())
