"""The Anthropic Messages format: items as content blocks.

Owns the body, its cache marks, what differs between generations of Claude, and what
`encrypted_content` holds: a thinking block as JSON without its text, which stands readable in
`content`. Invariants: blocks of one role share a message that stays open until the role
changes, so that written bytes never change; runtime messages stand in place, never in
`system`; a kept thinking block is sent back field for field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from ...core.entries import Head
from ...core.found_text import SEARCH_TOOL, FoundDefinition
from ...core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputAudio,
    InputImage,
    Item,
    LocalShellCall,
    Message,
    Output,
    Part,
    Reasoning,
    ReasoningText,
    ToolSearchCall,
    ToolSearchOutput,
    Unknown,
    decode_item,
    encode_action,
    text_of,
)
from ...core.specs import SPECS, ToolSearchTool, WebSearchTool
from ...core.wire import UNREADABLE, is_nested_deeper, json_bytes
from ..contract import HeadPart
from .cache_marks import MOST_MARKS, ephemeral
from .deferral import Searches, search_spec
from .function_calls import (
    INPUT,
    FlatTool,
    StepOrder,
    answered_call_id,
    call_id_of,
    data_url,
    flat_name,
    flat_tools,
    part_texts,
)
from .root_branches import joined_root

__all__ = [
    "GO_ON",
    "THINKING",
    "MessageBlocks",
    "MessagesFormat",
    "reasoning_item",
    "thinking_block",
    "thinks",
]

GO_ON = "Go on."
"""Follows an answer that was cut off: the last message may not be the model's."""

THINKING = frozenset(("thinking", "redacted_thinking"))
"""The block types that only their origin may get back."""

Speaker: TypeAlias = Literal["", "user", "assistant"]
Block: TypeAlias = dict[str, object]

_TOOLS = b',"tools":['
_PLACEHOLDER: Block = {
    "name": "tool_placeholder",
    "description": "Stands for the tools that a search can find. It is never called.",
    "input_schema": {"type": "object", "properties": {}},
    "defer_loading": True,
}
"""Keeps deferral in use from the first request on, so that the first find changes no prefix."""
_TIERS = ("auto", "standard_only")
_SEARCH_TYPE = "web_search_20250305"
_BEHIND_A_BLOCK = (b"", b"]", b'],"messages":[')
_ODD_ID = re.compile(r"[^a-zA-Z0-9_-]")
_VERSION = re.compile(r"(?i)claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_NEWEST = (99, 0)
"""The version of a model whose name has none."""
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 10_000, "high": 20_000}
_LARGEST_BUDGET = 28_000
_members = msgspec.json.Decoder(dict[str, Raw])
_MOST_LEVELS = 500
"""As deep as arguments may nest to be sent as what they are."""


@dataclass(frozen=True, slots=True)
class MessagesFormat:
    """Writes bodies for the Messages API."""

    name: str = "messages"

    def head_parts(self, head: Head, _cache_key: str, /) -> Iterator[tuple[HeadPart, bytes]]:
        """Return the parameters, the tools, the system text, and the start of the messages."""
        tools = flat_tools(head.tools)
        # What is deferred comes first: behind the last tool there may be a cache mark.
        found = [_PLACEHOLDER] if search_spec(head) else []
        offered = [*found, *(_tool(tool) for tool in tools), *_searches(head)]
        yield "params", json_bytes(_params(head, tools))[:-1]
        yield "tools", _TOOLS + json_bytes(offered)[1:] if offered else b""
        system = json_bytes([{"type": "text", "text": head.instructions}])
        text = b',"system":' + system if head.instructions.strip() else b""
        yield "instructions", text + b',"messages":['

    def writer(self, head: Head, /) -> MessageBlocks:
        """Return a writer of blocks."""
        return MessageBlocks(_searches=Searches.under(head))

    def with_found_tools(
        self, body: bytes, ends: tuple[int, ...], found: Sequence[FoundDefinition]
    ) -> bytes:
        """Return `body` with the definitions of the tools that its references name.

        They stand among the tools and are no part of what the provider caches.
        """
        at = ends[0] + len(_TOOLS)
        assert body[ends[0] : at] == _TOOLS, "the search is a tool"
        blocks = [_tool(_flat(each)) | {"defer_loading": True} for each in found]
        written = b"".join(json_bytes(block) + b"," for block in blocks)
        return body[:at] + written + body[at:]

    def with_cache_marks(self, body: bytes, ends: tuple[int, ...], head: Head) -> bytes:
        """Return `body` with a cache mark in the block that ends at each offset.

        An offset that is not behind a block is skipped. Thinking, which cannot be marked,
        is never the last block of an item.
        """
        braces = sorted({brace for end in ends if (brace := _brace(body, end)) is not None})
        mark = b',"cache_control":' + json_bytes(ephemeral(head.cache_ttl))
        pieces, at = [], 0
        for brace in braces[-MOST_MARKS:]:
            pieces += [body[at:brace], mark]
            at = brace
        return b"".join((*pieces, body[at:]))


