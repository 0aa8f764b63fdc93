"""What the inspector answers for a short thread, beside the same for longer ones.

One home has threads of 1,000, 10,000 and 100,000 entries, in which the same work was done. A
server of its own is asked over HTTP, thread by thread in rounds that are interleaved: for the
first screen, the timeline, a part of the transcript, a request, the window, the overview. What
is printed are medians, and ratios to the shortest thread: reading a screenful should cost a
screenful. At the end, how much memory the server takes after all of that.

    python -m benchmarks.inspector [--entries 1000 10000 100000] [--rounds 15] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.web.inspector_home import make_long_thread

SCREENS = {
    "first screen": ("", "/ledger?limit=1", "/ledger?limit=90", "/epochs?limit=50"),
    "timeline, in the middle": ("/ledger?from={middle}&limit=90",),
    "breaks and epochs": ("/ledger/breaks?limit=3", "/epochs?limit=3"),
    "transcript, at the end": ("/entries?from={late}&limit=26", "/turns?limit=50"),
    "transcript, in the middle": ("/entries?from={half}&limit=26", "/turns?before={turn}&limit=50"),
    "a request, row by row": ("/requests/{middle}",),
    "two requests compared": ("/requests/{before}/diff/{middle}",),
    "the window now": ("/composition",),
    "sums over the whole thread": ("/ledger/overview?buckets=200",),
}
"""What a screen asks for, by its name."""


@contextmanager
def serving(home: Path) -> Iterator[tuple[httpx2.Client, int]]:
    """Start a server; yield a client of it and the id of its process."""
    command = [sys.executable, "-m", "treadle", "--home", str(home), "web", "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        bearer = {"authorization": f"Bearer {told['link'].partition('token=')[2]}"}
        try:
            with httpx2.Client(base_url=told["url"], headers=bearer, timeout=120) as client:
                yield client, process.pid
        finally:
            process.terminate()


def resident(pid: int) -> float:
    """Return how much memory a process has, in MB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def addresses(client: httpx2.Client, thread: str) -> dict[str, list[str]]:
    """Return what each screen of a thread asks for."""
    about = client.get(f"/api/threads/{thread}").json()
    middle = max(about["requests"] // 2, 2)
    places = {
        "middle": middle,
        "before": middle - 1,
        "half": about["entries"] // 2,
        "late": max(about["entries"] - 25, 1),
        "turn": max(about["turns"] // 2, 2),
    }
    base = f"/api/threads/{thread}"
    return {
        screen: [base + path.format(**places) for path in paths]
        for screen, paths in SCREENS.items()
    }


def measure(
    client: httpx2.Client, threads: Sequence[str], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Return seconds by screen and thread."""
    asked = {thread: addresses(client, thread) for thread in threads}
    took: dict[str, dict[str, list[float]]] = {
        screen: {thread: [] for thread in threads} for screen in SCREENS
    }
    for number in range(rounds + 1):
        for screen in SCREENS:
            for thread in threads:
                began = time.perf_counter()
                for path in asked[thread][screen]:
                    client.get(path).raise_for_status()
                if number:  # the first round fills what is remembered
                    took[screen][thread].append(time.perf_counter() - began)
    return took


def ratios(
    took: dict[str, dict[str, list[float]]], threads: Sequence[str]
) -> dict[str, list[float]]:
    """Return the medians of each screen: milliseconds of the first thread, then ratios to it."""
    found = {}
    for screen, times in took.items():
        medians = [statistics.median(times[thread]) for thread in threads]
        found[screen] = [medians[0] * 1000, *(each / medians[0] for each in medians[1:])]
    return found


def run(entries: Sequence[int], rounds: int) -> dict[str, Any]:
    """Make the threads, ask for every screen of them, and return what was measured."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place, "home")
        threads = [asyncio.run(make_long_thread(home, count)) for count in entries]
        with serving(home) as (client, pid):
            client.get("/api/threads").raise_for_status()
            measure(client, threads[:1], 3)
            before = resident(pid)
            took = measure(client, threads, rounds)
            after = resident(pid)
    return {
        "entries": list(entries),
        "screens": ratios(took, threads),
        "memory": {"with the shortest": before, "with all": after},
    }


def table(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table."""
    first, *others = found["entries"]
    yield f"| screen | {first:,} entries | {' | '.join(f'{each:,}' for each in others)} |"
    yield f"|---|---{'|---' * len(others)}|"
    for screen, (base, *rest) in found["screens"].items():
        yield f"| {screen} | {base:.1f} ms | {' | '.join(f'{each:.2f} times' for each in rest)} |"
    memory = found["memory"]
    grown = memory["with all"] - memory["with the shortest"]
    yield ""
    yield f"memory of the server: {memory['with the shortest']:.0f} MB, and {grown:.1f} MB more"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = run(asked.entries, asked.rounds)
    print(json.dumps(found) if asked.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
