"""The provider: an endpoint on the loopback interface that cannot be relied on.

    python -m soak.provider SEED MARK

Owns a process of its own, which nothing kills. Prints its address, then one line for
every answer: what it sent and what went wrong. `POST /calm` lets it behave from then on.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import msgspec
from msgspec import Struct

from soak.answers import Given, Mouth
from treadle.core.loopback import LoopbackListener, LoopbackRequest
from treadle.testing.fake.answer_format import AnswerFormat, ScriptedResponse
from treadle.testing.fake.http import HttpReply, HungUp, read_request
from treadle.testing.fake.request_facts import read_facts
from treadle.testing.fake.server import ANSWER_FORMATS, ANSWER_PATHS
from treadle.testing.script import Api

__all__ = ["Provider", "Sent"]

_STREAM = {"content-type": "text/event-stream"}
_JSON = {"content-type": "application/json"}
_GARBAGE = (
    b"data: {\n\n",
    b'event: response.output_item.done\ndata: {"type":"response.output_item.done"}\n\n',
    b": comment\n\n\xff\xfe\x00\n\n",
    b"data: [1,2,3]\n\nevent:\ndata:\n\n",
)
_BYTES_PER_TOKEN = 4


class Sent(Struct, frozen=True, omit_defaults=True):
    """An answer as it is remembered."""

    api: str
    trouble: str
    words: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    times: int = 1
    """How often each of the names was sent."""


class Provider(LoopbackListener):
    """Answers in all three wire formats, well or badly."""

    def __init__(self, mouth: Mouth) -> None:
        super().__init__()
        self.mouth = mouth

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until one ends the connection."""
        try:
            while (request := await read_request(reader)) is not None:
                reply = HttpReply(reader, writer)
                await self._exchange(request, reply)
                if not reply.ended:
                    break
        except HungUp:
            pass

    async def _exchange(self, request: LoopbackRequest, reply: HttpReply) -> None:
        if request.path == "/calm":
            self.mouth.calm = True
            await reply.send_whole(200, _JSON, b"{}")
        elif (api := ANSWER_PATHS.get(request.path)) is None:
            await reply.send_whole(404, _JSON, b'{"error":{"message":"nothing here"}}')
        else:
            await self._answer(api, request, reply)

    async def _answer(self, api: Api, request: LoopbackRequest, reply: HttpReply) -> None:
        payload = request.payload
        given = self.mouth.answer(
            _offered_tools(payload), _rounds(payload), _key(request), rich=api == "responses"
        )
        times = 2 if given.trouble in ("twice the same item", "garbage") else 1
        sent = Sent(api, given.trouble, given.words, given.calls, given.strays, times)
        sys.stdout.buffer.write(msgspec.json.encode(sent) + b"\n")
        sys.stdout.buffer.flush()
        voice, failure = ANSWER_FORMATS[api], given.answer.error
        await reply.wait(given.answer.delay)
        if failure is not None and failure.status:
            headers = {**_JSON, **failure.headers}
            await reply.send_whole(
                failure.status, headers, msgspec.json.encode(voice.error(failure))
            )
        else:
            await self._stream(given, _frames(given, voice, request), reply)

    async def _stream(self, given: Given, frames: list[bytes], reply: HttpReply) -> None:
        await reply.begin(200, _STREAM)
        stall = given.answer.stall
        whole = b"".join(frames)
        if given.cut_at < 1:
            await reply.send(whole[: int(len(whole) * given.cut_at)])
            return
        for number, each in enumerate(frames):
            if stall is not None and number == stall.events:
                await reply.wait(None)
            if given.answer.pace:
                await reply.wait(given.answer.pace)
            await reply.send(each)
        await reply.end()


def _frames(given: Given, voice: AnswerFormat, request: LoopbackRequest) -> list[bytes]:
    """The events of the answer, less or more than they should be."""
    heard = read_facts(ANSWER_PATHS[request.path], request)
    size = len(request.body) // _BYTES_PER_TOKEN
    usage = given.answer.usage
    name = given.words[0].removeprefix("word") if given.words else heard.digest
    told = ScriptedResponse(
        given.answer,
        heard.model,
        name,
        size if usage.input is None else usage.input,
        usage.cached or 0,
        usage.output or 20,
        0,
    )
    frames = voice.frames(told)
    match given.trouble:
        case "no completion":
            return frames[:-1]
        case "two completions":
            return [*frames, frames[-1]]
        case "twice the same item":
            done = [each for each in frames if b"output_item.done" in each]
            return [*frames[:-1], *done[-1:], frames[-1]]
        case "garbage":
            return [*frames[:2], *_GARBAGE, *frames[2:]]
        case _:
            return frames


def _offered_tools(payload: dict[str, Any]) -> list[str]:
    tools = payload.get("tools") or []
    return [str(each.get("name") or each.get("function", {}).get("name")) for each in tools]


def _rounds(payload: dict[str, Any]) -> int:
    """How many results stand behind the last thing that a person said."""
    rounds = 0
    for item in reversed(payload.get("input") or payload.get("messages") or []):
        content = item.get("content")
        returned = isinstance(content, list) and any(
            part.get("type") == "tool_result" for part in content
        )
        if item.get("role") == "user" and not returned:
            break
        rounds += str(item.get("type", "")).endswith("_output") or item.get("role") == "tool"
        rounds += returned
    return rounds


def _key(request: LoopbackRequest) -> str:
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return bearer or request.headers.get("x-api-key", "")


async def main(seed: str, mark: str) -> None:
    """Serve until the conductor hangs up."""
    async with Provider(Mouth(random.Random(f"provider {seed}"), mark)) as provider:
        print(provider.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