def _brace(body: bytes, end: int) -> int | None:
    """Return the position of the closing brace of the block that ends at `end`."""
    brace = body.rfind(b"}", 0, end)
    if brace < 0 or body[brace + 1 : end] not in _BEHIND_A_BLOCK:
        return None
    return brace


def thinks(model: str, effort: str | None, most: int | None = None) -> bool:
    """Return whether a request with this effort asks for thinking."""
    return bool(_thinking(model, effort, most or _most_tokens(model), with_summary=False))


def _params(head: Head, tools: tuple[FlatTool, ...]) -> dict[str, object]:
    most = head.max_output_tokens or _most_tokens(head.model)
    with_summary = head.summary is not None
    thinking = _thinking(head.model, head.effort, most, with_summary=with_summary)
    fields: dict[str, object] = {
        "model": head.model,
        "max_tokens": most,
        **thinking,
    }
    if head.temperature is not None:
        fields["temperature"] = head.temperature
    if head.output_schema is not UNSET:
        output = thinking.get("output_config")
        kept = output if isinstance(output, dict) else {}
        schema = {"type": "json_schema", "schema": Raw(head.output_schema)}
        fields["output_config"] = {**kept, "format": schema}
    if tools:
        fields["tool_choice"] = _tool_choice(head)
    if head.service_tier in _TIERS:
        fields["service_tier"] = head.service_tier
    # A plain value comes last, so that no brace of a parameter looks like a block's.
    return {**fields, "stream": True}


def _tool_choice(head: Head) -> dict[str, object]:
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    kind = kinds.get(head.tool_choice)
    choice: dict[str, object] = {"type": kind or "tool"}
    if kind is None:
        choice["name"] = head.tool_choice
    if not head.parallel_tool_calls and kind != "none":
        choice["disable_parallel_tool_use"] = True
    return choice


def _tool(tool: FlatTool) -> dict[str, object]:
    block: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": joined_root(tool.parameters),
    }
    if tool.strict:
        block["strict"] = True
    return block


def _flat(found: FoundDefinition) -> FlatTool:
    return FlatTool(
        name=found.name,
        tool=found.name,
        description=found.description,
        parameters=found.parameters,
    )


def _searches(head: Head) -> list[dict[str, object]]:
    """Return the search for tools, and the provider's own of the web, where they are offered."""
    found = []
    for spec in map(SPECS.decode, head.tools):
        if isinstance(spec, WebSearchTool):
            found.append(_search(spec))
        elif isinstance(spec, ToolSearchTool):
            description = spec.description
            schema = {"description": description, "input_schema": spec.parameters}
            found.append({"name": SEARCH_TOOL, **schema})
    return found


def _search(spec: WebSearchTool) -> dict[str, object]:
    tool: dict[str, object] = {"type": _SEARCH_TYPE, "name": "web_search"}
    if spec.filters is not None and spec.filters.allowed_domains:
        tool["allowed_domains"] = spec.filters.allowed_domains
    if spec.user_location is not None:
        tool["user_location"] = spec.user_location
    return tool


