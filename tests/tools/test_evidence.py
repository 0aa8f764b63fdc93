from __future__ import annotations

import asyncio

from msgspec.structs import replace

from tests.harness.scenes import call, hear, of, open_thread, scripted
from treadle.core.items import FunctionCall
from treadle.harness.attempt_facts import AttemptFacts
from treadle.harness.events import EvidenceFound, ToolFinished
from treadle.hooks import Hooks
from treadle.hooks.payloads import ToolResultReady
from treadle.policy.failures import Failure
from treadle.policy.outcome import Final, classify
from treadle.testing.script import Answer
from treadle.tools.contract import Recipient, SentMessage, ToolCall, ToolResult
from treadle.tools.decorator import tool
from treadle.tools.dispatch import Dispatch, tools_by_name

from .scenes import Scene

SENT = SentMessage(target=Recipient(channel="telegram", to="chat:1"), text="hi", message_id="m-1")


@tool(replay_safe=True)
async def message() -> ToolResult:
    """Sends."""
    return ToolResult("sent", sent=(SENT,))


def test_a_target_is_named_in_one_word():
    assert str(Recipient(channel="web")) == "web"
    assert str(Recipient(channel="telegram", to="chat:1", thread="7")) == "telegram:chat:1:7"


def test_after_something_was_sent_no_other_candidate_is_tried():
    witness = AttemptFacts(tools_by_name((message,)))
    witness.add_call("message")
    witness.add_result(ToolResult("sent", sent=(SENT,)))
    facts = witness.facts(Failure(reason="rate_limit", message="slow down"))
    assert (facts.sent, facts.effects) == (("telegram:chat:1",), ())
    assert isinstance(classify(facts), Final)


async def test_evidence_is_there_before_hooks_have_seen_the_result(scene: Scene):
    order: list[str] = []

    async def ready(event: ToolResultReady) -> None:
        order.append(f"hook {event.output}")

    async def witness(asked: ToolCall, result: ToolResult) -> None:
        order.append(f"witness {asked.name} {result.sent[0].text}")

    hooks = Hooks()
    hooks.on(ToolResultReady, ready)
    dispatch = Dispatch(tools_by_name((message,)), replace(scene.context, on_result=witness), hooks)
    dispatch.submit(FunctionCall(call_id="a", name="message", arguments="{}"))
    dispatch.finish()
    (finished,) = [each async for each in dispatch.results()]
    assert order == ["witness message hi", "hook sent"]
    assert finished.result.sent == (SENT,)


async def test_a_call_that_is_broken_off_behind_its_tool_keeps_its_evidence(scene: Scene):
    reached = asyncio.Event()

    async def hang(_: ToolResultReady) -> None:
        reached.set()
        await asyncio.Event().wait()

    hooks = Hooks()
    hooks.on(ToolResultReady, hang)
    dispatch = Dispatch(tools_by_name((message,)), scene.context, hooks)
    dispatch.submit(FunctionCall(call_id="a", name="message", arguments="{}"))
    await reached.wait()
    await dispatch.abort()
    (finished,) = [each async for each in dispatch.results()]
    assert (finished.aborted, finished.result.success) == (True, False)
    assert finished.result.sent == (SENT,)


async def test_a_turn_tells_of_each_thing_sent_once(tmp_path):
    model = scripted(Answer(calls=(call("message"), call("message"))), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(message,)) as thread:
        events = await hear(thread, "go")
    told = {event.call_id: event.sent for event in of(events, EvidenceFound)}
    assert told == {event.call_id: (SENT,) for event in of(events, ToolFinished)}
    assert len(of(events, EvidenceFound)) == 2
