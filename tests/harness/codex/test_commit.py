from __future__ import annotations

import pytest

from tests.engines.scenes import (
    Batching,
    Booting,
    Committing,
    Following,
    Probe,
    Tidying,
    actions,
    describe_item,
    engine_message,
    notices,
    reports,
)
from tests.harness.codex.scenes import (
    Stage,
    hear,
    last,
    open_stage,
    request_items,
    roles_and_texts,
    talk,
)
from treadle import Thread
from treadle.core.provenance import InputProvenance
from treadle.engines.values import CommitResult, MaintainParams, MaintainResult, Rebase
from treadle.harness.events import Event, TextDelta
from treadle.store.contract import OutboxRow
from treadle.testing.script import Answer, Break, ScriptedError

SECRET = "the word is rosebud"


class Whole(Booting, Tidying, Committing):
    """Has every power that a turn asks for."""


async def with_past(stage: Stage, *said: str) -> str:
    """A thread that has been spoken in, without an engine."""
    async with stage.thread() as thread:
        await talk(thread, *said)
    return thread.id


async def waiting(thread: Thread) -> list[OutboxRow]:
    await thread.log.done.settle()
    return await thread.store.outbox(thread=thread.id, topic="engine:probe")


async def test_each_completed_turn_is_committed_once_and_others_travel_marked(tmp_path):
    engine = Committing()
    answers = (
        Answer(text="a"),
        Answer(error=ScriptedError(status=400, code="odd", message="no")),
        Answer(text="never", stall=Break(events=3)),
        Answer(text="d"),
    )
    async with open_stage(tmp_path, *answers) as stage, stage.thread(engine=engine) as thread:

        def stop(event: Event) -> None:
            if isinstance(event, TextDelta):
                thread.interrupt()

        ends = [last(await hear(thread, text)).status for text in ("one", "two")]
        ends.append(last(await hear(thread, "three", at=stop)).status)
        ends.append(last(await hear(thread, "four")).status)
        assert ends == ["completed", "failed", "interrupted", "completed"]
        assert await waiting(thread) == []
    commits = engine.given("commit_turn")
    assert [given.number for given in commits] == [1, 4]
    assert len({given.key for given in commits}) == 2
    assert list(zip(map(describe_item, commits[1].items), commits[1].outcomes, strict=True)) == [
        ("two", "failed"),
        ("three", "aborted"),
        ("four", "accepted"),
        ("d", "accepted"),
    ]


async def test_a_commit_that_failed_is_repeated_before_the_next_turn_under_the_same_key(tmp_path):
    tries = iter([ValueError("odd"), CommitResult("committed"), CommitResult("committed")])
    engine = Committing(commit_turn=lambda _: next(tries))
    async with (
        open_stage(tmp_path, Answer(text="a"), Answer(text="b")) as stage,
        stage.thread(engine=engine) as thread,
    ):
        assert last(await hear(thread, "one")).status == "completed"
        assert len(await waiting(thread)) == 1
        await talk(thread, "two")
        assert await waiting(thread) == []
    keys = [given.key for given in engine.given("commit_turn")]
    assert [given.number for given in engine.given("commit_turn")] == [1, 1, 2]
    assert keys[0] == keys[1] != keys[2]


async def test_a_failed_turn_on_codex_hands_nothing_over_and_maintains_nothing(tmp_path):
    engine = Whole()
    failure = Answer(error=ScriptedError(status=400, code="odd", message="no"))
    async with open_stage(tmp_path, failure) as stage, stage.thread(engine=engine) as thread:
        heard = await hear(thread, "one")
    assert last(heard).status == "failed"
    assert engine.calls == ["assemble"]
    assert "maintenance.skipped" in actions(heard)


@pytest.mark.parametrize("kind", [Probe, Following, Batching, Committing])
async def test_who_wrote_an_input_reaches_engines_from_codex_too(tmp_path, kind):
    engine = kind()
    nightly = InputProvenance(kind="internal_system", source_tool="nightly", job_id="job_1")
    async with (
        open_stage(tmp_path, Answer(text="a")) as stage,
        stage.thread(engine=engine) as thread,
    ):
        await hear(thread, "Check the mail.", provenance=nightly)
    name, given = next(asked for asked in engine.asked if asked[0] != "assemble")
    item = given.item if name == "ingest" else given.items[0]
    assert describe_item(item) == "Check the mail."
    assert given.provenance in (nightly, (nightly, None))


async def test_every_call_of_a_turn_on_codex_gets_the_same_settings(tmp_path):
    engine = Whole()
    async with open_stage(tmp_path) as stage:
        thread = await with_past(stage, "rain")
        async with stage.thread(thread, engine=engine) as again:
            await hear(again, "second")
    assert engine.calls == ["bootstrap", "maintain", "assemble", "commit_turn", "maintain"]
    settings = [given.settings for _, given in engine.asked]
    assert all(each is settings[0] for each in settings)
    assert (settings[0].harness, settings[0].model.resolved) == ("codex", "openai:gpt-5.5")


async def test_what_a_bootstrap_makes_of_the_view_is_what_codex_is_shown(tmp_path):
    def compacts(given: MaintainParams) -> MaintainResult:
        if given.reason != "bootstrap":
            return MaintainResult()
        items = (engine_message("It rained."), given.items[-1])
        return MaintainResult(changed=True, rebase=Rebase(items=items))

    engine = Whole(maintain=compacts)
    async with open_stage(tmp_path) as stage:
        thread = await with_past(stage, "rain", "snow")
        async with stage.thread(thread, engine=engine) as again:
            await hear(again, "and now?")
    (given,) = engine.given("assemble")
    assert [describe_item(item) for item in given.items] == ["It rained.", "fine", "and now?"]
    assert given.pre_prompt_count == 2
    assert roles_and_texts(request_items(stage.requests[-1])) == [
        ("user", "It rained."),
        ("assistant", "fine"),
        ("user", "and now?"),
    ]


async def test_an_engine_s_error_costs_a_turn_on_codex_nothing_and_is_reported_without_its_words(
    tmp_path,
):
    engine = Whole(assemble=ValueError(SECRET), commit_turn=ValueError(SECRET))
    async with (
        open_stage(tmp_path, Answer(text="a")) as stage,
        stage.thread(engine=engine) as thread,
    ):
        heard = await hear(thread, "one")
    assert (last(heard).status, last(heard).text) == ("completed", "a")
    assert roles_and_texts(request_items(stage.requests[0])) == [("user", "one")]
    assert {"assemble.failed", "finalise.failed"} <= set(actions(heard))
    assert not any("rosebud" in str(report) for report in reports(heard))
    assert len(notices(heard)) == 2