def _most_tokens(model: str) -> int:
    """Return how many tokens an answer may have: what every model of the generation allows."""
    version = _version(model)
    if version < (3, 5):
        return 4_096
    return 8_192 if version < (3, 7) else 32_000


def _thinking(
    model: str, effort: str | None, most: int, *, with_summary: bool
) -> dict[str, object]:
    """Return the fields that ask for thinking: with a budget, or adaptive with an effort.

    A budget is part of the `most` tokens of an answer, and leaves an eighth of them.
    """
    if effort in (None, "none") or (version := _version(model)) < (3, 7):
        return {}
    assert effort is not None
    if version < (4, 6):
        budget = min(_BUDGETS.get(effort, _LARGEST_BUDGET), most * 7 // 8)
        if budget < _BUDGETS["minimal"]:
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    adaptive = {"type": "adaptive"} | ({"display": "summarized"} if with_summary else {})
    return {"thinking": adaptive, "output_config": {"effort": _effort(version, effort)}}


def _effort(version: tuple[int, int], effort: str) -> str:
    """Return the nearest level: `xhigh` came after `max`, with 4.7."""
    if effort == "xhigh" and version < (4, 7):
        return "max"
    return "low" if effort == "minimal" else effort


def _version(model: str) -> tuple[int, int]:
    found = _VERSION.search(model)
    return _NEWEST if found is None else (int(found[1]), int(found[2] or 0))


@dataclass(slots=True)
class MessageBlocks:
    """Writes the messages of one body.

    The results of calls come first in the next user message, because nothing may stand
    between calls and results. Thinking waits for what it led to: a message that ends with it
    is refused.
    """

    _speaker: Speaker = ""
    _order: StepOrder = field(default_factory=lambda: StepOrder(text_after_calls=True))
    _thoughts: list[bytes] = field(default_factory=list)
    _searches: Searches | None = None

    def write(self, item: bytes) -> bytes:
        """Return the bytes that an encoded item adds."""
        return b"".join(map(self._write, self._order.add(decode_item(item))))

    def closing(self) -> bytes:
        """Return what would end the body now."""
        match self._speaker:
            case "":
                return b"]}"
            case "user":
                return b"]}]}"
            case "assistant":
                return b"]}," + json_bytes({"role": "user", "content": [_text(GO_ON)]}) + b"]}"

    def copy(self) -> MessageBlocks:
        """Return an independent writer that continues from here."""
        searches = None if self._searches is None else self._searches.copy()
        return MessageBlocks(self._speaker, self._order.copy(), list(self._thoughts), searches)

    def _write(self, item: Item) -> bytes:
        match item:
            case Message(role="assistant"):
                return self._add("assistant", map(json_bytes, _text_blocks(item.content)))
            case Message():
                return self._add("user", map(json_bytes, _blocks(item.content)))
            case Reasoning():
                self._thoughts += [] if (block := thinking_block(item)) is None else [block]
                return b""
            case FunctionCall() | CustomToolCall() | LocalShellCall() | ToolSearchCall():
                if self._searches is not None:
                    self._searches.is_search(item)
                return self._add("assistant", [json_bytes(_call(item))])
            case FunctionCallOutput() | CustomToolCallOutput() | ToolSearchOutput():
                if self._searches is not None and (found := self._searches.found_by(item)):
                    return self._add("user", [json_bytes(_references(item, found))])
                return self._add("user", map(json_bytes, _result(item)))
            case Unknown():
                # A block of an unknown kind goes back to its origin.
                return self._add("assistant", [bytes(item.payload)])
            case _:
                return b""

    def _add(self, speaker: Speaker, blocks: Iterable[bytes]) -> bytes:
        added = list(blocks)
        if not added:
            return b""
        thoughts, self._thoughts = self._thoughts, []
        written = b",".join([*thoughts, *added] if speaker == "assistant" else added)
        if speaker == self._speaker:
            return b"," + written
        end = b"]}," if self._speaker else b""
        self._speaker = speaker
        return end + b'{"role":"%s","content":[' % speaker.encode() + written


def _call(item: FunctionCall | CustomToolCall | LocalShellCall | ToolSearchCall) -> Block:
    match item:
        case FunctionCall():
            name, given = flat_name(item.name, item.namespace), _arguments(item.arguments)
        case CustomToolCall():
            name, given = flat_name(item.name, item.namespace), {INPUT: item.input}
        case LocalShellCall():
            name, given = "local_shell", Raw(encode_action(item.action))
        case ToolSearchCall():
            name, given = "tool_search", item.arguments
    return {"type": "tool_use", "id": _id(call_id_of(item)), "name": name, "input": given}


def _arguments(arguments: str) -> object:
    """Return arguments as the object they must be, in the bytes the model chose."""
    given = (arguments or "{}").encode()
    # How deep a decoder can go depends on who calls it; what is sent must not.
    if is_nested_deeper(given, _MOST_LEVELS):
        return {"arguments": arguments}
    try:
        _members.decode(given)
    except UNREADABLE:
        return {"arguments": arguments}
    return Raw(given)


def _result(item: FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput) -> list[Block]:
    call = answered_call_id(item)
    if isinstance(item, ToolSearchOutput):
        content: object = json_bytes(item.tools).decode()
    elif call is None:
        name = flat_name(item.name or "a tool", getattr(item, "namespace", None))
        return [_text(f"Output of {name}:"), *_parts(item.output)]
    else:
        content = _result_content(item.output)
    result: Block = {"type": "tool_result", "tool_use_id": _id(call)}
    return [result | ({"content": content} if content else {})]


def _references(item: Item, found: Sequence[FoundDefinition]) -> Block:
    """Return what a search found by names; their definitions are among the tools."""
    names = [{"type": "tool_reference", "tool_name": each.name} for each in found]
    return {"type": "tool_result", "tool_use_id": _id(answered_call_id(item)), "content": names}


def _result_content(output: Output) -> object:
    """Return plain text where there is nothing else, else blocks."""
    blocks = _parts(output)
    return blocks if any(block["type"] != "text" for block in blocks) else text_of(output)


def _parts(output: Output) -> list[Block]:
    if isinstance(output, str):
        return [_text(output)] if output.strip() else []
    return _blocks(output)


def _id(call_id: str | None) -> str:
    return _ODD_ID.sub("_", call_id or "")


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _text_blocks(parts: tuple[Part, ...]) -> list[Block]:
    """Return the texts in `parts`; the API refuses blank ones."""
    return [_text(text) for text in part_texts(parts) if text.strip()]


def _blocks(parts: tuple[Part, ...]) -> list[Block]:
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part, InputImage):
            blocks.append(_image(part.image_url))
        elif isinstance(part, InputAudio):
            blocks.append(_text("(sound that cannot be sent to this model)"))
        else:
            blocks += _text_blocks((part,))
    return blocks


