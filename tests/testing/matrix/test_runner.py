from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from treadle.testing.matrix import (
    ContractRow,
    HarnessUnderTest,
    Result,
    harnesses_under_test,
    run_row,
    run_rows,
    thread_defaults,
    treadle_fixture,
)
from treadle.testing.matrix.fixture import MODEL
from treadle.testing.matrix.report import deferred_lines, summary
from treadle.testing.matrix.runner import differences

ROW = ContractRow(
    id="SEL",
    domain="selection",
    title="Treadle is called so",
    source="here",
    harnesses=("shared",),
    driver="selection.name",
    given={"spellings": ["loop"]},
    expected={"loop": "treadle"},
)


def changed(**fields: Any) -> ContractRow:
    return msgspec.structs.replace(ROW, **fields)


def told(result: Result) -> tuple[str, str]:
    return result.status, result.reason


async def test_a_row_passes_when_all_it_expects_was_seen():
    result = await run_row(ROW, "shared", None)
    assert result == Result(
        id="SEL",
        domain="selection",
        title="Treadle is called so",
        harness="shared",
        status="passed",
    )


async def test_a_row_fails_with_what_was_seen_instead():
    result = await run_row(changed(expected={"loop": "codex", "auto": "auto"}), "shared", None)
    assert told(result) == (
        "failed",
        "loop: expected 'codex', saw 'treadle'; auto: expected 'auto', saw 'nothing'",
    )


@pytest.mark.parametrize(("expected", "seen"), [(1, True), (True, 1), ([1], [True]), ("1", 1)])
async def test_what_only_looks_the_same_is_not(expected, seen):
    assert differences({"a": expected}, {"a": seen}) != []


async def test_tuples_are_lists():
    assert differences({"a": [1, ["x"]]}, {"a": (1, ("x",))}) == []


async def test_a_driver_that_raises_fails_its_row_and_the_run_goes_on():
    broken = changed(given={})
    results = [each async for each in run_rows([broken, ROW], [HarnessUnderTest("shared")])]
    assert [each.status for each in results] == ["failed", "passed"]
    assert results[0].reason == "KeyError: 'spellings'"


@pytest.mark.parametrize("driver", ["selection.nothing", "nowhere.name", "selection"])
async def test_a_driver_that_is_not_there_fails_its_row(driver):
    result = await run_row(changed(driver=driver), "shared", None)
    assert told(result) == ("failed", f"there is no driver {driver!r}")


async def test_a_deferred_row_is_not_played_and_says_why():
    result = await run_row(changed(deferred="not yet", given={}), "shared", None)
    assert told(result) == ("deferred", "not yet")
    assert deferred_lines([result]) == "SEL is deferred: not yet"
    assert summary([result]) == "0 passed, 0 failed"


async def test_a_stage_that_cannot_be_opened_fails_every_row_of_it():
    opened: list[str] = []

    def broken() -> Any:
        opened.append("once")
        raise OSError("no room")

    rows = [changed(harnesses=("mine",)), changed(id="B", harnesses=("mine",))]
    results = [each async for each in run_rows(rows, [HarnessUnderTest("mine", broken)])]
    assert [told(each) for each in results] == [
        ("failed", "its fixture cannot be opened: OSError: no room")
    ] * 2
    assert opened == ["once"]


async def test_stages_are_closed_when_nobody_listens_any_more():
    closed: list[str] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        async with treadle_fixture() as stage:
            yield stage
        closed.append("closed")

    results = run_rows([changed(harnesses=("treadle",))] * 3, [HarnessUnderTest("treadle", opened)])
    async for _ in results:
        break
    await results.aclose()
    assert closed == ["closed"]


async def test_a_row_finds_a_clean_script():
    async with treadle_fixture() as stage:
        stage.play({"text": "left over"}, spare=[{"text": "too"}])
        stage.was_asked.set()
        row = changed(harnesses=("treadle",))
        await run_row(row, "treadle", stage)
        assert (stage.server.left, stage.spare.left, stage.was_asked.is_set()) == ((), (), False)


def test_ours_play_what_names_them_and_guests_what_everybody_keeps():
    everybody = changed(harnesses=("treadle", "codex"))
    ours = {player.name: player for player in harnesses_under_test()}
    assert {name: player.can_run(ROW) for name, player in ours.items()} == {
        "shared": True,
        "treadle": False,
        "codex": False,
    }
    assert {name: player.can_run(everybody) for name, player in ours.items()} == {
        "shared": False,
        "treadle": True,
        "codex": True,
    }
    (guest,) = harnesses_under_test("somebody:make")
    assert (guest.can_run(ROW), guest.can_run(everybody)) == (False, True)
    assert guest.can_run(changed(harnesses=("treadle",))) is False
    (known,) = harnesses_under_test(" Codex-app-server ")
    assert (known.name, known.third_party) == ("codex", False)


def test_another_scenery_leaves_out_who_would_not_see_it():
    anything = changed(harnesses=("treadle", "codex"), wire="any")
    formed = changed(harnesses=("treadle", "codex"))
    lossless = harnesses_under_test(None, thread_defaults("lossless"))
    assert [player.name for player in lossless] == ["treadle", "codex"]
    claude = harnesses_under_test(None, thread_defaults(model="anthropic:claude-sonnet-4-5"))
    assert [player.name for player in claude] == ["treadle"]
    named = changed(harnesses=("treadle",), wire="named")
    assert [claude[0].can_run(row) for row in (anything, named, formed)] == [True, True, False]
    (made,) = harnesses_under_test(
        None, thread_defaults(model="treadle.testing.matrix:treadle_fixture")
    )
    assert [made.can_run(row) for row in (anything, named, formed)] == [True, False, False]
    same = thread_defaults(model=MODEL)
    assert [player.name for player in harnesses_under_test(None, same)] == [
        "shared",
        "treadle",
        "codex",
    ]
