from __future__ import annotations

import base64
import json

import msgspec
import pytest
from msgspec import Raw

from tests.engines.scenes import Committing
from tests.harness.scenes import log, outline
from treadle.context.head import Choices
from treadle.core.items import Reasoning, decode_item
from treadle.core.usage import RateLimitSnapshot, RateLimitWindow, TokenUsage
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.events import (
    HarnessReported,
    ItemCompleted,
    ModelReported,
    PlanUpdated,
    RateLimitsReported,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    UsageReported,
)
from treadle.prompt.input import LocalImage
from treadle.prompt.prompt_context import PromptContext
from treadle.testing.script import Answer, Call, Tokens

from .scenes import hear, last, of, open_stage, request_items, roles_and_texts

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def body(usage: dict[str, int] | None) -> Answer:
    """An answer in an endpoint's own words, with what it counted."""
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "fine"}],
    }
    events = (
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "item": message},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    )
    told = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
    return Answer(body=told, headers={"content-type": "text/event-stream"})


async def test_a_turn_is_told_as_it_happens_and_ends_in_the_log(tmp_path):
    async with (
        open_stage(tmp_path, Answer(reasoning="hm hm", text="Good day.")) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "hi")
        assert outline(events) == [
            "turn.started",
            "harness.reported",
            "step 1",
            "reasoning.delta",
            "item reasoning",
            "text.delta",
            "item message",
            "usage.reported",
            "completed",
        ]
        assert "".join(event.text for event in of(events, TextDelta)) == "Good day."
        assert "".join(event.text for event in of(events, ReasoningDelta)) == "hm hm"
        assert await log(thread) == ["user: hi", "reasoning", "assistant: Good day."]
        (turn,) = await thread.store.turns(thread.id)
        assert (turn.state, turn.usage) == ("completed", last(events).usage)


async def test_sealed_reasoning_is_mirrored_and_goes_back_with_the_next_turn(tmp_path):
    async with (
        open_stage(tmp_path, Answer(reasoning="hm", text="Good day.")) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "hi")
        item = decode_item(of(events, ItemCompleted)[0].item)
        assert isinstance(item, Reasoning)
        assert (item.encrypted_content or "").startswith("sealed:")
        await hear(thread, "on")
        (sent,) = (
            each for each in request_items(stage.requests[-1]) if each["type"] == "reasoning"
        )
        assert sent["encrypted_content"] == item.encrypted_content


async def test_a_later_turn_goes_on_on_the_same_codex_thread(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        events = [event for said in ("one", "two", "three") for event in await hear(thread, said)]
        reports = of(events, HarnessReported)
        assert [report.what for report in reports] == [
            "thread.started",
            "thread.reused",
            "thread.reused",
        ]
        assert len({report.details["thread"] for report in reports}) == 1
        assert len({request.payload["prompt_cache_key"] for request in stage.requests}) == 1
        for before, after in zip(stage.requests, stage.requests[1:], strict=False):
            told = before.payload["input"]
            assert after.payload["input"][: len(told)] == told


async def test_images_reach_the_model_with_the_words_around_them(tmp_path):
    picture = tmp_path / "pixel.png"
    picture.write_bytes(PIXEL)
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "look", LocalImage(picture), "there")
        await hear(thread, "on")
        (sent, *_) = request_items(stage.requests[0])
        told = [part.get("text", part.get("image_url")) for part in sent["content"]]
        assert (told[0], told[-1]) == ("look", "there")
        encoded = base64.b64encode(PIXEL).decode()
        assert told.count(f"data:image/png;base64,{encoded}") == 1
        assert [line.split(chr(10))[0] for line in await log(thread)] == [
            "user: look",
            "assistant: fine",
            "user: on",
            "assistant: fine",
        ]
        assert request_items(stage.requests[1])[0] == sent


async def test_an_answer_can_be_bound_to_a_schema_for_one_turn(tmp_path):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    async with (
        open_stage(tmp_path, Answer(text='{"n":1}')) as stage,
        stage.thread() as thread,
    ):
        await hear(thread, "count", schema=Raw(msgspec.json.encode(schema)))
        await hear(thread, "talk")
        told = [request.payload.get("text", {}).get("format") for request in stage.requests]
        assert told[0]["schema"] == schema
        assert told[1] is None
        assert len({request.payload["prompt_cache_key"] for request in stage.requests}) == 1


async def test_effort_can_change_from_turn_to_turn(tmp_path):
    async with (
        open_stage(tmp_path) as stage,
        stage.thread(choices=Choices(effort="high")) as thread,
    ):
        await hear(thread, "one")
        thread.log.setup.choices = Choices(effort="low")
        events = await hear(thread, "two")
        assert [request.payload["reasoning"]["effort"] for request in stage.requests] == [
            "high",
            "low",
        ]
        assert [report.what for report in of(events, HarnessReported)] == ["thread.reused"]


