"""Measure what a summary costs without the model: reading, rendering, checking.

A source of 20,000 tokens of made-up work is read into passages, rendered as a prompt,
searched for facts and extracted. Figures are medians of interleaved rounds, and how many of
the facts an extract of 512 and one of 2,400 tokens keeps, with and without its expand line.

    python -m benchmarks.summaries [--rounds 30] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable

from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    OutputText,
)
from treadle.engines.lossless.writing.extract import extract
from treadle.engines.lossless.writing.key_facts import find_facts, missing_facts
from treadle.engines.lossless.writing.passages import passages
from treadle.engines.lossless.writing.source import SummarySource, source_tokens, summary_body
from treadle.engines.lossless.writing.summary_prompts import render_passages
from treadle.engines.values import ContextItem

TOKENS = 20_000
WORDS = [f"word{n}" for n in range(600)]


def made_up_work(seed: int = 1) -> SummarySource:
    """Return turns of a person, an agent and its commands."""
    chance = random.Random(seed)
    items: list[ContextItem] = []
    while sum(len(one.body) for one in items) < TOKENS * 4:
        items += map(ContextItem.of, turn(chance, len(items)))
    return SummarySource(items=tuple(items))


def turn(chance: random.Random, number: int) -> list[Item]:
    path = f"src/part{chance.randrange(9)}/module_{chance.randrange(40)}.py"
    code, call_id = chance.choice([0, 0, 1]), f"call_{number}"
    text = f"Mend {path}: step_{number} fails because {prose(chance, 30)}."
    output = f"{prose(chance, 700)}\nE   KeyError: 'field_{number}'" if code else prose(chance, 900)
    report = f"Wall time: 0.1000 seconds\nProcess exited with code {code}\nOutput:\n{output}"
    arguments = json.dumps({"cmd": f"pytest -q {path}", "workdir": "/repo"})
    return [
        Message(role="user", content=(InputText(text),)),
        FunctionCall(name="exec_command", arguments=arguments, call_id=call_id),
        FunctionCallOutput(call_id=call_id, output=report),
        Message(role="assistant", content=(OutputText(f"I decided to keep {path}. {text}"),)),
    ]


def prose(chance: random.Random, words: int) -> str:
    lines = (" ".join(chance.choices(WORDS, k=12)) for _ in range(max(words // 12, 1)))
    return "\n".join(lines)


def measure(source: SummarySource, rounds: int) -> dict[str, float]:
    """Return the milliseconds of each part."""
    pieces = passages(source)
    parts: dict[str, Callable[[], object]] = {
        "read": lambda: passages(source),
        "show": lambda: render_passages(pieces),
        "facts": lambda: find_facts(pieces),
        "extract": lambda: extract(source),
    }
    taken: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(rounds):
        for name, part in parts.items():
            start = time.perf_counter()
            part()
            taken[name].append((time.perf_counter() - start) * 1e3)
    return {name: round(statistics.median(values), 2) for name, values in taken.items()}


def share_of_facts(source: SummarySource, target: int) -> dict[str, float]:
    """Return which part of the facts an extract has in its body, and with its last line."""
    facts = find_facts(passages(source))
    text = extract(source, target).text
    return {
        where: round(1 - len(missing_facts(facts, part)) / len(facts), 3)
        for where, part in (("body", summary_body(text)), ("with expand line", text))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    source = made_up_work()
    times = measure(source, options.rounds)
    shares = {target: share_of_facts(source, target) for target in (512, 2_400)}
    if options.json:
        print(json.dumps({"tokens": source_tokens(source), "ms": times, "kept": shares}))
        return
    print(f"a source of {source_tokens(source)} tokens")
    for name, value in times.items():
        print(f"  {name:8} {value:8.2f} ms")
    for target, share in shares.items():
        shares_text = ", ".join(f"{part:.0%} {where}" for where, part in share.items())
        print(f"  facts kept in {target} tokens: {shares_text}")


if __name__ == "__main__":
    main()
