"""What a model still knows after its conversation was folded: planted facts, asked for later.

    python -m benchmarks.quality                       # a stand-in for a model; no server needed
    python -m benchmarks.quality --base-url http://127.0.0.1:8080/v1 --model qwen2.5-coder
                                 [--key-variable NAME] [--window 16384] [--folds 3]
                                 [--languages en,de] [--conditions whole,linear,lossless,extracts]
                                 [--crowd 0,20000] [--most 8] [--asides 0.5]
                                 [--out quality]

`--out` gets `quality.md`, `quality.png` and `quality.json`. See docs/quality.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .planted import LANGUAGES, PlantedTalk, plant
from .report import draw, in_order, misses, table
from .stand_in import StandIn
from .trial import CONDITIONS, AskedModel, Outcome, hold_trial

STAND_IN = "stand-in"


def main() -> None:
    options = arguments()
    outcomes = in_order(asyncio.run(hold_trials(options)))
    shown = table(outcomes)
    missed = "\n".join(misses(outcomes))
    print(f"\n{shown}\n\n{missed}")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        title = f"{options.model}, window {options.window:,}, {options.folds} folds"
        options.out.joinpath("quality.md").write_text(f"{title}\n\n{shown}\n\n```\n{missed}\n```\n")
        found = {"model": options.model, "window": options.window, "folds": options.folds}
        trials = [outcome.to_dict() for outcome in outcomes]
        text = json.dumps({**found, "trials": trials}, indent=1, ensure_ascii=False)
        options.out.joinpath("quality.json").write_text(f"{text}\n")
        draw(outcomes, title, options.out / "quality.png")


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=STAND_IN)
    parser.add_argument("--base-url", default="")
    parser.add_argument("--key-variable", default="", help="where the key of the server stands")
    parser.add_argument("--window", type=int, default=16_384)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--most", type=int, help="facts of each source; all 8 by default")
    parser.add_argument("--asides", type=float, default=0.5, help="turns about nothing per fact")
    parser.add_argument("--languages", type=listed, default=[*LANGUAGES])
    parser.add_argument("--conditions", type=listed, default=[*CONDITIONS])
    parser.add_argument("--crowd", type=numbers, default=[0], help="messages of other threads")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(given)
    if (options.model == STAND_IN) == bool(options.base_url):
        parser.error("--model and --base-url go together: the name of a model, and its server")
    return options


def listed(text: str) -> list[str]:
    return text.split(",")


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


async def hold_trials(options: argparse.Namespace) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for language in options.languages:
        talk = plant(language, options.folds, most=options.most, asides=options.asides)
        for crowd in options.crowd:
            for condition in options.conditions:
                print(f"{language} {condition} {crowd or ''}", file=sys.stderr)
                with tempfile.TemporaryDirectory() as home:
                    async with asked_model(options, talk) as asked:
                        outcome = await hold_trial(
                            Path(home), talk, asked, condition, language=language, crowd=crowd
                        )
                outcomes.append(outcome)
    return outcomes


@asynccontextmanager
async def asked_model(options: argparse.Namespace, talk: PlantedTalk) -> AsyncIterator[AskedModel]:
    """Name the model of the user's server; without one, start the stand-in."""
    if options.base_url:
        yield AskedModel(options.model, options.base_url, options.window, options.key_variable)
        return
    async with StandIn(talk.facts).server as server:
        yield AskedModel(STAND_IN, server.base_url, options.window)


if __name__ == "__main__":
    main()