def _image(url: str) -> Block:
    inline = data_url(url)
    if inline is None:
        source: Block = {"type": "url", "url": url}
    else:
        source = {"type": "base64", "media_type": inline.mime, "data": inline.data}
    return {"type": "image", "source": source}


def reasoning_item(block: Mapping[str, object]) -> Reasoning:
    """Return the item that keeps a thinking block."""
    text = block.get("thinking")
    rest = {name: value for name, value in block.items() if name != "thinking"}
    content = (ReasoningText(text),) if isinstance(text, str) and text else None
    return Reasoning(content=content, encrypted_content=json_bytes(rest).decode())


def thinking_block(item: Reasoning) -> bytes | None:
    """Return the block that `item` keeps; None if it keeps none that can be sent back."""
    if not item.encrypted_content:
        return None
    try:
        members = _members.decode(item.encrypted_content)
        kind = msgspec.json.decode(members.pop("type"), type=str)
    except (*UNREADABLE, KeyError):
        return None
    if kind not in THINKING or (kind == "thinking" and "signature" not in members):
        return None
    opening: dict[str, object] = {"type": kind}
    if kind == "thinking":
        opening["thinking"] = "".join(
            part.text for part in item.content or () if isinstance(part, ReasoningText)
        )
    return json_bytes(opening | members)
