"""A turn that reaches a limit ends in a typed way, and what it did is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.harness.scenes import (
    call,
    calls_answered_once,
    hear,
    last,
    log,
    of,
    open_thread,
    scripted,
    unpaired_calls,
)
from tests.subagents.scenes import Gates, agent_thread, announced, spawn
from treadle import LimitReached, Limits, SqliteStore, Thread, TurnCompleted
from treadle.config.settings import Price
from treadle.core.errors import InvalidOption
from treadle.core.items import Message, OutputText
from treadle.core.usage import TokenUsage
from treadle.harness.events import (
    AgentReported,
    QuestionsAsked,
    StepStarted,
    TextDelta,
    ToolStarted,
)
from treadle.testing.script import Answer, Break, Tokens
from treadle.tools.contract import ToolContext, UserQuestion
from treadle.tools.decorator import tool

HOUR = Limits(seconds=3_600)


def end_time(thread: Thread) -> None:
    """Let the time of the turn be over."""
    budget = thread._turn_runner().budgets.present
    budget.limits = Limits(seconds=1e-6)
    with budget.standing_still():
        pass


@tool
async def look() -> str:
    """Looks."""
    return "seen"


@tool
async def sleep() -> str:
    """Sleeps until somebody interrupts it."""
    await asyncio.Event().wait()
    return "awake"


def looks(count: int, **tokens: int) -> list[Answer]:
    """So many steps with a call, then an answer."""
    usage = Tokens(**tokens)
    steps = [Answer(calls=(call("look"),), usage=usage) for _ in range(count)]
    return [*steps, Answer(text="Done.", usage=usage)]


async def test_a_turn_ends_at_its_limit_of_steps_and_keeps_its_results(tmp_path: Path):
    model = scripted(*looks(5))
    async with open_thread(tmp_path, model, tools=(look,), limits=Limits(steps=2)) as thread:
        events = await hear(thread, "look around")
        reached = LimitReached(limit="steps", most=2, spent=2)
        assert (last(events).status, last(events).limit) == ("interrupted", reached)
        assert of(events, LimitReached) == [reached]
        assert len(of(events, StepStarted)) == 2
        assert await log(thread) == [
            "user: look around",
            *["call look", "output seen"] * 2,
        ]
        (turn,) = await thread.store.turns(thread.id)
        assert turn.state == "aborted"
        assert b'"limit":"steps"' in bytes(turn.outcome or b"")


async def test_after_a_limit_the_thread_goes_on_and_the_model_knows_why(tmp_path: Path):
    model = scripted(*looks(1), Answer(text="On we go."))
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "look", limits=Limits(steps=1))
        events = await hear(thread, "go on")
        assert last(events).text == "Done."
        assert last(events).limit is None
        assert b"the limit of 1 step is reached" in model.requests[-1].body


async def test_an_answer_that_ends_the_turn_counts_however_much_it_used(tmp_path: Path):
    model = scripted(*looks(1, input=900, output=100))
    limits = Limits(steps=2, tokens=1_001)
    async with open_thread(tmp_path, model, tools=(look,), limits=limits) as thread:
        end = last(await hear(thread, "look"))
    assert (end.status, end.text, end.limit) == ("completed", "Done.", None)


async def test_a_turn_ends_at_its_limit_of_tokens(tmp_path: Path):
    model = scripted(*looks(5, input=900, output=100))
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        end = last(await hear(thread, "look", limits=Limits(tokens=1_500)))
    assert end.limit == LimitReached(limit="tokens", most=1_500, spent=2_000)
    assert end.usage.total_tokens == 2_000


async def test_a_turn_is_broken_off_in_the_middle_of_an_answer_when_its_time_is_over(
    tmp_path: Path,
):
    model = scripted(
        Answer(text="I begin to think about it", stall=Break(events=4)), Answer(text="Again.")
    )
    async with open_thread(tmp_path, model) as thread:

        def end_in_the_middle(event: object) -> None:
            if isinstance(event, TextDelta):
                end_time(thread)

        end = last(await hear(thread, "think", at=end_in_the_middle, limits=HOUR))
        assert end.limit is not None
        assert (end.status, end.limit.limit) == ("interrupted", "time")
        entries = await thread.store.read(thread.id)
        assert b'"status":"interrupted"' in next(
            entry.body for entry in entries if entry.kind == "response"
        )
        assert last(await hear(thread, "again")).text == "Again."


async def test_a_call_that_runs_when_the_time_is_over_gets_its_result(tmp_path: Path):
    model = scripted(Answer(calls=(call("look"), call("sleep"))), Answer(text="Again."))
    async with open_thread(tmp_path, model, tools=(look, sleep)) as thread:

        def end_in_the_call(event: object) -> None:
            if isinstance(event, ToolStarted) and event.name == "sleep":
                end_time(thread)

        end = last(await hear(thread, "sleep", at=end_in_the_call, limits=HOUR))
        assert end.limit is not None
        assert end.limit.limit == "time"
        assert await calls_answered_once(thread)
        assert "output seen" in await log(thread)
        assert last(await hear(thread, "again")).text == "Again."


async def test_time_stands_still_while_the_user_is_asked(tmp_path: Path):
    @tool
    async def ask(context: ToolContext) -> str:
        """Asks the user."""
        question = UserQuestion(id="q", header="Q", question="Which?", options=())
        assert context.ask_questions is not None
        await context.ask_questions((question,))
        return "asked"

    model = scripted(Answer(calls=(call("ask"),)), Answer(text="Thanks."))
    async with open_thread(tmp_path, model, tools=(ask,)) as thread:
        ends: list[float | None] = []

        def reply(event: object) -> None:
            ends.append(thread._turn_runner().budgets.present.ends_at())
            if isinstance(event, QuestionsAsked):
                thread.answer(event.id, None)

        end = last(await hear(thread, "ask me", at=reply, limits=HOUR))
    assert (end.text, end.limit) == ("Thanks.", None)
    assert None in ends
    assert ends[0] is not None
    assert ends[-1] is not None


async def test_what_agents_use_counts_and_they_end_where_the_turn_does(tmp_path: Path):
    digging = Tokens(input=900, output=100)
    model = scripted(
        Answer(when="dig", calls=(call("look"),), usage=digging),
        Answer(when="seen", calls=(call("look"),), usage=digging, times=0),
        Answer(when="start", calls=(spawn("dig"),), usage=Tokens(input=10, output=1)),
        Answer(when="agent_id", calls=(call("wait_agent"),), usage=Tokens(input=10, output=1)),
        Answer(text="never said"),
    )
    async with agent_thread(tmp_path, model, look) as thread:
        events = await hear(thread, "start", limits=Limits(tokens=3_000))
        (agent,) = [
            each.event
            for each in of(events, AgentReported)
            if isinstance(each.event, TurnCompleted)
        ]
        end = last(events)
        assert agent.limit is not None
        assert end.limit is not None
        assert (agent.limit.limit, end.limit.limit) == ("tokens", "tokens")
        assert end.limit.spent == 3_000 + end.usage.total_tokens
        assert not thread.subagents.working
        await hear(thread)
        assert [each.status_label for each in await announced(thread)] == [
            "was interrupted before it was done"
        ]


async def test_agents_that_still_work_are_stopped_with_the_turn(tmp_path: Path):
    gates = Gates()

    @tool
    async def watch() -> str:
        """Waits until the agent is in its hole."""
        await gates.reached["hole"].wait()
        return "there it is"

    model = scripted(
        Answer(when="dig", calls=(call("hold", name="hole"),)),
        Answer(when="start", calls=(spawn("dig"),)),
        Answer(when="agent_id", calls=(call("watch"),)),
        Answer(text="never said"),
    )
    async with agent_thread(tmp_path, model, watch, gates.tool) as thread:
        end = last(await hear(thread, "start", limits=Limits(steps=3)))
        assert end.limit == LimitReached(limit="steps", most=3, spent=3)
        assert thread.subagents.working == ()
        for agent in await thread.subagents.agents():
            assert agent.status == "interrupted"


async def test_a_turn_about_what_agents_tell_goes_on_with_the_same_budget(tmp_path: Path):
    model = scripted(
        Answer(when="dig", text="dug"),
        Answer(when="start", calls=(spawn("dig"),)),
        Answer(when="agent_id", text="it digs"),
        Answer(text="never said"),
    )
    async with agent_thread(tmp_path, model, turn_limits=Limits(steps=3)) as thread:
        first = last(await hear(thread, "start"))
        assert (first.status, first.text) == ("completed", "it digs")
        assert await thread.expects()
        second = last(await hear(thread))
        assert second.limit == LimitReached(limit="steps", most=3, spent=3)
        assert last(await hear(thread, "now")).text == "never said"


PRICES = {"script": Price(input=1_000, output=2_000)}
"""So that a step of 900 tokens in and 100 out costs 1.10."""


async def test_a_turn_ends_when_it_has_cost_what_it_may(tmp_path: Path):
    model = scripted(*looks(5, input=900, output=100))
    limits = Limits(cost=2)
    async with open_thread(tmp_path, model, tools=(look,), limits=limits, prices=PRICES) as thread:
        end = last(await hear(thread, "look"))
        assert end.limit is not None
        assert (end.limit.limit, end.limit.currency) == ("cost", "USD")
        assert end.limit.spent == pytest.approx(2.2)
        assert len(model.requests) == 2


async def test_what_agents_cost_counts(tmp_path: Path):
    dear = Tokens(input=900, output=100)
    model = scripted(
        Answer(when="dig", calls=(call("look"),), usage=dear),
        Answer(when="seen", text="dug", usage=dear),
        Answer(when="start", calls=(spawn("dig"),), usage=Tokens(input=0, output=0)),
        Answer(when="agent_id", calls=(call("wait_agent"),), usage=Tokens(input=0, output=0)),
        Answer(text="never said"),
    )
    async with agent_thread(
        tmp_path, model, look, turn_limits=Limits(cost=2), prices=PRICES
    ) as thread:
        end = last(await hear(thread, "start"))
        assert end.limit is not None
        assert end.limit.spent == pytest.approx(2.2)


async def test_a_limit_in_money_is_refused_where_no_price_is_known(tmp_path: Path):
    async with open_thread(tmp_path, scripted()) as thread:
        with pytest.raises(InvalidOption, match=r"the price of '.*script' is not known; set it"):
            await hear(thread, "look", limits=Limits(cost=2))
        assert await thread.store.turns(thread.id) == []
        assert await thread.store.read(thread.id) == []
    name = "openai:gpt-never-heard-of"
    with pytest.raises(InvalidOption, match="is not known"):
        async with Thread.open(model=name, home=tmp_path / "home", limits=Limits(cost=2)):
            raise AssertionError("it was opened")
    store = await SqliteStore.open(tmp_path / "home")
    try:
        assert len(await store.threads()) == 1
    finally:
        await store.close()


async def test_what_was_spent_before_a_crash_counts_when_the_turn_is_resumed(tmp_path: Path):
    said = Message(role="assistant", content=(OutputText(text="half"),))
    async with open_thread(tmp_path, scripted(), tools=(look,)) as thread:
        await thread.log.epochs.begin_head()
        await thread.log.turns.admit("look", turn_id="crashed")
        for _ in range(2):
            await thread.log.requests.record(thread.log.requests.render())
            await thread.log.requests.record_answer(
                (said,), usage=TokenUsage(input_tokens=400, output_tokens=100, total_tokens=500)
            )
    model = scripted(*looks(5, input=400, output=100))
    async with open_thread(tmp_path, model, tools=(look,), thread=thread.id) as again:
        end = last(
            await hear(again, "look", turn_id="crashed", limits=Limits(tokens=1_500, steps=9))
        )
        assert end.limit == LimitReached(limit="tokens", most=1_500, spent=1_500)
        assert len(model.requests) == 1
        assert not await unpaired_calls(again)
        repeated = last(await hear(again, "look", turn_id="crashed"))
        assert repeated.limit == end.limit


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"seconds": -1}, {"cost": float("nan")}])
def test_a_limit_that_is_none_is_refused(wrong: dict[str, Any]):
    with pytest.raises(InvalidOption, match="give a number above 0"):
        Limits(**wrong)
