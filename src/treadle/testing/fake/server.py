"""The fake server: a script over real HTTP, with a prompt cache like a provider's.

Owns a listening socket on 127.0.0.1, the recorded requests and the position in the script.
Invariants: it never outlives its `async with` block; what is reported as cached is a prefix
that an earlier request of the same key really had.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ...core.loopback import LoopbackListener, LoopbackRequest
from ..script import Answer, Api, Break, Playback, Script, ScriptedError
from .answer_format import AnswerFormat, ScriptedResponse
from .chat_answers import ChatAnswers
from .http import HttpReply, HungUp, read_request
from .messages_answers import MessagesAnswers
from .request_facts import RequestFacts, read_facts
from .responses_answers import ResponsesAnswers

__all__ = ["ANSWER_FORMATS", "ANSWER_PATHS", "FakeServer", "PromptCache", "common_prefix"]

ANSWER_PATHS: Final[dict[str, Api]] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
ANSWER_FORMATS: Final[dict[Api, AnswerFormat]] = {
    "responses": ResponsesAnswers(),
    "chat": ChatAnswers(),
    "messages": MessagesAnswers(),
}

_PATHS: dict[str, Api] = {**ANSWER_PATHS, "/v1/responses/compact": "responses"}
_MARK = re.compile(
    rb',"cache_control":\{"type":"ephemeral"(?:,"ttl":"\w+")?\}'
    rb'|,"prompt_cache_breakpoint":\{"mode":"explicit"\}'
)
_JSON = {"content-type": "application/json"}
_STREAM = {"content-type": "text/event-stream", "cache-control": "no-cache"}
_BYTES_PER_TOKEN = 4
_KEPT_BODIES = 8
_FAILED = 500
_MODEL = {
    "id": "scripted",
    "object": "model",
    "type": "model",
    "display_name": "Scripted",
    "created": 0,
    "created_at": "1970-01-01T00:00:00Z",
    "owned_by": "treadle",
}
"""The one model there is; requests may name any."""


def common_prefix(one: bytes, other: bytes) -> int:
    """Return how many bytes both start with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class PromptCache:
    """A prompt cache like a provider's: it keeps the last bodies of each key."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, deque[bytes]] = defaultdict(lambda: deque(maxlen=_KEPT_BODIES))

    def shared_prefix(self, key: str, body: bytes) -> int:
        """Return the longest prefix that `body` shares with an earlier one; remember `body`."""
        seen = self._seen[key]
        longest = max((common_prefix(body, earlier) for earlier in seen), default=0)
        seen.append(body)
        return longest


class FakeServer(LoopbackListener):
    """Serves `script` in every wire format and records what was asked."""

    def __init__(
        self,
        script: Script,
        *,
        port: int = 0,
        apis: tuple[Api, ...] = ("responses", "chat", "messages"),
        on_request: Callable[[LoopbackRequest], None] | None = None,
    ) -> None:
        super().__init__(port)
        self.hung_up = 0
        """Answers whose client went away before the end."""
        self._script, self._apis = script, apis
        self._on_request = on_request
        self._playbacks: dict[str, Playback] = {}
        self._cache = PromptCache()

    def play(self, script: Script) -> None:
        """Begin another script, with an empty record of requests."""
        self._script, self._playbacks, self._cache = script, {}, PromptCache()
        self.requests.clear()

    @property
    def left(self) -> tuple[Answer, ...]:
        """Return the answers that were not given yet."""
        return self._playback("").left

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until one ends the connection or the client has enough."""
        try:
            while (request := await read_request(reader)) is not None:
                reply = HttpReply(reader, writer)
                await self._exchange(request, reply)
                if not reply.ended or request.headers.get("connection") == "close":
                    break
        except HungUp:
            self.hung_up += 1

    async def _exchange(self, request: LoopbackRequest, reply: HttpReply) -> None:
        self.requests.append(request)
        if self._on_request is not None:
            self._on_request(request)
        api = _PATHS.get(request.path)
        if (told := _told_without_a_script(request)) is not None:
            await reply.send_whole(200, _JSON, msgspec.json.encode(told))
            return
        if request.method != "POST" or api is None or api not in self._apis:
            missing = ScriptedError(code="not_found_error", message=f"nothing at {request.path!r}")
            await _refuse(reply, ANSWER_FORMATS["responses"], missing, 404)
            return
        facts = read_facts(api, request)
        compacts = facts.trigger or request.path.endswith("/compact")
        answer = self._playback(facts.key).next(facts.texts, "compact" if compacts else "stream")
        if answer is None and compacts:
            answer = Answer(endpoint="compact", text="folded")
        if answer is None:
            await _refuse(reply, ANSWER_FORMATS[api], _no_answer_left(facts), 400)
        else:
            await self._give(request, facts, answer, reply)

    async def _give(
        self, request: LoopbackRequest, facts: RequestFacts, answer: Answer, reply: HttpReply
    ) -> None:
        answer_format = ANSWER_FORMATS[facts.api]
        await reply.wait(answer.delay)
        if answer.error is not None and answer.error.status:
            await _refuse(reply, answer_format, answer.error, answer.error.status)
        elif answer.body is not None:
            await reply.send_whole(200, {**_JSON, **answer.headers}, answer.body.encode())
        elif request.path.endswith("/compact"):
            await reply.send_whole(200, {**_JSON, **answer.headers}, _compacted_body(facts, answer))
        else:
            scripted = self._scripted_response(request, facts, answer)
            if facts.trigger:
                item = {"type": "response.output_item.done", "item": _compaction(facts, answer)}
                shown = msgspec.structs.replace(answer, text="", events=(item,))
                scripted = msgspec.structs.replace(scripted, answer=shown)
            if facts.streams or facts.trigger:
                await _stream(reply, answer, answer_format.frames(scripted), facts)
            elif answer.error is not None:
                await _refuse(reply, answer_format, answer.error, _FAILED)
            else:
                body = msgspec.json.encode(answer_format.document(scripted))
                await reply.send_whole(200, {**_JSON, **answer.headers}, body)

    def _playback(self, key: str) -> Playback:
        name = key if self._script.scope == "thread" else ""
        return self._playbacks.setdefault(name, Playback(self._script))

    def _scripted_response(
        self, request: LoopbackRequest, facts: RequestFacts, answer: Answer
    ) -> ScriptedResponse:
        usage, body = answer.usage, _MARK.sub(b"", request.body)
        shared_bytes = self._cache.shared_prefix(f"{facts.api}:{facts.key}", body)
        if facts.api == "messages" and _MARK.search(request.body) is None:
            shared_bytes = 0
        input_tokens = len(body) // _BYTES_PER_TOKEN if usage.input is None else usage.input
        cached = shared_bytes // _BYTES_PER_TOKEN if usage.cached is None else usage.cached
        reasoning_tokens = _tokens(answer.reasoning) if usage.reasoning is None else usage.reasoning
        output_text = answer.text + "".join(
            call.input or call.arguments_json for call in answer.calls
        )
        output_tokens = (
            _tokens(output_text) + reasoning_tokens if usage.output is None else usage.output
        )
        return ScriptedResponse(
            answer,
            facts.model,
            facts.digest,
            input_tokens,
            min(cached, input_tokens),
            output_tokens,
            reasoning_tokens,
        )


