"""What both bare loops share: their tools, and what they read of an answer."""

from __future__ import annotations

import msgspec
from common import run_command, tick

__all__ = ["TOOLS", "Event", "Item", "called", "read_event", "read_item"]

TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": {argument: {"type": kind}}},
    }
    for name, description, argument, kind in (
        ("tick", "Counts.", "number", "integer"),
        ("run_command", "Runs a command.", "command", "string"),
    )
]


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


def called(call: Item) -> dict[str, str]:
    """The item that answers a call."""
    arguments = msgspec.json.decode(call.arguments)
    done = tick(**arguments) if call.name == "tick" else run_command(**arguments)
    return {"type": "function_call_output", "call_id": call.call_id, "output": str(done)}
