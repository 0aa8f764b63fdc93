"""Chat Completions as a model: OpenAI-compatible servers of every kind.

Owns how their streams become the events of a Responses stream: calls by index, and what a
finish reason means. Invariant: servers that send no usage, no ids, no ``[DONE]`` or no
stream at all still give whole items, and every call has an id.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from ..core.items import Reasoning, ReasoningText
from ..core.usage import InputDetails, OutputDetails, WireUsage
from ..core.wire import UNREADABLE
from .contract import ModelError, ModelEvent, ModelRequest
from .endpoint import HttpModel
from .formats.chat import ChatFormat
from .formats.chat_extras import Detail, SealedDetails, seal_details
from .formats.function_calls import FlatTool, flat_tools
from .item_reader import CallInProgress, ItemReader

if TYPE_CHECKING:
    from .text_calls import HeldText

__all__ = ["ChatModel", "ChatReader"]

_CUT_SHORT = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ChatModel(HttpModel):
    """A model behind ``/chat/completions``."""

    format: ChatFormat = field(default_factory=ChatFormat)

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        """Send `request` and yield the events of the answer."""
        tools = {tool.name: tool for tool in flat_tools(request.head.tools)}
        digest = hashlib.blake2b(request.body, digest_size=12).hexdigest()
        reader = ChatReader(tools, digest, request.head.model, request.head.text_calls)
        return self.endpoint.stream("/chat/completions", request, reader, {})


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _CallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    extra_content: Any = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(Struct):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def to_wire(self) -> WireUsage:
        prompt, completion = self.prompt_tokens or 0, self.completion_tokens or 0
        details = self.prompt_tokens_details or _PromptDetails()
        cached = (
            self.prompt_cache_hit_tokens if details.cached_tokens is None else details.cached_tokens
        )
        thinking = self.completion_tokens_details
        return WireUsage(
            input_tokens=prompt,
            input_tokens_details=InputDetails(cached, details.cache_write_tokens),
            output_tokens=completion,
            output_tokens_details=OutputDetails(thinking.reasoning_tokens) if thinking else None,
            total_tokens=self.total_tokens or prompt + completion,
        )


class _Chunk(Struct):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether it holds an error instead of a part of the answer."""
        return self.error is not None or self.object == "error"


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class ChatReader(ItemReader):
    """Reads one Chat Completions answer of `model`.

    `digest` replaces an id that the server omits. `forms` are those of calls that its text may
    hold; while it may, the text is held back.
    """

    def __init__(
        self,
        tools: Mapping[str, FlatTool],
        digest: str,
        model: str = "",
        forms: Sequence[str] = (),
    ) -> None:
        super().__init__(tools, fallback_id=f"chatcmpl-{digest}")
        self._text_held: HeldText | None = None
        if forms and tools:
            from .text_calls import HeldText  # most models call tools through the API

            schemas = {each: msgspec.json.decode(tool.parameters) for each, tool in tools.items()}
            self._text_held = HeldText(forms, schemas)
        self._model = model
        self._details: list[Detail] = []
        self._late = False
        self._calls: dict[int, CallInProgress] = {}
        self._moved: dict[int, int] = {}
        """Where the newest call is of those that a server gave the same index."""
        self._finish_reason = ""
        self._usage: WireUsage | None = None

    def read(self, payload: bytes) -> None:
        """Read one chunk of the stream."""
        if payload.strip() == b"[DONE]":
            self._finish(self._finish_reason or "stop")
        else:
            super().read(payload)

    def read_document(self, body: bytes) -> None:
        """Read an answer that came as one document."""
        try:
            chunk = _decode_chunk(body)
        except UNREADABLE:
            chunk = _Chunk()
        if chunk.is_error or not chunk.choices:
            self._fail(body)
            return
        self._take(chunk, body)
        self._finish(self._finish_reason or "stop")

    def end(self, cut: ModelError) -> None:
        """Handle the end of the stream: it is an error unless a finish reason came before."""
        if self._finish_reason:
            self._finish(self._finish_reason)
        else:
            self.failure = cut

    def _decode(self, payload: bytes) -> _Chunk:
        return _decode_chunk(payload)

    def _take(self, event: _Chunk, payload: bytes) -> None:
        if event.is_error:
            self._fail(payload)
            return
        if not self._id and (event.id or event.choices):
            self._start(event.id or self._fallback_id, event.model)
        if event.usage is not None:
            self._usage = event.usage.to_wire()
        for choice in event.choices or ():
            if choice.index == 0:
                self._take_delta(choice.delta or choice.message or _Delta())
                self._finish_reason = choice.finish_reason or self._finish_reason

    def _take_delta(self, delta: _Delta) -> None:
        if text := _text(delta.reasoning_content) or _text(delta.reasoning):
            self._add_thinking(text)
        if details := [each for each in _list(delta.reasoning_details) if isinstance(each, dict)]:
            self._add_details(details)
        self._extra |= _table(delta.extra_content)
        if text := self._shown(_text(delta.content) or delta.refusal or ""):
            self._add_text(text)
        for call in delta.tool_calls or ():
            self._take_call(call)

    def _shown(self, text: str) -> str:
        """Return what of a text is certainly no call."""
        return text if self._text_held is None else self._text_held.feed(text)

    def _release_text(self) -> None:
        """Say what is held: it is no call."""
        if self._text_held is not None and (text := self._text_held.take()):
            self._add_text(text)

    def _take_written_calls(self) -> None:
        """Make items of the calls that the text holds, if there are no others."""
        if self._text_held is None:
            return
        found = self._text_held.take_calls()
        if found.said:
            self._add_text(found.said)
        for index, call in enumerate(found.calls):
            self._add_arguments(self._begin(index, call.name, None), call.arguments)

    def _add_details(self, details: list[Detail]) -> None:
        self._late |= self._text is not None or self._count > 0
        if self._text is None:
            self._begin_thinking()
        self._details += details

    def _finish_text(self) -> None:
        super()._finish_text()
        if self._details:  # they came while text was growing
            self._begin_item(Reasoning())
            self._finish_item(self._reasoning(""))

    def _reasoning(self, text: str) -> Reasoning:
        details, self._details = self._details, []
        late, self._late = self._late, False
        content = (ReasoningText(text),) if text else None
        if not details:
            return Reasoning(content=content)
        sealed = SealedDetails(details, self._model, late)
        return Reasoning(content=content, encrypted_content=seal_details(sealed))

    def _take_call(self, delta: _CallDelta) -> None:
        function = delta.function or _Function()
        given = max(self._calls, default=0) if delta.index is None else delta.index
        index = self._moved.get(given, given)
        call = self._calls.get(index)
        if call is None or _is_another(delta, call):
            if not function.name:
                return
            if call is not None:
                index = self._moved[given] = max(self._calls) + 1
            call = self._begin(index, function.name, delta.id)
        call.extra |= _table(delta.extra_content)
        if not call.done and (arguments := _arguments(function.arguments)):
            self._add_arguments(call, arguments)

    def _begin(self, index: int, name: str, call_id: str | None) -> CallInProgress:
        self._release_text()
        # Calls that cannot grow any more need not wait for the others.
        self._finish_calls(call for call in self._open_calls if call.looks_whole())
        if not call_id:
            digest = hashlib.blake2b(f"{self._id}:{index}".encode(), digest_size=12)
            call_id = f"call_{digest.hexdigest()}"
        call = self._calls[index] = self._begin_call(name, call_id)
        return call

    @property
    def _open_calls(self) -> list[CallInProgress]:
        return [call for call in self._calls.values() if not call.done]

    def _finish_calls(self, calls: Iterable[CallInProgress]) -> None:
        for call in calls:
            self._finish_call(call)

    def _finish(self, reason: str) -> None:
        if reason in _CUT_SHORT or self._calls:
            self._release_text()
        else:
            self._take_written_calls()
        self._finish_text()
        self._finish_calls(call for call in self._open_calls if call.is_whole)
        if (cut := _CUT_SHORT.get(reason)) is not None:
            self._cut_short(cut, self._usage)
            return
        self._finish_calls(self._open_calls)
        self._complete(self._usage)


def _is_another(delta: _CallDelta, call: CallInProgress) -> bool:
    """Return whether a server that gives all calls one index has begun another call."""
    function = delta.function
    if function is None or not function.name or not call.looks_whole():
        return False
    if delta.id:
        return delta.id != call.call_id
    return _arguments(function.arguments).lstrip().startswith("{")


def _text(value: object) -> str:
    """Return the text, also where a server wraps it into parts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _arguments(value: object) -> str:
    """Return arguments as the string that they should be."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
