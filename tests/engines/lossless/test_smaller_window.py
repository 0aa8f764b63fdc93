"""A conversation of a large window is shown in a small one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from treadle.core.items import Message, text_of
from treadle.engines.lossless.engine import LosslessEngine
from treadle.engines.lossless.library import Library
from treadle.engines.values import AssembleResult
from treadle.prompt.engine_fragments import History, parse_history
from treadle.testing.conversations import FakeConversation

from .scenes import words

SMALL = 7_000


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LosslessEngine]:
    made = LosslessEngine(Library(tmp_path / "lossless.db"))
    yield made
    await made.dispose()


@pytest.fixture
async def shown(engine: LosslessEngine, said: FakeConversation) -> AssembleResult:
    """What a window for 7,000 tokens shows of it."""
    return await engine.assemble(said.assemble_params("And now?", token_budget=SMALL))


@pytest.fixture
def said() -> FakeConversation:
    """A conversation ten times as large."""
    said = FakeConversation()
    for number in range(160):
        said.turn(f"{number}: {words(number, 300)}", f"On {number}: {words(number + 1, 300)}")
    assert sum(row.item.tokens for row in said.rows) > 10 * SMALL
    return said


def told(result: AssembleResult) -> list[tuple[str, History]]:
    """What the summaries in view say of themselves."""
    items = [item.item for item in result.items if item.covers is not None]
    texts = [text_of(item.content) for item in items if isinstance(item, Message)]
    return [(text, parse_history(text)) for text in texts]


async def test_it_fits_at_once(
    shown: AssembleResult, said: FakeConversation, engine: LosslessEngine
):
    assert shown.estimated_tokens <= engine.thresholds.high * SMALL
    covered = [(item.covers.first, item.covers.last) for item in shown.items if item.covers]
    raw = [(item.seq, item.seq) for item in shown.items if item.seq is not None]
    entries = [seq for first, last in (*covered, *raw) for seq in range(first, last + 1)]
    assert entries == list(range(1, len(said.rows) + 1)), "every entry is reached once"


async def test_each_summary_says_which_turns_and_entries_it_stands_for(shown: AssembleResult):
    ranges = [(item.covers.first, item.covers.last) for item in shown.items if item.covers]
    assert [(one.first, one.last) for _, one in told(shown)] == ranges
    turns = [tuple(map(int, one.turns.split("-"))) for _, one in told(shown)]
    assert turns[0][0] == 1
    assert turns[0][-1] > 16, "it stands for several others"
    assert all(one[-1] + 1 == other[0] for one, other in pairwise(turns))


async def test_little_of_a_summary_is_the_same_in_all_of_them(shown: AssembleResult):
    fixed = sum(len(text) - len(one.text) for text, one in told(shown))
    assert fixed < 0.3 * sum(len(text) for text, _ in told(shown))
