"""Checks of the items in a provider's answer, before they may enter the log.

An item of an answer is kept for good, read by everything that comes later, and sent to
other providers. Invariant: an item that passes here is an object of a type that a model may
produce, can be read by all of them, is not more than a request may ask for, and does not
claim to come from the user, the runtime or a tool; a call that passes has an id of its own.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw

from ..core.items import (
    Compaction,
    ContextCompaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    ImageGenerationCall,
    Item,
    LocalShellCall,
    Message,
    Reasoning,
    ToolSearchCall,
    ToolSearchOutput,
    Unknown,
    WebSearchCall,
    decode_item,
)
from ..core.typed import decode_json
from ..core.wire import UNREADABLE, is_nested_deeper
from .contract import StreamCut

__all__ = [
    "MOST_ITEMS",
    "MOST_LEVELS",
    "RUN_BY_MESSAGES",
    "RUN_BY_RESPONSES",
    "ItemChecker",
    "forged_item",
    "is_model_item",
    "is_readable",
    "is_tool_output",
]

MOST_ITEMS = 1024
"""Items of one answer; each call among them is run."""

MOST_LEVELS = 128
"""How deep an item may nest; deeper ones break readers that go down by recursion."""

RUN_BY_RESPONSES = frozenset(
    {"code_interpreter_call", "file_search_call", "mcp_call", "mcp_list_tools"}
)
"""Items about tools that a Responses provider ran itself; only their origin reads them."""

RUN_BY_MESSAGES = frozenset(
    {
        *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result"),
        *("code_execution_tool_result", "bash_code_execution_tool_result"),
        *("text_editor_code_execution_tool_result", "tool_search_tool_result"),
        *("mcp_tool_use", "mcp_tool_result"),
    }
)
"""Blocks about tools that a Messages provider ran itself; only their origin reads them."""

_CALLS = (FunctionCall, CustomToolCall, LocalShellCall)
_OUTPUTS = (FunctionCallOutput, CustomToolCallOutput, ToolSearchOutput)
_SEALED = (Reasoning, WebSearchCall, ImageGenerationCall, Compaction, ContextCompaction)
_CALL_TYPES, _SEALED_TYPES = (
    frozenset(str(struct.__struct_config__.tag) for struct in family)
    for family in (_CALLS, _SEALED)
)
_LONGEST_NAME = 40


def is_readable(body: bytes | Raw) -> bool:
    """Return whether every reader can decode an item, now and later."""
    data = bytes(body)
    if is_nested_deeper(data, MOST_LEVELS):
        return False
    try:
        msgspec.json.decode(data)
    except UNREADABLE:
        return False
    return True


def is_model_item(item: Item, run_by_provider: frozenset[str] = RUN_BY_RESPONSES) -> bool:
    """Return whether a model may have produced `item`.

    `run_by_provider` has the types of items about tools that the provider ran itself.
    """
    match item:
        case Message():
            return item.role == "assistant"
        case ToolSearchCall():
            return item.execution == "server"  # nobody here would run another one
        case Unknown():
            # A newer server may give what it seals another shape.
            known = item.type in run_by_provider or item.type in _SEALED_TYPES
            return known and not _repeats_names(bytes(item.payload))
    return isinstance(item, (*_CALLS, *_SEALED))


def is_tool_output(item: Item) -> bool:
    """Return whether `item` is the output of a call, which only who runs calls may send."""
    return isinstance(item, _OUTPUTS)


class ItemChecker:
    """Checks the items of one answer, in order."""

    def __init__(self, run_by_provider: frozenset[str] = RUN_BY_RESPONSES) -> None:
        self.failure: StreamCut | None = None
        """Why the answer cannot go on."""
        self._run_by_provider = run_by_provider
        self._count = 0
        self._calls: dict[str, Item] = {}

    def admits(self, body: bytes | Raw) -> bool:
        """Return whether an item is part of the answer.

        It is not where a call is repeated, which then runs once, and where the answer cannot
        go on, which `failure` explains.
        """
        self._count += 1
        if self._count > MOST_ITEMS:
            self.failure = StreamCut(
                f"the answer holds more than {MOST_ITEMS} items; try again, or ask for less",
                code="too_many_items",
            )
        elif not is_readable(body):
            self.failure = _refusal("an item of the answer cannot be read", "unreadable")
        else:
            item = decode_item(body)
            if is_model_item(item, self._run_by_provider):
                return self._admits_call(item) if isinstance(item, _CALLS) else True
            self.failure = _explain(body)
        return False

    def _admits_call(self, call: FunctionCall | CustomToolCall | LocalShellCall) -> bool:
        # Old shell calls are answered by their item id.
        name = call.call_id or (call.id if isinstance(call, LocalShellCall) else "")
        if not name:
            self.failure = _refusal("the provider sent a call without an id", "call_without_id")
            return False
        first = self._calls.setdefault(name, call)
        if first is call:
            return True
        if _without_id(first) != _without_id(call):
            self.failure = _refusal(
                f"the provider sent two calls with the id {name[:_LONGEST_NAME]!r}",
                "repeated_call_id",
            )
        return False


def _without_id(call: Item) -> Item:
    return msgspec.structs.replace(call, id=None, status=None, extra=None)


def _refusal(what: str, code: str) -> StreamCut:
    return StreamCut(f"{what}; try again, or use another provider", retryable=True, code=code)


class _Claim(msgspec.Struct):
    type: Any = None
    role: Any = None
    call_id: Any = None


def _explain(body: bytes | Raw) -> StreamCut:
    """Return why an item is none of a model."""
    try:
        claim = decode_json(body, _Claim)
    except msgspec.ValidationError:
        return _refusal("the provider answered with an item that is no object", "forged_item")
    kind = claim.type if isinstance(claim.type, str) else ""
    if kind in _CALL_TYPES and not isinstance(claim.call_id, str):
        return _refusal("the provider sent a call without an id", "call_without_id")
    if kind in _CALL_TYPES or (kind == "message" and claim.role == "assistant"):
        return _refusal(f"an item of the type {kind!r} cannot be read", "unreadable")
    return forged_item(kind, claim.role)


def forged_item(kind: str, role: object = None) -> StreamCut:
    """Return the error for an item of a type, or of a role, that no model may say."""
    if kind == "message":
        what = f"a message of the role {_shown(role)}"
    elif kind:
        what = f"an item of the type {_shown(kind)}"
    else:
        what = "an item without a type"
    return _refusal(f"the provider answered with {what}, which no model may say", "forged_item")


def _shown(value: object) -> str:
    return repr(value[:_LONGEST_NAME]) if isinstance(value, str) else "that is no text"


def _repeats_names(data: bytes) -> bool:
    """Return whether an object names a member twice: readers differ on which one counts."""
    found = False

    def note(pairs: list[tuple[str, object]]) -> None:
        nonlocal found
        found |= len(pairs) != len(dict(pairs))

    with suppress(ValueError):
        json.loads(data, object_pairs_hook=note)
    return found
