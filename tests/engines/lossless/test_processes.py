from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.harness.scenes import last

from .scenes import Speaker, check, keeping, summaries, talk, words

ROOT = Path(__file__).parents[3]
TURNS = int(os.environ.get("SOAK_ROUNDS", "8"))

READER = """
import asyncio, sys
from pathlib import Path
from treadle.engines.lossless.library import Library
from treadle.store import SqliteStore
from treadle.store.contract import Search
from treadle.store.index import SqliteIndex

place, thread = Path(sys.argv[1]), sys.argv[2]


async def main():
    store = await SqliteStore.open(place / "home")
    index = SqliteIndex(store, place / "home")
    library = Library(place / "lossless.db")
    rounds = found = 0
    print("ready", flush=True)
    while not (place / "enough").exists() or rounds < 3:
        rounds += 1
        found += len(await index.search(Search("src/part_1.py", threads=(thread,), limit=5)))
        nodes = await library.nodes_of_thread(thread)
        assert set(await library.nodes(node.id for node in nodes)) == {node.id for node in nodes}
        await library.last_committed_entry(thread)
        await library.jobs()
    for each in (library, index, store):
        await each.close()
    print(found, flush=True)


asyncio.run(main())
"""

COMMAND = """
import os, subprocess, sys
from pathlib import Path

place, thread = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
rounds = 0
while not (place / "enough").exists() or rounds < 2:
    rounds += 1
    done = subprocess.run(
        [sys.executable, "-c", "from treadle.cli import main; main()", "recall", "part", "--json"],
        env={**os.environ, "TREADLE_HOME": str(place / "home")},
        capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "lock" not in done.stderr, done.stderr
print(rounds, flush=True)
"""


async def started(script: str, *arguments: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def test_eight_processes_search_while_one_writes(tmp_path: Path):
    async with keeping(tmp_path, Speaker()) as (thread, engine):
        await talk(thread, f"Begin with src/part_1.py. {words(1, 100)}")
        scripts = [READER] * 7 + [COMMAND]
        starting = (started(script, str(tmp_path), thread.id) for script in scripts)
        readers = await asyncio.gather(*starting)
        for number in range(2, 2 + TURNS):
            heard = await talk(thread, f"{number}: src/part_{number}.py {words(number, 400)} look")
            assert last(heard).status == "completed"
        (tmp_path / "enough").touch()
        ends = [await reader.communicate() for reader in readers]
        assert [
            (reader.returncode, error) for reader, (_, error) in zip(readers, ends, strict=True)
        ] == [(0, b"")] * 8
        assert all(int(found) > 0 for found, _ in ends)
        assert summaries(thread)
        await check(thread, engine.library)
