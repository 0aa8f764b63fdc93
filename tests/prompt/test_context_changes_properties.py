from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from treadle.core.items import InputText
from treadle.prompt import (
    AgentsDocs,
    Baseline,
    CollaborationMode,
    ContextUpdate,
    ContextValue,
    Known,
    PlanStep,
    PromptContext,
    Subagent,
    Task,
    Unrecorded,
    context_update,
    default_registry,
    take_snapshots,
)

REGISTRY = default_registry()

words = st.sampled_from(["", "one", "two", "<skill>", "# AGENTS.md instructions"])
contexts = st.builds(
    PromptContext,
    cwd=st.sampled_from(["/a", "/b"]),
    shell=st.sampled_from(["bash", "zsh"]),
    approval_policy=st.sampled_from(["never", "on-request"]),
    sandbox_mode=st.sampled_from(["read-only", "workspace-write", "external-sandbox"]),
    network_access=st.booleans(),
    writable_roots=st.sampled_from([(), ("/x",)]),
    approved_prefixes=st.sampled_from([(), (("ls",),), (("ls",), ("git", "pull"))]),
    developer_instructions=st.none() | words,
    agents_docs=st.none() | st.builds(AgentsDocs, st.sampled_from(["/a", "/b"]), words),
    guidance=st.none() | words,
    personality=st.none() | words,
    collaboration_mode=st.none()
    | st.builds(CollaborationMode, st.sampled_from(["plan", "default", "pair"]), words),
    model=st.sampled_from(["", "gpt-5.2", "gpt-5.5"]),
    model_instructions=words,
    subagents=st.sampled_from([(), (Subagent("a", "Ada"),)]),
    additional_context=st.dictionaries(
        st.sampled_from(["page", "branch"]),
        st.builds(ContextValue, words, st.sampled_from(["application", "untrusted"])),
    ),
    window_used=st.sampled_from([0, 25, 90]),
    task=st.none() | st.builds(Task, words, st.sampled_from([(), (PlanStep("x"),)])),
)


def folded(known: dict[str, Baseline], telling: ContextUpdate) -> dict[str, Baseline]:
    told = [mark for message in telling.messages for mark in message.marks]
    return {**known, **{m.id: Known(m.snapshot or Raw(b"null")) for m in (*told, *telling.silent)}}


@settings(deadline=None)
@given(st.lists(contexts, min_size=1, max_size=5), st.booleans())
def test_what_was_just_told_is_known(sequence: list[PromptContext], rebase: bool):
    known: dict[str, Baseline] = {}
    for ctx in sequence:
        snapshots = take_snapshots(REGISTRY, ctx)
        known = folded(known, context_update(REGISTRY, known, snapshots, rebase=rebase))
        assert context_update(REGISTRY, known, snapshots, rebase=rebase) == ContextUpdate()


@settings(deadline=None)
@given(contexts, contexts, contexts)
def test_the_way_to_a_state_does_not_matter_for_what_is_said_next(
    a: PromptContext, b: PromptContext, c: PromptContext
):
    first, second = take_snapshots(REGISTRY, a), take_snapshots(REGISTRY, b)
    straight = folded({}, context_update(REGISTRY, {}, second))
    start = folded({}, context_update(REGISTRY, {}, first))
    around = folded(start, context_update(REGISTRY, start, second))
    third = take_snapshots(REGISTRY, c)
    states = {name for name in straight if name in around}
    kept = {name: third[name] for name in states}
    assert context_update(REGISTRY, straight, kept) == context_update(REGISTRY, around, kept)


@settings(deadline=None)
@given(contexts)
def test_every_part_is_marked_and_recognised_as_the_state_it_tells(ctx: PromptContext):
    for told in context_update(REGISTRY, {}, take_snapshots(REGISTRY, ctx), rebase=True).messages:
        assert [mark.part for mark in told.marks] == list(range(len(told.message.content)))
        for part, mark in zip(told.message.content, told.marks, strict=True):
            assert isinstance(part, InputText)
            fragment = REGISTRY.recognise(told.message.role, part.text)
            if fragment is not None:
                assert REGISTRY.state_of(fragment) == mark.id
            else:
                assert mark.id in ("developer_instructions", "additional_context")


@settings(deadline=None)
@given(contexts)
def test_nobody_knowing_what_was_told_means_telling_at_least_as_much(ctx: PromptContext):
    snapshots = take_snapshots(REGISTRY, ctx)
    unknown: dict[str, Baseline] = dict.fromkeys(snapshots, Unrecorded())
    again = {
        mark.id for m in context_update(REGISTRY, unknown, snapshots).messages for mark in m.marks
    }
    first = {mark.id for m in context_update(REGISTRY, {}, snapshots).messages for mark in m.marks}
    assert first <= again
