"""Items that Codex could not write to its rollout, because the disk was full.

Owns making them from what the server tells. Invariant: a call for which a tool of ours runs
is in the log, and so is what Codex has told as done, whatever its file lacks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec
from msgspec import Raw

from ...core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    Output,
    OutputText,
    encode_item,
)
from .codex_actions import action_of
from .protocol.server_requests import ToolCallRequest, ToolImagePart, ToolTextPart
from .protocol.types import (
    AgentMessageItem,
    CommandItem,
    DynamicToolItem,
    FileChangeItem,
    TurnItem,
)

__all__ = ["unwritten_call", "unwritten_items"]

_parts = msgspec.json.Decoder(tuple[ToolTextPart | ToolImagePart, ...] | None)


def unwritten_call(request: ToolCallRequest) -> Raw:
    """Return the call that a request of the server is about."""
    arguments = bytes(request.arguments).decode()
    return _raw(_call(request.call_id, request.tool, arguments, request.namespace))


def unwritten_items(
    ended: Iterable[TurnItem], told: Container[str], open_calls: Container[str]
) -> Iterator[Raw]:
    """Return what was not `told` of the items that have `ended`, and results of `open_calls`."""
    for item in ended:
        is_new = item.id not in told
        match item:
            case AgentMessageItem() if is_new and item.delivery != "async":
                yield _message(item)
            case CommandItem() | FileChangeItem() if is_new:
                action = action_of(item)
                assert action is not None, "commands and patches are actions"
                yield _raw(_call(item.id, *action))
                yield _result(item)
            case CommandItem() | DynamicToolItem(status="completed") if item.id in open_calls:
                yield _result(item)


def _message(item: AgentMessageItem) -> Raw:
    content = (OutputText(text=item.text),)
    return _raw(Message(id=item.id, role="assistant", content=content, phase=item.phase))


def _call(call_id: str, name: str, arguments: str, namespace: str | None = None) -> FunctionCall:
    return FunctionCall(call_id=call_id, name=name, arguments=arguments, namespace=namespace)


def _result(item: CommandItem | FileChangeItem | DynamicToolItem) -> Raw:
    return _raw(FunctionCallOutput(call_id=item.id, output=_output(item)))


def _output(item: CommandItem | FileChangeItem | DynamicToolItem) -> Output:
    if not isinstance(item, DynamicToolItem):
        return getattr(item, "aggregated_output", None) or item.status
    return tuple(
        InputText(text=part.text)
        if isinstance(part, ToolTextPart)
        else InputImage(image_url=part.image_url)
        for part in _parts.decode(item.content_items) or ()
    )


def _raw(item: Item) -> Raw:
    return Raw(encode_item(item))
