from __future__ import annotations

import pytest

from .conversations import CONVERSATIONS
from .playing import difference, play
from .storing import HEADS, PLACE, read


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_conversation_is_sent_and_logged_as_it_was_recorded(name: str):
    found = difference(read(name), await play(CONVERSATIONS[name]))
    if found is not None:
        pytest.fail(f"the conversation {name!r} differs {found}", pytrace=False)


def test_every_recording_has_its_conversation():
    names = {path.stem for path in PLACE.glob("*.json") if path.name != HEADS}
    assert names == set(CONVERSATIONS)


def test_the_recordings_stay_small_enough_to_read():
    assert sum(path.stat().st_size for path in PLACE.glob("*.json")) < 2_000_000
