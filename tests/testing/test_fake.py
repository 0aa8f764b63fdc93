from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.entries import Head
from treadle.core.items import InputText, Item, Message, OutputText, encode_item
from treadle.models.contract import InvalidRequest, ModelRequest
from treadle.models.formats.messages import MessagesFormat
from treadle.models.transport import AsyncTransport
from treadle.testing.contracts.answers import collect, collect_failed, completion_of, done_messages
from treadle.testing.fake import FakeServer
from treadle.testing.fake.server import common_prefix
from treadle.testing.script import Answer, Api, Call, Script
from treadle.testing.scripted import ScriptedModel

APIS: tuple[Api, ...] = ("responses", "chat", "messages")


def user(text: str) -> Message:
    return Message(role="user", content=(InputText(text),))


def asked(model: ScriptedModel, *items: Item, thread: str = "thr_1") -> ModelRequest:
    head = Head(provider="scripted", api=model.format.name, model="m")
    opening = b"".join(part for _, part in model.format.head_parts(head, thread))
    writer = model.format.writer(head)
    put = b"".join(writer.write(encode_item(item)) for item in items)
    return ModelRequest(head=head, body=opening + put + writer.closing(), thread=thread)


@pytest.mark.parametrize("api", APIS)
async def test_a_condition_sees_what_was_said_since_the_model_spoke(api: Api):
    script = Script(
        api=api, answers=(Answer(text="found", when="needle", times=0), Answer(text="no", times=0))
    )
    model = ScriptedModel(script)
    old = (user("needle"), Message(role="assistant", content=(OutputText("a"),)), user("hay"))
    assert await _said(model, asked(model, *old)) == "no"
    assert await _said(model, asked(model, *old, user("a needle"))) == "found"
    await model.close()


@pytest.mark.parametrize("api", APIS)
async def test_a_script_that_is_used_up_says_so(api: Api):
    model = ScriptedModel(Script(api=api))
    _, error = await collect_failed(model, asked(model, user("hello")))
    await model.close()
    assert isinstance(error, InvalidRequest)
    assert "no answer left for 'hello'" in str(error)


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_prefix_that_was_sent_before_counts_as_cached(api: Api):
    model = ScriptedModel(Script(api=api, answers=(Answer(text="x", times=0),)))
    first, second = asked(model, user("a" * 400)), asked(model, user("a" * 400), user("b"))
    cached = [await _cached(model, each) for each in (first, second)]
    await model.close()
    assert cached == [0, common_prefix(first.body, second.body) // 4]


async def test_messages_are_cached_only_where_they_are_marked():
    model = ScriptedModel(Script(api="messages", answers=(Answer(text="x", times=0),)))
    plain = asked(model, user("a" * 400))
    end = plain.body.index(b"]}]}")
    marked = msgspec.structs.replace(
        plain, body=MessagesFormat().with_cache_marks(plain.body, (end,), plain.head)
    )
    cached = [await _cached(model, each) for each in (plain, plain, marked)]
    await model.close()
    assert cached == [0, 0, len(plain.body) // 4]


async def test_each_thread_may_have_its_own_script():
    answers = (Answer(text="first"), Answer(text="second"))
    model = ScriptedModel(Script(scope="thread", answers=answers))
    said = [
        await _said(model, asked(model, user("x"), thread=thread)) for thread in ("a", "b", "a")
    ]
    await model.close()
    assert said == ["first", "first", "second"]


async def test_the_same_request_gets_the_same_bytes_from_another_server():
    script = Script(answers=(Answer(text="a", calls=(Call(name="read"),)),))
    bodies = []
    for _ in range(2):
        async with FakeServer(script) as server, AsyncTransport() as transport:
            url = f"{server.base_url}/responses"
            async with await transport.post(url, b'{"input":[]}', {}) as response:
                bodies.append(await response.read(1 << 20))
    assert bodies[0] == bodies[1]


async def test_a_trigger_in_the_input_is_answered_with_one_compaction():
    trigger = {"input": [{"type": "message", "role": "user"}, {"type": "compaction_trigger"}]}
    async with FakeServer(Script()) as server, AsyncTransport() as transport:
        url, body = f"{server.base_url}/responses", msgspec.json.encode(trigger)
        async with await transport.post(url, body, {}) as response:
            data = await response.read(1 << 20)
    assert data.count(b'"type":"compaction"') == 1
    assert b"response.completed" in data


async def test_only_the_formats_asked_for_are_served():
    async with FakeServer(Script(), apis=("chat",)) as server, AsyncTransport() as transport:
        async with await transport.post(f"{server.base_url}/responses", b"{}", {}) as response:
            assert response.status == 404
        assert [each.path for each in server.requests] == ["/v1/responses"]


async def test_a_scripted_model_remembers_its_requests_and_what_is_left():
    model = ScriptedModel([Answer(text="a"), Answer(text="b")], "two")
    first = asked(model, user("x"))
    await collect(model, first)
    assert (model.name, [each.body for each in model.requests]) == ("scripted:two", [first.body])
    assert model.left == (Answer(text="b"),)
    await model.close()
    await model.close()


async def test_many_clients_start_one_server():
    model = ScriptedModel([Answer(text="a", times=0)])
    request = asked(model, user("x"))
    await asyncio.gather(*(collect(model, request) for _ in range(50)))
    assert len(model.requests) == 50
    await model.close()


@given(st.binary(max_size=40), st.binary(max_size=10), st.binary(max_size=10))
def test_a_common_prefix_is_the_longest(shared: bytes, one: bytes, other: bytes):
    left, right = shared + one, shared + other
    size = common_prefix(left, right)
    assert left[:size] == right[:size]
    assert left[size : size + 1] != right[size : size + 1] or size == min(len(left), len(right))


async def test_treadle_fake_serves_a_script_from_the_shell(tmp_path: Path):
    script = tmp_path / "s.toml"
    script.write_text('[[answer]]\ntext = "from the shell"\n')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import sys; from treadle.cli.app import run; sys.exit(run())",
        "fake", str(script),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TREADLE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    told = (await process.stdout.readline()).decode()
    found = re.fullmatch(r"OPENAI_BASE_URL=(\S+)\n", told)
    assert found is not None
    body = msgspec.json.encode({"messages": [{"role": "user", "content": "hi"}]})
    async with AsyncTransport() as transport:
        url = f"{found[1]}/chat/completions"
        async with await transport.post(url, body, {}) as response:
            answer = await response.read(1 << 20)
    assert b"shell" in answer
    process.send_signal(signal.SIGINT)
    rest = (await process.stdout.read()).decode()
    assert f"POST /v1/chat/completions {len(body)} bytes" in rest
    assert await process.wait() == 130


async def _said(model: ScriptedModel, request: ModelRequest) -> str:
    part: Any = done_messages(await collect(model, request))[0].content[0]
    return str(part.text)


async def _cached(model: ScriptedModel, request: ModelRequest) -> int | None:
    usage = completion_of(await collect(model, request)).usage
    assert usage is not None
    return usage.cached_input_tokens
