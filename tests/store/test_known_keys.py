"""No store keeps a known key, and what it returns is what it kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Raw

from treadle.core.entries import Draft, FragmentMark
from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.core.redact import BLANK, add_secrets
from treadle.store.contract import (
    THIS_TURN,
    Admission,
    Change,
    InboxDraft,
    OutboxDraft,
    Store,
    TurnEnd,
)
from treadle.store.memory import MemoryStore
from treadle.store.sqlite import SqliteStore

KEY = "sk-PLANTED-0123456789abcdefghij"
SAID = Raw(f'{{"text":"it is {KEY}"}}'.encode())


@pytest.fixture(params=["disk", "memory"])
async def store(request, tmp_path):
    opened: Store = await SqliteStore.open(tmp_path) if request.param == "disk" else MemoryStore()
    yield opened
    await opened.close()


def files_with_key(place: Path) -> list[Path]:
    files = [each for each in place.rglob("*") if each.is_file()]
    return [each for each in files if KEY.encode() in each.read_bytes()]


async def test_every_column_is_blanked(store, tmp_path):
    add_secrets(KEY)
    thread = (await store.create(title=f"about {KEY}")).id
    lease = await store.acquire(thread)
    draft = Draft(
        kind="item",
        body=bytes(SAID),
        turn=THIS_TURN,
        fragments=(FragmentMark(id="agents", snapshot=SAID),),
        provenance=InputProvenance(kind="inter_session", source_channel=KEY),
        events=(InternalEvent(source="subagent", child_thread="thr_1", task=KEY, status="ok"),),
        source_id=KEY,
    )
    done = await store.commit(
        lease,
        Change(
            admit=Admission(id="turn_1", input=SAID),
            entries=(draft,),
            end=TurnEnd(number=THIS_TURN, state="failed", outcome=SAID),
            outbox=(OutboxDraft(topic="reply", key="1", body=SAID),),
            title=f"now {KEY}",
        ),
    )
    (row,) = await store.outbox(thread=thread)
    await store.retry(row.number, f"refused {KEY}")
    await store.post(thread, InboxDraft(key="1", kind="input", body=SAID))
    fork = await store.fork(thread, 1, title=f"fork of {KEY}")
    kept = (
        *(await store.threads(), await store.read(thread), await store.turns(thread)),
        *(await store.inbox(thread), await store.outbox(thread=thread), fork),
    )
    assert KEY not in f"{done}{kept}"
    assert f"it is {BLANK}" in (await store.read(thread))[0].body.decode()
    assert list(done.entries) == await store.read(thread)
    assert files_with_key(tmp_path) == []


async def test_a_turn_from_before_a_key_was_known_is_found_again(store):
    thread = (await store.create()).id
    lease = await store.acquire(thread)
    first = await store.commit(lease, Change(admit=Admission(id="turn_1", input=SAID)))
    add_secrets(KEY)
    again = await store.commit(lease, Change(admit=Admission(id="turn_1", input=SAID)))
    assert (first.repeated, again.repeated) == (False, True)
