from __future__ import annotations

import hashlib

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec import Raw

from tests.context.scenes import (
    BLIND_MODEL,
    MODEL,
    OTHER_MODEL,
    answer,
    call,
    open_thread,
    output,
    reasoning,
    scene,
    user,
)
from treadle.context.head import Choices, build_head
from treadle.context.preview import NextRequest
from treadle.context.request import HEAD_SEGMENTS, Renderer, Request, RequestEncoder
from treadle.context.row import Row
from treadle.core.entries import Draft, Head, Origin
from treadle.core.errors import NothingToSend
from treadle.core.items import FunctionCallOutput, Item, encode_item
from treadle.core.specs import CustomTool, FunctionTool, TextFormat, parameters
from treadle.log.thread_log import ThreadLog
from treadle.log.turn_input import TurnInput
from treadle.models.catalog import Catalog
from treadle.prompt.input import user_message
from treadle.store.memory import MemoryStore

ORIGIN = Origin("openai", "responses", "gpt-5.5", "", "treadle")
FOREIGN = Origin("acme", "responses", "tiny", "", "treadle")


def rows(*items: Item | bytes, origin: Origin | None = ORIGIN) -> list[Row]:
    bodies = [item if isinstance(item, bytes) else encode_item(item) for item in items]
    return [
        Row.of_draft(Draft(body=body, origin=origin), seq)
        for seq, body in enumerate(bodies, start=1)
    ]


def encoded(shown: list[Row], head: Head | None = None) -> Request:
    return RequestEncoder(head or Head(model="m")).encode(shown, epoch=1, upto=9)


def body(request: Request) -> dict[str, object]:
    decoded = msgspec.json.decode(request.body)
    assert isinstance(decoded, dict)
    return decoded


async def test_the_body_has_every_field_and_the_input_last():
    tool = FunctionTool(name="look", description="Looks.", parameters=parameters({}))
    async with scene(tools=[tool], choices=Choices(service_tier="priority")) as found:
        await found.say("hi")
        sent = body(found.thread.request())
        sent["prompt_cache_key"] = sent["prompt_cache_key"] == found.thread.id
        sent["instructions"] = type(sent["instructions"]).__name__
        sent["input"] = len(sent["input"])  # type: ignore[arg-type]
        assert ",".join(sent) == snapshot(
            "model,tool_choice,parallel_tool_calls,reasoning,store,stream,include,service_tier,prompt_cache_key,text,tools,instructions,input"
        )
        assert sent == snapshot(
            {
                "model": "gpt-5.5",
                "tool_choice": "auto",
                "parallel_tool_calls": True,
                "reasoning": {"effort": "medium"},
                "store": False,
                "stream": True,
                "include": ["reasoning.encrypted_content"],
                "service_tier": "priority",
                "prompt_cache_key": True,
                "text": {"verbosity": "low"},
                "tools": [
                    {
                        "type": "function",
                        "name": "look",
                        "description": "Looks.",
                        "strict": False,
                        "parameters": {
                            "type": "object",
                            "properties": {},
                            "additionalProperties": False,
                        },
                    }
                ],
                "instructions": "str",
                "input": 4,
            }
        )


async def test_forks_share_the_prompt_cache_key_of_their_root():
    async with scene() as found:
        await found.turn("hi")
        store = found.thread.store
        child = await store.fork(found.thread.id, found.thread.view.upto)
        grandchild = await store.fork(child.id, child.last)
        for fork in (child, grandchild):
            async with open_thread(store, fork.id) as forked:
                assert forked.request().body == found.thread.request().body
                assert body(forked.request())["prompt_cache_key"] == found.thread.id


@pytest.mark.parametrize(
    ("model", "choices", "expected"),
    [
        (MODEL, Choices(), {"effort": "medium"}),
        (MODEL, Choices(effort="high", summary="auto"), {"effort": "high", "summary": "auto"}),
        (MODEL, Choices(effort="ultra"), {"effort": "max"}),
        (MODEL, Choices(summary="none"), {"effort": "medium"}),
        ("openai:gpt-4o", Choices(), None),
    ],
)
def test_reasoning_is_the_models_own_unless_asked_otherwise(model, choices, expected):
    head = build_head(Catalog.load().profile(model), instructions="", choices=choices)
    assert body(encoded([], head)).get("reasoning") == expected