async def test_sandbox_approvals_and_directory_change_without_a_new_thread(tmp_path):
    (tmp_path / "other").mkdir()
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "one")
        thread.adopt(PromptContext(cwd="", sandbox_mode="read-only", approval_policy="on-request"))
        thread.log.setup.cwd = tmp_path / "other"
        events = await hear(thread, "two")
        assert [report.what for report in of(events, HarnessReported)] == ["thread.reused"]
        first, second = (request.payload["input"] for request in stage.requests)
        assert second[: len(first)] == first
        added = json.dumps(second[len(first) :])
        assert added.count("<permissions instructions>") == 1
        assert "`read-only`" in added
        assert added.count("<environment_context>") == 1
        assert str(tmp_path / "other") in added


async def test_another_model_gets_another_codex_thread_with_the_same_conversation(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "one")
        thread.use("openai:gpt-5.4")
        events = await hear(thread, "two")
        (report,) = of(events, HarnessReported)
        assert (report.what, report.reason) == ("thread.started", "model-mismatch")
        assert stage.requests[-1].payload["model"] == "gpt-5.4"
        said = [
            (who, text)
            for who, text in roles_and_texts(request_items(stage.requests[-1]))
            if "<" not in text
        ]
        assert said == [("user", "one"), ("assistant", "fine"), ("user", "two")]


USAGE = [
    (
        Answer(text="fine", usage=Tokens(input=10, cached=6, output=3, reasoning=2)),
        TokenUsage(10, 6, None, 3, 2, 13),
    ),
    (
        Answer(text="fine", usage=Tokens(input=10, cached=0, output=3, reasoning=0)),
        TokenUsage(10, 0, None, 3, 0, 13),
    ),
    (
        body({"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}),
        TokenUsage(10, None, None, 3, None, 13),
    ),
]


@pytest.mark.parametrize(("answer", "usage"), USAGE, ids=["cached", "nothing cached", "untold"])
async def test_usage_is_what_the_provider_counted_and_nothing_else(tmp_path, answer, usage):
    engine = Committing()
    async with open_stage(tmp_path, answer) as stage, stage.thread(engine=engine) as thread:
        events = await hear(thread, "hi")
        (reported,) = of(events, UsageReported)
        assert reported.usage == usage
        assert last(events).usage == usage
        assert (await thread.store.turn(thread.id, 1)).usage == usage
    (committed,) = engine.given("commit_turn")
    assert committed.context.prompt_cache.last_usage == usage


async def test_a_provider_that_counts_nothing_is_reported_as_nothing(tmp_path):
    async with open_stage(tmp_path, body(None)) as stage, stage.thread() as thread:
        events = await hear(thread, "hi")
        assert of(events, UsageReported) == []
        assert last(events).usage == TokenUsage()
        assert last(events).usage.cached_input_tokens is None


async def test_the_usage_of_a_turn_is_the_sum_of_its_requests(tmp_path):
    command = Call(name="exec_command", arguments={"cmd": "true", "login": False})
    async with (
        open_stage(
            tmp_path,
            Answer(calls=(command,), usage=Tokens(input=10, cached=0, output=3, reasoning=0)),
            Answer(text="done", usage=Tokens(input=20, cached=10, output=4, reasoning=0)),
        ) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "hi")
        assert last(events).usage == TokenUsage(30, 10, None, 7, 0, 37)
        assert [event.step for event in of(events, StepStarted)] == [1, 2]


async def test_the_limits_and_the_model_of_the_provider_are_reported(tmp_path):
    headers = {
        "x-codex-primary-used-percent": "12",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": "1800000000",
        "x-codex-secondary-used-percent": "40",
        "x-codex-secondary-window-minutes": "10080",
        "openai-model": "gpt-other",
    }
    async with (
        open_stage(tmp_path, Answer(text="fine", headers=headers)) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "hi")
        assert of(events, ModelReported) == [ModelReported(model="gpt-other")]
        told = of(events, RateLimitsReported)
        assert told[-1] == RateLimitsReported(
            RateLimitSnapshot(
                limit_id="codex",
                primary=RateLimitWindow(12, 300, 1800000000),
                secondary=RateLimitWindow(40, 10080, None),
            )
        )


async def test_a_plan_of_the_model_is_told(tmp_path):
    settings = tmp_path / "home/.codex"
    settings.mkdir(parents=True)
    quiet = "[features]\nplugins = false\napps = false\n[analytics]\nenabled = false\n"
    (settings / "config.toml").write_text(f"[tools.update_plan]\nenabled = true\n{quiet}")
    plan = [{"step": "look", "status": "in_progress"}, {"step": "leap", "status": "pending"}]
    call = Call(name="update_plan", arguments={"plan": plan, "explanation": "first things first"})
    async with (
        open_stage(tmp_path, Answer(calls=(call,)), options=CodexOptions(home="user")) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "plan it")
        assert of(events, PlanUpdated) == [
            PlanUpdated(
                steps=(("look", "in_progress"), ("leap", "pending")),
                explanation="first things first",
            )
        ]
        assert (await log(thread))[1:3] == ["call update_plan", "output Plan updated"]
