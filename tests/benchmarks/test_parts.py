from __future__ import annotations

import cProfile
import json

import pytest
from benchmarks.parts import REST, Function, Profiled, by_part, part_of

from treadle.core.items import InputText, Message, encode_item

STORE: Function = ("/x/src/treadle/store/workers.py", 1, "write")
LEDGER: Function = ("/x/src/treadle/context/ledger.py", 1, "compare")
LIBRARY: Function = ("/lib/json/encoder.py", 1, "encode")
BUILTIN: Function = ("~", 0, "<built-in>")
LOOP: Function = ("/lib/asyncio/base_events.py", 1, "_run_once")


def test_files_belong_to_parts():
    assert part_of(STORE[0]) == "store"
    assert part_of(LEDGER[0]) == "ledger"
    assert part_of("/x/src/treadle/harness/loop.py") == "loop"
    assert part_of(LIBRARY[0]) is None


def test_what_is_not_ours_counts_for_whoever_called_it():
    profiled: Profiled = {
        STORE: (1, 1, 1.0, 4.0, {LOOP: (1, 1, 1.0, 4.0)}),
        LEDGER: (1, 1, 2.0, 3.0, {LOOP: (1, 1, 2.0, 3.0)}),
        LIBRARY: (2, 2, 2.0, 4.0, {STORE: (1, 1, 1.5, 3.0), LEDGER: (1, 1, 0.5, 1.0)}),
        BUILTIN: (1, 1, 2.0, 2.0, {LIBRARY: (1, 1, 2.0, 2.0)}),
        LOOP: (1, 1, 0.5, 9.0, {}),
    }
    assert by_part(profiled) == {"store": 4.0, "ledger": 3.0, REST: 0.5}


def test_parts_add_up_to_the_whole_of_a_real_profile():
    profile = cProfile.Profile()
    profile.enable()
    for number in range(50):
        json.loads(encode_item(Message(role="user", content=(InputText(f"{number}"),))))
    profile.disable()
    profile.create_stats()
    stats = profile.stats
    assert sum(by_part(stats).values()) == pytest.approx(sum(each[2] for each in stats.values()))
