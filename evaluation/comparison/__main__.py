"""Run the comparison, and write its part of `docs/evaluation.md`.

    python -m evaluation.comparison                        # the stand-in answers; no key
    python -m evaluation.comparison --model gpt-5.5 --upstream https://api.openai.com

With `--upstream` a real model answers (the key is in OPENAI_API_KEY), and the columns are filled
that only it can fill: what was solved, and how many facts were kept.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

from treadle.evaluation.task import Task, find_tasks

from .compared import COMMITTED, Compared
from .contenders import CONTENDERS, Contender
from .page import write_page
from .stand_in import steps_of
from .trial import TrialResult, run_trial

TASKS = Path(__file__).parent.parent / "tasks"
RUNS = Path(__file__).parent / ".runs"
LONG = ("treadle", "lossless", "codex", "codex-alone", "bare", "mini")
SHORT = ("treadle", "codex", "codex-alone", "bare", "mini")
LONG_TASK = "long-grand-hotel"


def main() -> None:
    """Run what was asked for."""
    asked = _arguments()
    results = Compared.begun(asked.model, real=asked.upstream is not None)
    if asked.more and COMMITTED.exists():
        results = Compared.read(COMMITTED)
    asyncio.run(_compare(asked, results))
    results.write(COMMITTED)
    write_page(results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evaluation.comparison")
    parser.add_argument("--model", default="gpt-5.5")
    parser.add_argument("--upstream", help="the address of a real provider, without /v1")
    parser.add_argument("--only", default="plain,killed,long")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--more", action="store_true", help="keep what is not measured again")
    return parser.parse_args()


async def _compare(asked: argparse.Namespace, results: Compared) -> None:
    tasks = find_tasks([TASKS])
    short = [task for task in tasks if len(steps_of(task)) < 20]
    long = [task for task in tasks if task.name == LONG_TASK]
    parts = asked.only.split(",")
    if "plain" in parts:
        results.plain = await _run_all(SHORT, short, asked)
        results.write(COMMITTED)
    if "killed" in parts:
        # Every second one: each has two processes, and they take their time.
        results.killed = await _run_all(SHORT, short[::2], asked, kills=True)
        results.write(COMMITTED)
    if "long" in parts:
        results.long = await _run_all(LONG, long, asked)


async def _run_all(
    names: tuple[str, ...], tasks: list[Task], asked: argparse.Namespace, *, kills: bool = False
) -> list[TrialResult]:
    found = []
    for task in tasks:
        # Everybody is killed at the same request of a task; the first one looks around.
        chance = random.Random(f"{asked.seed}:{task.name}")
        kill_at = chance.randint(2, len(steps_of(task)) + 2) if kills else None
        there = [CONTENDERS[name] for name in names if CONTENDERS[name].is_there]
        found += [await _run_one(contender, task, asked, kill_at) for contender in there]
    return found


async def _run_one(
    contender: Contender, task: Task, asked: argparse.Namespace, kill_at: int | None
) -> TrialResult:
    began = time.monotonic()
    place = RUNS / contender.name / task.name
    result = await run_trial(
        contender, task, place, model=asked.model, upstream=asked.upstream, kill_at=kill_at
    )
    took = time.monotonic() - began
    reward = "not graded" if result.reward is None else f"{result.reward:g}"
    told = f"{contender.title}, {task.name}: {result.figures.requests} requests, reward {reward}"
    print(f"{told}, {took:.0f} s {result.error[-300:]}".rstrip(), file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    main()
