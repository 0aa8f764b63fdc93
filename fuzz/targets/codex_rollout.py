"""Rollouts: what can be read of a file is, and nothing else is lost for it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fuzz.cutting import head_and_rest
from treadle.core.items import decode_item
from treadle.harness.codex.rollout_reader import newest_compaction, read_turn
from treadle.models.item_checks import is_readable

__all__ = ["WORDS", "check"]

WORDS = (
    *(
        b'{"type":"response_item","payload":',
        b'{"type":"event_msg","payload":{"type":"',
        b"\n",
        b"}",
    ),
    *(
        b'{"type":"compacted","payload":{"replacement_history":[',
        b'"task_complete"',
        b'"turn_aborted"',
    ),
    *(b'"token_count"', b'{"type":"message","role":"assistant","content":[]}', b"\xff", b"1e999"),
)
_PLACE = Path(tempfile.gettempdir()) / "treadle-fuzz-rollout"


def check(data: bytes) -> None:
    """Whatever the file holds and wherever one begins, every item that comes back is sound."""
    (offset,), lines = head_and_rest(data)
    _PLACE.write_bytes(lines)
    left = read_turn(str(_PLACE), offset)
    history = newest_compaction(str(_PLACE), offset) or ()
    for raw in (*left.items, *left.without_summary().items, *history):
        assert is_readable(raw)
        decode_item(raw)
