from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.provenance import (
    AGENT_MEDIATED,
    Attachment,
    InputProvenance,
    InternalEvent,
    ProvenanceKind,
    is_completion_report,
    is_coordination,
    is_inter_session,
    normalize_event,
    normalize_events,
    normalize_provenance,
    plain_text,
    suppresses_persistence,
)

KINDS: list[ProvenanceKind] = ["external_user", "inter_session", "internal_system"]

PROVENANCE = InputProvenance(
    kind="inter_session",
    origin_thread="thr_root",
    source_thread="thr_child",
    source_channel="telegram",
    source_tool="subagent_announce",
    source_role="subagent",
    job_id="job_1",
    run_id="run_1",
)
EVENT = InternalEvent(
    source="subagent",
    child_thread="thr_child",
    task="run the tests",
    status="ok",
    status_label="finished in 3 steps",
    announce_type="subagent task",
    result="412 passed\n\nnothing failed",
    no_visible_result=True,
    attachments=(Attachment(type="file", name="report.txt", path="out/report.txt"),),
    stats="3 steps, 4,100 tokens",
    reply_instruction="Tell the user.",
)
PEER_PROVENANCE = {
    "kind": "inter_session",
    "originSessionId": " thr_root ",
    "sourceSessionKey": "thr_child\n",
    "sourceChannel": "telegram",
    "sourceTool": "subagent_announce",
    "sourceRole": "subagent",
    "sourcePromptPrefix": "[Inter-session message]",
    "jobId": "job_1",
    "runId": "run_1",
}
PEER_EVENT = {
    "type": "task_completion",
    "source": "subagent",
    "childSessionKey": "thr_child",
    "childSessionId": "0f",
    "announceType": "subagent task",
    "taskLabel": "run the tests",
    "status": "ok",
    "statusLabel": "finished in 3 steps",
    "result": "412 passed\n\nnothing failed",
    "noVisibleResult": True,
    "attachments": [{"type": "file", "name": "report.txt", "filePath": "out/report.txt"}],
    "statsLine": "3 steps, 4,100 tokens",
    "replyInstruction": "Tell the user.",
}

any_text = st.text(st.characters(codec=None), max_size=40)
any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KIND_FIELDS = [*InputProvenance.__struct_fields__, *PEER_PROVENANCE]
EVENT_FIELDS = [*InternalEvent.__struct_fields__, *PEER_EVENT, "mediaUrls"]


@pytest.mark.parametrize("value", [PROVENANCE, PEER_PROVENANCE], ids=["ours", "a peer's"])
def test_a_whole_provenance_is_read_under_both_names(value: object):
    assert normalize_provenance(value) == PROVENANCE


@pytest.mark.parametrize("kind", ["third-party_user", "third_party_user"])
def test_a_third_party_is_an_external_user(kind: str):
    assert normalize_provenance({"kind": kind}) == InputProvenance(kind="external_user")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_kept(kind: ProvenanceKind):
    assert normalize_provenance({"kind": kind}) == InputProvenance(kind=kind)


@pytest.mark.parametrize(
    "value",
    [None, "inter_session", 7, ["inter_session"], {}, {"kind": "robot"}, {"kind": ["x"]}],
    ids=repr,
)
def test_what_is_no_object_or_of_an_unknown_kind_is_no_signal(value: object):
    assert normalize_provenance(value) is None


def test_texts_are_trimmed_and_blank_ones_dropped():
    given = {
        "kind": "inter_session",
        "source_tool": "  a\n\tb ",
        "source_channel": " \n",
        "job_id": 3,
    }
    assert normalize_provenance(given) == InputProvenance(kind="inter_session", source_tool="a b")


def test_only_a_subagent_has_a_role():
    given = {"kind": "inter_session", "sourceRole": "boss"}
    assert normalize_provenance(given) == InputProvenance(kind="inter_session")


def test_our_own_name_wins_over_a_peers():
    given = {"kind": "inter_session", "sourceTool": "theirs", "source_tool": "ours"}
    assert normalize_provenance(given) == InputProvenance(kind="inter_session", source_tool="ours")


@pytest.mark.parametrize("value", [EVENT, PEER_EVENT], ids=["ours", "a peer's"])
def test_a_whole_event_is_read_under_both_names(value: object):
    assert normalize_event(value) == EVENT


@pytest.mark.parametrize("value", [None, "x", 7, [], {}, {"type": "rumour"}], ids=repr)
def test_what_is_no_event_is_none(value: object):
    assert normalize_event(value) is None


def test_missing_texts_have_fallbacks():
    assert normalize_event({"type": "task_completion", "task": " "}) == InternalEvent(
        source="unknown", child_thread="unknown", task="unnamed task", status="unknown"
    )


@pytest.mark.parametrize(
    "source",
    ["subagent", "cron", "image_generation", "video_generation", "music_generation", "our farm"],
)
def test_sources_are_kept_also_unknown_ones(source: str):
    event = normalize_event({"type": "task_completion", "source": source})
    assert event is not None
    assert event.source == source


