from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from .comparing import difference
from .conversations import CONVERSATIONS
from .playing import play
from .storing import HEADS, PLACE, packed, read, unpacked


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_conversation_is_sent_and_logged_as_it_was_recorded(name: str):
    recorded = read(name)
    found = difference(recorded, await play(CONVERSATIONS[name]))
    if found is not None:
        pytest.fail(f"{name} is not what it was: {found.told(recorded)}", pytrace=False)


def test_every_recording_has_its_conversation():
    names = {path.stem for path in PLACE.glob("*.json") if path.name != HEADS}
    assert names == set(CONVERSATIONS)


def test_the_recordings_stay_small_enough_to_read():
    assert sum(path.stat().st_size for path in PLACE.glob("*.json")) < 2_000_000


def test_a_recording_is_read_as_it_was_written():
    heads: dict[str, Any] = {}
    whole = read("compaction-by-hand")
    short = json.loads(json.dumps(packed(copy.deepcopy(whole), heads)))
    assert unpacked(short, heads) == whole
    assert len(json.dumps(short)) < len(json.dumps(whole)) / 2


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (("requests", 1, "body", "input", 2), "request 2 (scripted:script /v1/responses)"),
        (("threads", 0, "entries", 4, "body"), "thread thr#1 (entries: seq 5 kind request"),
        (("threads", 0, "ledger", 1, "shared_size"), "thread thr#1 (ledger: number 2"),
        (("heard", 0, "text"), "heard/0/text"),
    ],
)
def test_a_difference_is_told_by_the_place_that_it_is_in(path: tuple[Any, ...], told: str):
    before = read("plain-text")
    now = copy.deepcopy(before)
    place: Any = now
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = "other"
    found = difference(before, now)
    assert found is not None
    assert found.path[: len(path)] == path
    assert told in found.told(before)


def test_the_order_of_fields_makes_a_difference():
    before, now = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    found = difference(before, now)
    assert found is not None
    assert found.what == "in another order"
