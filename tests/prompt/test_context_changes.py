from __future__ import annotations

from inline_snapshot import snapshot
from msgspec import Raw, structs

from treadle.core.entries import FragmentMark
from treadle.core.items import text_of
from treadle.prompt import (
    AgentsDocs,
    ContextMessage,
    ContextUpdate,
    Known,
    PromptContext,
    Unrecorded,
    context_update,
    default_registry,
    take_snapshots,
)

REGISTRY = default_registry()
CTX = PromptContext(
    cwd="/repo",
    sandbox_mode="workspace-write",
    writable_roots=("/cache",),
    developer_instructions="Answer briefly.",
    agents_docs=AgentsDocs("/repo", "Run the tests."),
)


def layout(messages: tuple[ContextMessage, ...]) -> list[tuple[str, list[str]]]:
    return [(m.message.role, [mark.id for mark in m.marks]) for m in messages]


def baselines(telling: ContextUpdate) -> dict[str, Known[Raw]]:
    told = [mark for message in telling.messages for mark in message.marks]
    return {m.id: Known(m.snapshot) for m in (*told, *telling.silent) if m.snapshot is not None}


def texts(telling: ContextUpdate) -> list[str]:
    return [text_of(m.message.content) for m in telling.messages]


def test_the_initial_context_is_three_messages_in_order():
    telling = context_update(REGISTRY, {}, take_snapshots(REGISTRY, CTX))
    assert layout(telling.messages) == [
        ("developer", ["developer_instructions", "permissions"]),
        ("user", ["agents_md"]),
        ("user", ["environment"]),
    ]
    assert [len(m.message.content) for m in telling.messages] == [2, 1, 1]


def test_nothing_is_said_where_nothing_changed():
    snapshots = take_snapshots(REGISTRY, CTX)
    first = context_update(REGISTRY, {}, snapshots)
    assert context_update(REGISTRY, baselines(first), snapshots) == ContextUpdate()


def test_a_whole_snapshot_is_as_good_a_baseline_as_a_remembered_one():
    snapshots = take_snapshots(REGISTRY, CTX)
    whole = {key: Known(value) for key, value in snapshots.items() if value is not None}
    assert context_update(REGISTRY, whole, snapshots) == ContextUpdate()


def test_a_new_directory_is_told_as_a_difference():
    first = context_update(REGISTRY, {}, take_snapshots(REGISTRY, CTX))
    moved = structs.replace(CTX, cwd="/elsewhere")
    telling = context_update(REGISTRY, baselines(first), take_snapshots(REGISTRY, moved))
    assert layout(telling.messages) == [("user", ["environment"])]
    assert texts(telling) == snapshot(
        [
            """\
<environment_context>
  <cwd>/elsewhere</cwd>
  <shell>bash</shell>
</environment_context>"""
        ]
    )


def test_what_was_told_can_be_told_again_from_its_mark_alone():
    told = context_update(REGISTRY, {}, take_snapshots(REGISTRY, CTX))
    marks = [mark for message in told.messages for mark in message.marks]
    again = context_update(REGISTRY, {}, {mark.id: mark.snapshot for mark in marks})
    assert texts(again) == texts(told)


def test_of_a_text_that_was_not_told_only_a_fingerprint_is_kept():
    new = structs.replace(CTX, model="m", model_instructions="rule " * 4000)
    telling = context_update(REGISTRY, {}, take_snapshots(REGISTRY, new))
    [mark] = telling.silent
    assert (mark.id, len(bytes(mark.snapshot)) < 100) == ("model", True)


def test_a_removed_state_is_marked_with_null_and_told_once():
    first = context_update(REGISTRY, {}, take_snapshots(REGISTRY, CTX))
    gone = take_snapshots(REGISTRY, structs.replace(CTX, agents_docs=None))
    second = context_update(REGISTRY, baselines(first), gone)
    [message] = second.messages
    assert message.marks == (FragmentMark(id="agents_md", snapshot=Raw(b"null"), part=0),)
    known = {**baselines(first), **baselines(second)}
    assert context_update(REGISTRY, known, gone) == ContextUpdate()


def test_an_unknown_baseline_is_told_whole_again():
    snapshots = take_snapshots(REGISTRY, CTX)
    known = baselines(context_update(REGISTRY, {}, snapshots))
    telling = context_update(REGISTRY, {**known, "environment": Unrecorded()}, snapshots)
    assert layout(telling.messages) == [("user", ["environment"])]
    assert "<cwd>/repo</cwd>" in texts(telling)[0]


def test_a_snapshot_of_another_version_counts_as_unknown():
    snapshots = take_snapshots(REGISTRY, CTX)
    known = {
        **baselines(context_update(REGISTRY, {}, snapshots)),
        "environment": Known(Raw(b'{"v":1}')),
    }
    telling = context_update(REGISTRY, known, snapshots)
    assert layout(telling.messages) == [("user", ["environment"])]


def test_a_state_that_is_not_observed_is_left_alone():
    snapshots = take_snapshots(REGISTRY, CTX)
    del snapshots["environment"], snapshots["permissions"]
    telling = context_update(REGISTRY, {}, snapshots)
    assert layout(telling.messages) == [
        ("developer", ["developer_instructions"]),
        ("user", ["agents_md"]),
    ]


def test_a_fragment_beyond_its_cap_is_cut_visibly_and_reported():
    huge = structs.replace(CTX, developer_instructions="word " * 20_000)
    telling = context_update(REGISTRY, {}, take_snapshots(REGISTRY, huge))
    assert telling.cut == ("developer_instructions",)
    assert "tokens truncated…" in texts(telling)[0]