def _told_without_a_script(request: LoopbackRequest) -> dict[str, Any] | None:
    """Return the answer to a question about models and tokens; None for any other."""
    match request.method, request.path:
        case "GET", "/v1/models":
            return {"object": "list", "data": [_MODEL], "has_more": False}
        case "POST", "/v1/messages/count_tokens":
            return {"input_tokens": len(request.body) // _BYTES_PER_TOKEN}
        case _:
            return None


async def _stream(
    reply: HttpReply, answer: Answer, frames: list[bytes], facts: RequestFacts
) -> None:
    """Send an answer event by event, breaking off or falling silent where it says."""
    named = {"x-request-id": f"req_{facts.digest}"}
    await reply.begin(200, {**_STREAM, **named, **answer.headers})
    pieces = _until(frames, answer.cut)
    stalled = None if answer.stall is None else len(_until(frames, answer.stall))
    for index, piece in enumerate(pieces):
        if index == stalled and answer.stall is not None:
            await reply.wait(answer.stall.seconds)
        if answer.pace:
            await reply.wait(answer.pace)
        await reply.send(piece)
    if answer.cut is None:
        await reply.end()


def _until(frames: list[bytes], place: Break | None) -> list[bytes]:
    """Return the frames before a place; the last one is cut where bytes are counted."""
    if place is None:
        return frames
    if place.bytes is None:
        return frames[: place.events or 0]
    left, kept = place.bytes, []
    for each in frames:
        kept.append(each[:left])
        left -= len(each)
        if left <= 0:
            break
    return kept


async def _refuse(
    reply: HttpReply, answer_format: AnswerFormat, failure: ScriptedError, status: int
) -> None:
    body = failure.body
    data = msgspec.json.encode(answer_format.error(failure)) if body is None else body.encode()
    headers: Mapping[str, str] = {**_JSON, "x-request-id": "req_refused", **failure.headers}
    await reply.send_whole(status, headers, data)


def _no_answer_left(facts: RequestFacts) -> ScriptedError:
    last = facts.texts[-1][:200] if facts.texts else ""
    text = f"the script has no answer left for {last!r}; add one, or let it loop"
    return ScriptedError(code="invalid_request_error", message=text)


def _compaction(facts: RequestFacts, answer: Answer) -> dict[str, Any]:
    sealed = f"sealed:{facts.digest}:{answer.text}"
    return {"type": "compaction", "id": f"cmp_{facts.digest}", "encrypted_content": sealed}


def _compacted_body(facts: RequestFacts, answer: Answer) -> bytes:
    """Return the user's messages, and a compaction in place of the rest."""
    kept = [item for item in facts.input if item.get("role") == "user"]
    return msgspec.json.encode({"output": [*kept, _compaction(facts, answer)]})


def _tokens(text: str) -> int:
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)
