"""What both bare loops share: the tool, and what they read of an answer."""

from __future__ import annotations

import msgspec

TOOL = {
    "type": "function",
    "name": "tick",
    "description": "Counts.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
}


class Event(msgspec.Struct):
    """What the loop needs of an event."""

    type: str
    delta: str = ""
    item: msgspec.Raw = msgspec.Raw()


class Item(msgspec.Struct):
    """What the loop needs of an item."""

    type: str
    call_id: str = ""
    name: str = ""
    arguments: str = ""


read_event = msgspec.json.Decoder(Event).decode
read_item = msgspec.json.Decoder(Item).decode


def tick(call: Item) -> str:
    """The trivial tool."""
    return str(msgspec.json.decode(call.arguments)["number"] + 1)
