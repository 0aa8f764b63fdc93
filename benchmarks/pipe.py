"""A command through the pipe beside the same command without it, in one run.

Both run `true` on this machine without a sandbox, in rounds that are interleaved, so the difference
is what the pipe adds: its messages, and a far end without compiled code. A second pipe waits a
millisecond in each direction, as a machine of the same city does. Medians and their ratio.

    python -m benchmarks.pipe [--rounds 200] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from treadle.sandbox.policy import SandboxPolicy
from treadle.tools.executor import Bounds, ProcessSpec, ToolExecutor
from treadle.tools.local import LocalExecutor
from treadle.tools.pipe import PipeExecutor

_SLOW = """
import os, queue, subprocess, sys, threading, time
far = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def pump(source, target):
    waiting = queue.Queue()
    def send():
        while item := waiting.get():
            due, data = item
            time.sleep(max(due - time.monotonic(), 0))
            os.write(target, data)
        os.close(target)
    threading.Thread(target=send, daemon=True).start()
    while data := os.read(source, 65536):
        waiting.put((time.monotonic() + 0.001, data))
    waiting.put(None)
threading.Thread(target=pump, args=(far.stdout.fileno(), 1), daemon=True).start()
pump(0, far.stdin.fileno())
far.wait()
"""
"""A command in front of another that delays each byte by a millisecond."""


async def measure(executor: ToolExecutor, place: Path) -> float:
    """Return how long one command took, in milliseconds."""
    bounds = Bounds(policy=SandboxPolicy(mode="danger-full-access"), workspace=place)
    began = time.perf_counter()
    process = await executor.start(ProcessSpec(argv=("true",), cwd=place, bounds=bounds))
    async for _ in process.output():
        pass
    await process.wait()
    return (time.perf_counter() - began) * 1000


async def run(rounds: int) -> dict[str, float]:
    """Measure all in turn; return medians in milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        began = time.perf_counter()
        pipe = await PipeExecutor.connect(("env",))
        connect = (time.perf_counter() - began) * 1000
        executors: dict[str, ToolExecutor] = {
            "local": LocalExecutor(home=place),
            "pipe": pipe,
            "pipe_1ms": await PipeExecutor.connect((sys.executable, "-c", _SLOW)),
        }
        taken: dict[str, list[float]] = {name: [] for name in executors}
        names = list(executors)
        for number in range(rounds + 5):
            # In turn: what one leaves to be done must not always meet the same other.
            for at in range(len(names)):
                name = names[(number + at) % len(names)]
                milliseconds = await measure(executors[name], place)
                if number >= 5:
                    taken[name].append(milliseconds)
        for executor in executors.values():
            await executor.close()
    medians = {name: statistics.median(values) for name, values in taken.items()}
    return {"connect": connect, **medians, "ratio": medians["pipe"] / medians["local"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = asyncio.run(run(asked.rounds))
    if asked.json:
        print(json.dumps(found))
        return
    print(f"connecting                      {found['connect']:7.1f} ms, once")
    print(f"a command on this machine       {found['local']:7.2f} ms")
    print(f"through the pipe                {found['pipe']:7.2f} ms, {found['ratio']:.2f} times")
    print(f"with 1 ms in each direction     {found['pipe_1ms']:7.2f} ms")


if __name__ == "__main__":
    main()