@pytest.mark.parametrize(
    ("model", "choices", "expected"),
    [
        (MODEL, Choices(), {"verbosity": "low"}),
        (MODEL, Choices(verbosity="high"), {"verbosity": "high"}),
        ("openai:gpt-4o", Choices(verbosity="high"), None),
        (
            "openai:gpt-4o",
            Choices(output_schema=Raw(b'{"type": "object"}')),
            {
                "format": {
                    "type": "json_schema",
                    "strict": True,
                    "schema": {"type": "object"},
                    "name": "treadle_output",
                }
            },
        ),
    ],
)
def test_verbosity_and_schema_stand_under_text(model, choices, expected):
    head = build_head(Catalog.load().profile(model), instructions="", choices=choices)
    assert body(encoded([], head)).get("text") == expected


def test_a_model_that_takes_a_verbosity_but_has_none_gets_none():
    profile = Catalog.load().profile(MODEL).override(default_verbosity="")
    assert "text" not in body(encoded([], build_head(profile, instructions="")))


@pytest.mark.parametrize("parallel", [True, False])
def test_parallel_calls_are_the_models_choice(parallel):
    profile = Catalog.load().profile(MODEL).override(parallel_tool_calls=parallel)
    sent = body(encoded([], build_head(profile, instructions="")))
    assert sent["parallel_tool_calls"] is parallel


def test_a_tier_that_the_model_does_not_list_is_left_out():
    head = build_head(
        Catalog.load().profile(MODEL), instructions="", choices=Choices(service_tier="default")
    )
    assert "service_tier" not in body(encoded([], head))


def test_without_instructions_and_tools_the_body_says_so_in_its_own_way():
    sent = body(encoded([]))
    assert "instructions" not in sent
    assert (sent["tools"], sent["input"]) == ([], [])


def test_tools_keep_their_bytes_and_order():
    schema = Raw(b'{ "type": "object" }')
    tools = (
        FunctionTool(name="b", description="B.", parameters=schema),
        CustomTool(name="a", description="A.", format=TextFormat()),
    )
    head = build_head(Catalog.load().profile(MODEL), instructions="", tools=tools)
    data = encoded([], head).body
    assert data.index(b'"name":"b"') < data.index(b'"name":"a"')
    assert bytes(schema) in data


def test_each_request_starts_with_the_one_before():
    history = rows(user("1"), reasoning(), call(1), output(1), answer(), user("2"), answer())
    encoder = RequestEncoder(Head(model="m", instructions="Be brief."))
    before = encoder.encode([], epoch=1, upto=0)
    for length in (1, 4, 5, 6, 7):
        request = encoder.encode(history[:length], epoch=1, upto=length)
        assert request.body.startswith(before.body[:-2])
        assert request.segments[: len(before.segments)] == before.segments
        before = request


def test_encoding_step_by_step_equals_encoding_at_once():
    history = rows(user("1"), call(1), call(2), output(2), user("2"), output(1), output(1), call(3))
    encoder = RequestEncoder(Head(model="m"))
    for length in range(len(history) + 1):
        step_by_step = encoder.encode(history[:length], epoch=1, upto=9)
        assert step_by_step == encoded(history[:length])


def test_what_stands_in_for_an_output_goes_when_the_real_one_comes():
    history = rows(user("1"), call(1), output(1, "done"))
    encoder = RequestEncoder(Head(model="m"))
    assert b"aborted" in encoder.encode(history[:2], epoch=1, upto=9).body
    assert b"aborted" not in encoder.encode(history, epoch=1, upto=9).body


def test_a_call_that_is_not_sent_takes_its_output_along():
    strange = b'{"type":"function_call","name":"f","arguments":{"a":1},"call_id":"call_1"}'
    shown = [*rows(user("1"), strange, origin=FOREIGN), *rows(output(1), user("2"), origin=None)]
    assert [item["type"] for item in body(encoded(shown))["input"]] == [  # type: ignore[attr-defined]
        "message",
        "message",
    ]


