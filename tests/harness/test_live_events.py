from __future__ import annotations

from tests.harness.scenes import hear, last, of, open_thread, scripted
from treadle.core.redact import add_secrets
from treadle.harness.events import (
    ModelReported,
    RateLimitsReported,
    ReasoningDelta,
    TextDelta,
    ToolInput,
)
from treadle.testing.script import Answer

CALL = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "apply_patch"}
DELTA = "response.custom_tool_call_input.delta"
SUMMARY = "response.reasoning_summary_text.delta"
REFUSAL = {
    "type": "response.output_item.done",
    "item": {
        "type": "message",
        "id": "msg_9",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I will not do that."}],
    },
}


async def test_hosts_hear_a_call_while_it_is_written(tmp_path):
    add_secrets("planted-secret-0123456789")
    events = (
        {"type": "response.output_item.added", "item": {**CALL, "input": ""}},
        {"type": DELTA, "item_id": "ctc_1", "delta": "*** Begin"},
        {"type": DELTA, "item_id": "ctc_1", "delta": " Patch planted-secret-01"},
        {"type": DELTA, "item_id": "ctc_1", "delta": "23456789 end"},
    )
    model = scripted(Answer(events=events, text="fine"))
    async with open_thread(tmp_path, model) as thread:
        heard = of(await hear(thread, "go"), ToolInput)
    assert {(each.call_id, each.name) for each in heard} == {("c1", "apply_patch")}
    written = "".join(each.delta for each in heard)
    assert written.startswith("*** Begin Patch ")
    assert "planted-secret" not in written
    assert written.endswith(" end")


async def test_paragraphs_of_reasoning_stand_apart(tmp_path):
    events = (
        {"type": SUMMARY, "item_id": "rs_1", "summary_index": 0, "delta": "First "},
        {"type": SUMMARY, "item_id": "rs_1", "summary_index": 0, "delta": "part."},
        {"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "summary_index": 1},
        {"type": SUMMARY, "item_id": "rs_1", "summary_index": 1, "delta": "Second."},
        {"type": SUMMARY, "item_id": "rs_2", "summary_index": 0, "delta": "Another."},
    )
    model = scripted(Answer(events=events, text="fine"))
    async with open_thread(tmp_path, model) as thread:
        heard = of(await hear(thread, "go"), ReasoningDelta)
    assert "".join(each.text for each in heard) == "First part.\n\nSecond.\n\nAnother."


async def test_the_limits_and_the_model_of_the_server_are_told(tmp_path):
    window = {"used_percent": 12.5, "window_minutes": 300}
    events = ({"type": "codex.rate_limits", "rate_limits": {"primary": window}},)
    model = scripted(Answer(events=events, text="fine", headers={"openai-model": "gpt-other"}))
    async with open_thread(tmp_path, model) as thread:
        heard = await hear(thread, "go")
    (limits,) = of(heard, RateLimitsReported)
    assert limits.limits.primary.used_percent == 12.5
    assert of(heard, ModelReported) == [ModelReported(model="gpt-other")]


async def test_a_refusal_is_the_answer_and_says_that_it_is_one(tmp_path):
    model = scripted(Answer(events=(REFUSAL,)), Answer(text="fine"))
    async with open_thread(tmp_path, model) as thread:
        heard = await hear(thread, "do harm")
        assert "".join(each.text for each in of(heard, TextDelta)) == "I will not do that."
        ended = last(heard)
        assert (ended.status, ended.text, ended.refused) == (
            "completed",
            "I will not do that.",
            True,
        )
        assert last(await hear(thread, "do good")).refused is False
