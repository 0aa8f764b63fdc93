"""What turns, threads and agents cost, as a host hears it."""

from __future__ import annotations

from pathlib import Path

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from tests.subagents.scenes import agent_thread, spawn
from tests.thread.test_attempts import BUSY, opened, script
from treadle import Bill, TurnCompleted
from treadle.cli.meter import Meter
from treadle.config.settings import Price
from treadle.harness.events import AgentReported, UsageReported
from treadle.testing.script import Answer, Tokens

PRICES = {"script": Price(input=2.0, cached_input=0.5, output=8.0)}
USED = Tokens(input=1_000, cached=800, output=10)
"""200 at $2, 800 at $0.50 and 10 at $8: $0.00088."""


def dollars(bill: Bill) -> float:
    assert bill.known
    return round(bill.amounts.get("USD", 0.0), 9)


async def test_a_turn_costs_what_its_answers_cost_and_a_thread_what_its_turns_do(tmp_path: Path):
    model = scripted(
        Answer(calls=(call("missing"),), usage=USED), Answer(text="a", usage=USED, times=0)
    )
    async with open_thread(tmp_path, model, prices=PRICES) as thread:
        first = await hear(thread, "go")
        assert [event.model for event in of(first, UsageReported)] == ["scripted:script"] * 2
        assert dollars(last(first).cost) == 0.00176
        assert dollars(last(await hear(thread, "again")).cost) == 0.00088
        await thread.rollback(1)
        usage = await thread.usage()
        assert dollars(usage.cost) == 0.00264
        assert usage.agents_cost == Bill()


async def test_agents_cost_apart_from_the_thread_that_started_them(tmp_path: Path):
    model = scripted(
        Answer(when="dig", text="dug", usage=USED),
        Answer(when="start", calls=(spawn("dig"),), usage=USED),
        Answer(when="agent_id", calls=(call("wait_agent"),), usage=USED),
        Answer(text="done", usage=USED, times=0),
    )
    meter = Meter(PRICES)
    async with agent_thread(tmp_path, model, prices=PRICES) as thread:
        events = await hear(thread, "start")
        for event in events:
            meter.add(event)
        (agent,) = [
            each.event
            for each in of(events, AgentReported)
            if isinstance(each.event, TurnCompleted)
        ]
        usage = await thread.usage()
    assert dollars(agent.cost) == dollars(usage.agents_cost) == 0.00088
    assert usage.agents.input_tokens == 1_000
    assert dollars(usage.cost) == dollars(last(events).cost)
    # On the command line both count.
    assert dollars(meter.bill) == round(dollars(usage.cost) + 0.00088, 9)


async def test_a_fallback_is_charged_with_its_own_price(tmp_path: Path):
    prices = {
        "alpha:gpt-5.5": Price(input=1_000, output=1_000),
        "beta:gpt-5.4": Price(input=1.0, output=1.0),
    }
    answers = script(BUSY), script(Answer(text="hello", usage=USED))
    async with opened(tmp_path, *answers, prices=prices) as (thread, _, _):
        ended = last(await hear(thread, "hi"))
        assert dollars(ended.cost) == 0.00101
        assert dollars((await thread.usage()).cost) == 0.00101


async def test_what_nobody_knows_is_not_counted_as_nothing(tmp_path: Path):
    model = scripted(Answer(text="a", usage=USED))
    async with open_thread(tmp_path, model) as thread:
        cost = last(await hear(thread, "go")).cost
    assert (str(cost), cost.known, cost.requests) == ("not known", False, 1)