def test_an_output_that_is_not_sent_leaves_a_stand_in():
    strange = b'{"type":"function_call_output","call_id":"call_1","output":{"a":1}}'
    shown = rows(user("1"), call(1), strange, origin=FOREIGN)
    late = rows(FunctionCallOutput(call_id="call_1", output="late"), origin=None)
    encoder = RequestEncoder(Head(model="m"))
    for history in (shown, [*shown, *late]):
        request = encoder.encode(history, epoch=1, upto=9)
        assert request == encoded(history)
        outputs = [i for i in body(request)["input"] if "output" in i]  # type: ignore[attr-defined]
        assert len(outputs) == 1


def test_digests_are_chained_over_segments_and_sizes_add_up():
    request = encoded(rows(user("1"), answer(), user("2")), Head(model="m", instructions="x"))
    kinds = [segment.kind for segment in request.segments]
    assert kinds == ["params", "tools", "instructions", "item", "item", "item"]
    assert sum(segment.size for segment in request.segments) == len(request.body) - 2
    digest, start = b"", 0
    for segment in request.segments:
        piece = request.body[start : start + segment.size]
        digest = hashlib.blake2b(digest + piece, digest_size=16).digest()
        assert segment.digest == digest.hex()
        start += segment.size
    assert request.digest == f"b2:{digest.hex()}"
    assert [segment.seq for segment in request.segments[HEAD_SEGMENTS:]] == [1, 2, 3]
    assert request.items == 3


async def test_a_thread_without_an_input_has_nothing_to_send():
    async with scene() as found:
        with pytest.raises(NothingToSend, match=f"thread '{found.thread.id}' has nothing to send"):
            found.thread.request()


async def test_a_renderer_starts_anew_with_each_epoch():
    async with scene() as found:
        await found.turn("u1")
        renderer = Renderer()
        assert renderer.render(found.thread.view) == found.thread.request()
        await found.thread.rollback()
        found.thread.log.setup.use_model(OTHER_MODEL)
        await found.say("u2")
        assert renderer.render(found.thread.view) == Renderer().render(found.thread.view)
        assert body(found.thread.request())["model"] == "gpt-5.2"


async def test_ids_of_ours_are_never_sent():
    async with scene() as found:
        await found.say("u1")
        await found.step(answer().__class__(role="assistant", content=answer().content), call(1))
        await found.thread.log.append(
            FunctionCallOutput(id="fco_mine", call_id="call_1", output="x")
        )
        await found.say("u2")
        sent = found.thread.request().body
        for row in found.thread.view.rows:
            assert row.id is not None
            assert (row.id.encode() in sent) is (row.id == "fc_1")


async def test_a_model_without_eyes_gets_sentences():
    async with scene(MemoryStore(), model=BLIND_MODEL) as found:
        await found.say("u1")
        assert found.thread.view.head is not None
        assert (found.thread.view.head.images, found.thread.view.head.audio) == (False, False)


async def next_request(log: ThreadLog, said: str) -> NextRequest:
    return await log.turns.preview(TurnInput(message=user_message(said)), await log.setup.observe())


async def test_a_preview_is_what_the_turn_will_send():
    async with scene() as found:
        found.thread.log.setup.settings = found.context
        for said in ("u1", "u2"):
            following = await next_request(found.thread.log, said)
            await found.thread.log.turns.admit(said)
            assert following.request.body == found.thread.request().body
            shown = [row.body for row in following.view.rows]
            assert shown == [row.body for row in found.thread.view.rows]
            await found.step(call(said))
        before = len(await found.thread.store.read(found.thread.id))
        found.thread.log.setup.use_model(OTHER_MODEL)
        following = await next_request(found.thread.log, "u3")
        assert len(await found.thread.store.read(found.thread.id)) == before
        await found.thread.log.turns.admit("u3")
        assert following.request.body == found.thread.request().body
