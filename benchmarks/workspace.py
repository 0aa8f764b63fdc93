"""What looking at the workspace costs: the first scan, a scan that finds nothing, and one more.

A directory of 5,000 files is scanned as before and after the commands of a turn. Every round
also walks the directory and asks for the status of each file, which no scan can go below; what
counts is the median of each round's ratio.

    python -m benchmarks.workspace [--rounds 9] [--files 5000]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from treadle.workspace.disk_changes import scan_root
from treadle.workspace.file_history import open_history

CHANGED = 20
BODY = b"def function():\n    return 'a line of code, as long as lines are'\n" * 60


def fill(root: Path, files: int) -> None:
    """Make a directory of sources, a hundred in each directory."""
    for number in range(files):
        place = root / f"package{number // 100}"
        place.mkdir(exist_ok=True)
        (place / f"module{number}.py").write_bytes(b"# %d\n" % number + BODY)
    (root / ".gitignore").write_text("*.pyc\nbuild/\n/dist\n*.log\n")


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor and disk that `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def floor(root: Path) -> None:
    """Walk, and ask for the status of each file."""
    for place, _, names in os.walk(root):
        for name in names:
            os.lstat(f"{place}/{name}")


def scan(home: Path, root: Path) -> None:
    """One scan, as before the first command of a turn."""
    with open_history(home) as history:
        scan_root(history, root, frozenset())


def measure(files: int) -> dict[str, float]:
    """Seconds of each kind of scan, in a directory and a home of their own."""
    with tempfile.TemporaryDirectory() as directory:
        home, root = Path(directory, "home"), Path(directory, "project")
        for place in (home, root):
            place.mkdir()
        fill(root, files)
        time.sleep(0.1)  # a file that was just written is read again
        found = {"walk and stat": timed(lambda: floor(root))}
        found["first scan"] = timed(lambda: scan(home, root))
        found["nothing changed"] = timed(lambda: scan(home, root))
        for number in range(CHANGED):
            (root / f"package0/module{number}.py").write_bytes(b"# changed\n" + BODY)
        found[f"{CHANGED} files changed"] = timed(lambda: scan(home, root))
        return found


def main() -> None:
    """Print the medians and their ratios to the floor."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--files", type=int, default=5_000)
    given = parser.parse_args()
    seconds: dict[str, list[float]] = defaultdict(list)
    ratios: dict[str, list[float]] = defaultdict(list)
    for _ in range(given.rounds):
        found = measure(given.files)
        for name, took in found.items():
            seconds[name].append(took)
            ratios[name].append(took / found["walk and stat"])
    print(f"{given.files:,} files, {given.rounds} rounds")
    for name, took in seconds.items():
        middle, ratio = statistics.median(took), statistics.median(ratios[name])
        print(f"{name:<18} {1000 * middle:8.1f} ms  {ratio:5.1f} x")


if __name__ == "__main__":
    main()