@pytest.mark.parametrize("status", ["ok", "timeout", "error", "unknown"])
def test_statuses_are_kept(status: str):
    event = normalize_event({"type": "task_completion", "status": status})
    assert event is not None
    assert event.status == status


def test_a_status_label_has_one_line_of_500_characters():
    event = normalize_event({"type": "task_completion", "statusLabel": "bad\nluck " * 100})
    assert event is not None
    assert len(event.status_label) == 500
    assert event.status_label.startswith("bad luck bad")
    assert event.status_label.endswith("…[truncated]")


def test_a_long_result_keeps_its_ends():
    given = {"type": "task_completion", "result": "first " + "x" * 100_000 + " last"}
    event = normalize_event(given)
    assert event is not None
    assert len(event.result) <= 24_000
    assert event.result.startswith("first x")
    assert event.result.endswith("x last")
    assert "…[truncated]" in event.result


def test_bare_media_become_attachments_and_half_an_address_none():
    given = {
        "type": "task_completion",
        "attachments": [{"mediaUrl": "https://a/b.png"}, "no object", {}, {"path": "p" * 2_000}],
        "mediaUrls": ["https://a/c.mp4", "", 7],
    }
    event = normalize_event(given)
    assert event is not None
    assert event.attachments == (
        Attachment(url="https://a/b.png"),
        Attachment(url="https://a/c.mp4"),
    )


def test_events_keep_their_order_and_lose_what_says_nothing():
    other = InternalEvent(source="cron", child_thread="thr_2", task="nightly", status="error")
    assert normalize_events([EVENT, None, {"type": "rumour"}, other]) == (EVENT, other)
    assert normalize_events(EVENT for _ in range(2)) == (EVENT, EVENT)


@pytest.mark.parametrize("values", [None, 7, "task_completion", {"type": "task_completion"}])
def test_what_is_no_sequence_has_no_events(values: object):
    assert normalize_events(values) == ()


@given(st.dictionaries(st.sampled_from(KIND_FIELDS), any_value))
def test_what_is_normal_stays_as_it_is(fields: dict[str, object]):
    once = normalize_provenance({**fields, "kind": "inter_session"})
    assert once is not None
    assert normalize_provenance(once) == once


@given(st.dictionaries(st.sampled_from(EVENT_FIELDS), any_value), any_text)
def test_an_event_that_is_normal_stays_as_it_is(fields: dict[str, object], text: str):
    given = {**fields, "type": "task_completion", "result": text * 2_000, "statusLabel": text * 40}
    once = normalize_event(given)
    assert once is not None
    assert normalize_event(once) == once


@given(any_text)
def test_nothing_hides_in_plain_text(text: str):
    plain = plain_text(text)
    assert plain_text(plain) == plain
    hidden = [c for c in plain if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t"]
    assert set(hidden) <= set("\u200c\u200d")


def test_plain_text_keeps_lines_and_scripts():
    assert plain_text("a\r\nb\tc\x1b[31m") == "a\nb\tc[31m"
    assert plain_text("می‌خواهم 👩‍👧") == "می‌خواهم 👩‍👧"
    assert plain_text("<\u200bta\u200dg\u202e>\ud800") == "<tag>"


def test_a_live_announcement_of_a_subagent_is_suppressed():
    assert suppresses_persistence(PROVENANCE, (EVENT,))


@pytest.mark.parametrize(
    ("provenance", "events"),
    [
        (None, (EVENT,)),
        (PROVENANCE, ()),
        (InputProvenance(kind="internal_system", source_tool="subagent_announce"), (EVENT,)),
        (InputProvenance(kind="inter_session", source_tool="subagent_settle"), (EVENT,)),
        (InputProvenance(kind="inter_session"), (EVENT,)),
        (PROVENANCE, (InternalEvent(source="cron", child_thread="c", task="t", status="ok"),)),
    ],
    ids=["no signal", "no event", "not inter-session", "settled", "no tool", "not a subagent's"],
)
def test_nothing_else_is_suppressed(
    provenance: InputProvenance | None, events: tuple[InternalEvent, ...]
):
    assert not suppresses_persistence(provenance, events)


@pytest.mark.parametrize("tool", ["subagent_announce", "subagent_settle", *sorted(AGENT_MEDIATED)])
def test_completion_reports_are_known_by_their_tool(tool: str):
    report = InputProvenance(kind="inter_session", source_tool=tool, source_role="subagent")
    assert (is_completion_report(report), is_coordination(report)) == (True, False)
    inside = InputProvenance(kind="internal_system", source_tool=tool)
    assert (is_completion_report(inside), is_coordination(inside)) == (False, False)


def test_what_a_subagent_sends_besides_is_coordination():
    sent = InputProvenance(kind="inter_session", source_tool="send", source_role="subagent")
    assert (is_completion_report(sent), is_coordination(sent)) == (False, True)
    peer = InputProvenance(kind="inter_session", source_tool="send")
    assert (is_completion_report(peer), is_coordination(peer)) == (False, False)


def test_another_thread_is_known_by_the_kind():
    assert [is_inter_session(InputProvenance(kind=kind)) for kind in KINDS] == [False, True, False]
    assert not is_inter_session(None)
