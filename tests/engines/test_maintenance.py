from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.engines.scenes import (
    Booting,
    Tidying,
    actions,
    chatter,
    describe_item,
    engine_message,
    epochs,
    notices,
    past,
    reports,
    shows,
)
from tests.harness.scenes import call, hear, last, log, open_thread, scripted
from treadle.engines.contract import EngineInfo
from treadle.engines.guard import EngineTimeouts
from treadle.engines.values import MaintainParams, MaintainResult, Rebase
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

BACKGROUND = EngineInfo(id="probe", name="Probe", turn_maintenance_mode="background")


def answers(*texts: str) -> Any:
    """A model that says these things."""
    return scripted(*(Answer(text=text) for text in texts))


def compacts(given: MaintainParams) -> MaintainResult:
    """Asks for a record in place of all but the newest item."""
    items = (engine_message("It rained."), *given.items[-1:])
    return MaintainResult(changed=True, rebase=Rebase(items=items))


class Gate:
    """Holds maintenance until a test lets it go on, and says how it came out."""

    def __init__(self, then: Callable[[MaintainParams], Any] = lambda _: MaintainResult()) -> None:
        self.then = then
        self.reached, self.open, self.left = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.runs = 0

    async def __call__(self, given: MaintainParams) -> Any:
        self.runs += 1
        self.reached.set()
        try:
            await self.open.wait()
            return self.then(given)
        finally:
            self.left.set()


