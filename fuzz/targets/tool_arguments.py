"""Arguments of calls: what a model writes is read, or refused in words for the model."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct

from fuzz.cutting import head_and_rest
from treadle.context.mending import repair_row
from treadle.context.row import Row
from treadle.core.entries import Draft
from treadle.core.errors import HookFailed
from treadle.core.items import FunctionCall, encode_item
from treadle.core.wire import json_bytes
from treadle.hooks.common_form import call_from_common, call_to_common
from treadle.models.formats.function_calls import freeform_input
from treadle.models.item_reader import FreeformDeltas
from treadle.tools.arguments import InvalidArguments, parse_arguments

__all__ = ["WORDS", "check"]

WORDS = (
    *(b'{"input":"', b'{"cmd":"', b'"command":["bash","-lc","', b'"count":', b'"path":null', b"}"),
    *(b"5.0", b"1e300", b"-1", b"9" * 30, b"1e999", b"[", b"]", b'"', b",", b"\\u0000", b"\\n"),
    *(b"\\ud83d\\ude00", b"\\ud83d", b"\\", b"true", b"'", b" ", b"\xc3\xa4"),
)


class _Taken(Struct):
    """What a tool takes."""

    cmd: str = ""
    count: int = 1
    share: float = 0.5
    command: tuple[str, ...] = ()
    path: str | None = None


def check(data: bytes) -> None:
    """A tool reads them or refuses them; a hook, a repair and a watcher read what they can."""
    (step,), rest = head_and_rest(data)
    text = rest.decode(errors="replace")
    with suppress(InvalidArguments):
        parse_arguments("look", text, _Taken)
    _check_deltas(text, step % 7 + 1)
    for tool in ("exec_command", "shell", "apply_patch", "look"):
        _, told = call_to_common(tool, text)
        json_bytes(told)
        with suppress(HookFailed):
            json_bytes(call_from_common(tool, text, told))
    call = FunctionCall(name="look", arguments=text, call_id=text[:20])
    row = Row.of_draft(Draft(kind="item", body=encode_item(call)))
    again = repair_row(row, ("object_arguments", "plain_call_ids"))
    assert again is not None
    assert repair_row(again, ("object_arguments", "plain_call_ids")) == again


def _check_deltas(text: str, step: int) -> None:
    deltas = FreeformDeltas()
    shown = "".join(deltas.feed(text[at : at + step]) for at in range(0, len(text), step))
    said = freeform_input(text)
    if said != text and text.startswith('{"input":"'):
        assert said.startswith(shown)