async def settled() -> None:
    """Lets what is ready happen."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_maintenance_sees_the_conversation_after_the_turn(tmp_path):
    engine = Tidying()
    async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
        await hear(thread, "first")
        heard = await hear(thread, "second")
    given = engine.given("maintain")[-1]
    assert [describe_item(item) for item in given.items] == ["first", "a", "second", "b"]
    assert (given.reason, given.context.deferred) == ("turn", False)
    assert given.context.complete.purpose == "context-engine.turn.maintenance"
    assert ("maintenance.run", "turn") in [
        (report.action, report.reason) for report in reports(heard)
    ]


async def test_a_view_that_maintenance_asks_for_is_another_base_and_no_edit_of_the_log(tmp_path):
    engine = Tidying(maintain=compacts)
    model = answers("a", "b")
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        assert chatter(thread) == ["It rained.", "a"]
        assert await epochs(thread) == [("publish", "probe")]
        engine.answers.clear()
        await hear(thread, "second")
        assert await log(thread) == ["user: first", "assistant: a", "user: second", "assistant: b"]
    assert shows(model.requests[1]) == ["It rained.", "a", "second"]


async def test_maintenance_beside_the_turns_holds_nobody_up_and_runs_once_more_for_all_who_ask(
    tmp_path,
):
    gate = Gate()
    engine = Tidying(BACKGROUND, maintain=gate)
    async with open_thread(tmp_path, answers("a", "b", "c"), engine=engine) as thread:
        first = await hear(thread, "first")
        second = await hear(thread, "second")
        third = await hear(thread, "third")
        await gate.reached.wait()
        assert gate.runs == 1
        assert engine.given("maintain")[0].context.deferred
        gate.open.set()
        await settled()
        assert gate.runs == 2
        newest = engine.given("maintain")[-1]
        assert [describe_item(item) for item in newest.items] == [
            "first",
            "a",
            "second",
            "b",
            "third",
            "c",
        ]
    joined = ("maintenance.skipped", "turn: joins the run under way")
    told = [
        [(report.action, report.reason) for report in reports(each)] for each in (second, third)
    ]
    assert [joined in each for each in told] == [True, True]
    assert last(first).text == "a"


async def test_what_was_prepared_beside_a_turn_is_published_between_two_requests(tmp_path):
    gate = Gate(compacts)

    @tool
    async def finish() -> str:
        """Lets maintenance come to its end."""
        gate.open.set()
        await gate.left.wait()
        await settled()
        views.append(chatter(thread))
        return "finished"

    views: list[list[str]] = []
    engine = Tidying(BACKGROUND, maintain=gate)
    model = scripted(Answer(text="a"), Answer(calls=(call("finish"),)), Answer(text="b"))
    async with open_thread(tmp_path, model, tools=(finish,), engine=engine) as thread:
        await hear(thread, "first")
        await gate.reached.wait()
        await hear(thread, "second")
        assert await epochs(thread) == [("publish", "probe")]
    assert views == [["first", "a", "second", "call finish"]]
    assert shows(model.requests[-1]) == [
        "It rained.",
        "a",
        "second",
        "call finish",
        "output finished",
    ]


async def test_a_plan_without_the_input_of_the_turn_under_way_is_told_and_not_shown(tmp_path):
    record = MaintainResult(rebase=Rebase(items=(engine_message("It rained."),)))
    gate = Gate(lambda _: record if gate.runs == 2 else MaintainResult())

    @tool
    async def linger() -> str:
        """Lets the next maintenance begin and end in the middle of this turn."""
        gate.open.set()
        await settled()
        assert gate.runs == 2
        return "lingered"

    engine = Tidying(BACKGROUND, maintain=gate)
    turns = (Answer(text="a"), Answer(text="b"), Answer(calls=(call("linger"),)), Answer(text="c"))
    model = scripted(*turns)
    async with open_thread(tmp_path, model, tools=(linger,), engine=engine) as thread:
        await hear(thread, "first")
        await gate.reached.wait()
        await hear(thread, "second")
        heard = await hear(thread, "third")
    assert [describe_item(item) for item in engine.given("maintain")[1].items][-2:] == [
        "third",
        "call linger",
    ]
    assert shows(model.requests[-1])[-3:] == ["third", "call linger", "output lingered"]
    assert [line for line in notices(heard) if "said to the turn under way" in line] != []


async def test_a_plan_for_a_view_that_is_gone_is_dropped_with_the_reason(tmp_path):
    gate = Gate(compacts)
    engine = Tidying(BACKGROUND, maintain=gate)
    async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
        await hear(thread, "first")
        await gate.reached.wait()
        await thread.reset()
        gate.open.set()
        await gate.left.wait()
        await settled()
        heard = await hear(thread, "second")
        assert chatter(thread) == ["second", "b"]
    skipped = [report.reason for report in reports(heard) if report.action == "maintenance.skipped"]
    assert "the view it planned for has moved on" in skipped


async def test_a_view_that_makes_no_sense_is_told_and_not_shown(tmp_path):
    engine = Tidying(maintain=MaintainResult(changed=True, rebase=Rebase(items=())))
    async with open_thread(tmp_path, answers("a"), engine=engine) as thread:
        heard = await hear(thread, "first")
        assert chatter(thread) == ["first", "a"]
        assert await epochs(thread) == []
    assert "maintenance.failed" in actions(heard)
    assert notices(heard) == [
        (
            "context engine 'probe' failed at maintain: it gave no items at all (2 were there); "
            "the view stays as it is"
        )
    ]


async def test_maintenance_under_way_is_cancelled_when_the_thread_closes(tmp_path):
    gate = Gate(compacts)
    engine = Tidying(BACKGROUND, maintain=gate)
    before = asyncio.all_tasks()
    async with open_thread(tmp_path, answers("a"), engine=engine) as thread:
        await hear(thread, "first")
        await gate.reached.wait()
    assert gate.left.is_set()
    (given,) = engine.given("maintain")
    assert given.cancelled.is_set()
    assert asyncio.all_tasks() == before
    async with open_thread(tmp_path, answers(), thread=thread.id) as again:
        assert chatter(again) == ["first", "a"]


async def test_maintenance_that_fails_beside_the_turns_is_told_and_tried_after_the_next(tmp_path):
    gate = Gate(lambda _: ValueError("odd"))
    engine = Tidying(BACKGROUND, maintain=gate)
    told: list[Any] = []
    async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
        thread.observers.append(told.append)
        await hear(thread, "first")
        gate.open.set()
        await gate.left.wait()
        await settled()
        assert last(await hear(thread, "second")).text == "b"
        await settled()
    assert gate.runs == 2
    assert notices(told)[0] == (
        "context engine 'probe' failed at maintain: ValueError: odd; the view stays as it is"
    )


async def test_maintenance_that_hangs_in_the_foreground_is_not_waited_for(tmp_path):
    gate = Gate()
    engine = Tidying(maintain=gate)
    timeouts = EngineTimeouts(maintain=0.05)
    async with open_thread(tmp_path, answers("a"), engine=engine, timeouts=timeouts) as thread:
        heard = await hear(thread, "first")
    assert last(heard).status == "completed"
    assert "no answer within 0.05 s" in notices(heard)[0]
    assert engine.given("maintain")[0].cancelled.is_set()


async def test_maintenance_that_goes_with_catching_up_is_waited_for_also_beside_turns(tmp_path):
    class Both(Booting, Tidying):
        pass

    engine = Both(BACKGROUND)
    thread = await past(tmp_path, "rain")
    async with open_thread(tmp_path, answers("b"), thread=thread, engine=engine) as again:
        await hear(again, "second")
    assert engine.calls[:3] == ["bootstrap", "maintain", "assemble"]
    given = engine.given("maintain")[0]
    assert (given.reason, given.context.deferred, given.context.complete) == (
        "bootstrap",
        False,
        None,
    )


async def test_maintenance_follows_a_compaction(tmp_path):
    engine = Tidying()
    async with open_thread(tmp_path, answers("a " * 3_000, "A summary."), engine=engine) as thread:
        await hear(thread, "first")
        await thread.compact()
    given = engine.given("maintain")[-1]
    assert given.reason == "compaction"
    assert given.context.complete.purpose == "context-engine.compaction.maintenance"


async def test_what_goes_wrong_beside_the_turns_is_told_in_the_next_one(tmp_path):
    def odd(_: MaintainParams) -> MaintainResult:
        raise ValueError("odd")

    gate = Gate(odd)
    engine = Tidying(BACKGROUND, maintain=gate)
    async with open_thread(tmp_path, answers("a", "b"), engine=engine) as thread:
        first = await hear(thread, "first")
        gate.open.set()
        await gate.left.wait()
        await settled()
        second = await hear(thread, "second")
    assert notices(first) == []
    assert notices(second) == [
        "context engine 'probe' failed at maintain: ValueError: odd; the view stays as it is"
    ]
    assert "maintenance.failed" in actions(second)
