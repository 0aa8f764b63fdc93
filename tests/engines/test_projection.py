from __future__ import annotations

from typing import Any

from tests.engines.scenes import Probe, actions, engine_message, epochs, notices, past, shows
from tests.harness.scenes import hear, last, of, open_thread, scripted
from treadle import Thread
from treadle.core.entries import Epoch, ProjectionMark
from treadle.engines.contract import EngineInfo
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    CompactParams,
    CompactResult,
    Projection,
    Rebase,
)
from treadle.harness.events import CompactionFinished, CompactionStarted
from treadle.testing.script import Answer, Tokens

OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)


class Projecting(Probe):
    """Shows a record of its own and the present input, and says for how long."""

    epoch, fingerprint, record = "winter", "1", "It snowed."

    def __init__(self, **answers: Any) -> None:
        super().__init__(**answers)
        self.answers.setdefault("assemble", self.project)

    def project(self, given: AssembleParams) -> AssembleResult:
        return AssembleResult(
            items=(engine_message(self.record), given.items[-1]),
            projection=Projection(mode="per_epoch", epoch=self.epoch, fingerprint=self.fingerprint),
        )


async def projections(thread: Thread) -> list[ProjectionMark | None]:
    """What the epochs of a thread say of their plans."""
    entries = await thread.store.read(thread.id)
    controls = [entry.control for entry in entries if entry.kind == "epoch"]
    return [
        control.projection
        for control in controls
        if isinstance(control, Epoch) and control.recipe is not None
    ]


async def test_a_plan_that_the_view_shows_already_changes_nothing(tmp_path):
    engine = Projecting()
    model = scripted(*(Answer(text=text) for text in "bcd"))
    thread = await past(tmp_path, "rain")
    async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
        await hear(again, "second")
        engine.record = "It snowed more."
        await hear(again, "third")
        assert await projections(again) == [ProjectionMark("probe", "winter", "1")]
    assert shows(model.requests[0]) == ["It snowed.", "second"]
    assert shows(model.requests[1]) == ["It snowed.", "second", "b", "third"]
    assert model.requests[1].body.startswith(model.requests[0].body.rstrip(b"]}"))


async def test_a_plan_holds_although_the_thread_is_opened_again(tmp_path):
    thread = await past(tmp_path, "rain")
    for text in ("second", "third"):
        model = scripted(Answer(text="b"))
        async with open_thread(tmp_path, model, thread=thread, engine=Projecting()) as again:
            await hear(again, text)
            assert len(await projections(again)) == 1


async def test_another_epoch_or_fingerprint_is_one_new_epoch_each(tmp_path):
    engine = Projecting()
    model = scripted(*(Answer(text=text) for text in "bcde"))
    thread = await past(tmp_path, "rain")
    async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
        await hear(again, "second")
        engine.fingerprint = "2"
        await hear(again, "third")
        await hear(again, "fourth")
        engine.epoch = "spring"
        await hear(again, "fifth")
        assert await projections(again) == [
            ProjectionMark("probe", "winter", "1"),
            ProjectionMark("probe", "winter", "2"),
            ProjectionMark("probe", "spring", "2"),
        ]
        assert await epochs(again) == [("publish", "probe")] * 3


async def test_a_plan_for_a_turn_is_carried_out_in_every_turn(tmp_path):
    def newest(given: AssembleParams) -> AssembleResult:
        return AssembleResult(items=(engine_message("It snowed."), given.items[-1]))

    model = scripted(Answer(text="b"), Answer(text="c"))
    thread = await past(tmp_path, "rain")
    async with open_thread(tmp_path, model, thread=thread, engine=Probe(assemble=newest)) as again:
        await hear(again, "second")
        await hear(again, "third")
        assert await projections(again) == [None, None]
    assert shows(model.requests[1]) == ["It snowed.", "third"]


async def test_an_engine_may_go_from_epochs_to_turns(tmp_path):
    engine = Projecting()
    model = scripted(Answer(text="b"), Answer(text="c"))
    thread = await past(tmp_path, "rain")
    async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
        await hear(again, "second")
        engine.answers["assemble"] = lambda given: AssembleResult(
            items=(engine_message("It thawed."), given.items[-1])
        )
        await hear(again, "third")
        assert await projections(again) == [ProjectionMark("probe", "winter", "1"), None]
    assert shows(model.requests[1]) == ["It thawed.", "third"]


async def test_the_same_plan_of_another_engine_is_another_plan(tmp_path):
    thread = await past(tmp_path, "rain")
    for name in ("one", "other"):
        engine = Projecting()
        engine.info = EngineInfo(id=name, name=name)
        model = scripted(Answer(text="b"))
        async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
            await hear(again, "again")
            found = await projections(again)
    assert found == [ProjectionMark("one", "winter", "1"), ProjectionMark("other", "winter", "1")]


async def test_a_plan_that_names_no_epoch_is_a_failure_that_is_told(tmp_path):
    engine = Projecting()
    engine.epoch = " "
    thread = await past(tmp_path, "rain")
    model = scripted(Answer(text="b"))
    async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
        heard = await hear(again, "second")
        assert await projections(again) == []
    assert last(heard).text == "b"
    assert actions(heard)[0] == "assemble.failed"
    assert "does not name the epoch" in notices(heard)[0]
    assert shows(model.requests[0]) == ["rain", "On rain.", "second"]


FULL = Tokens(input=9_500)
LONG = "a " * 16_000
FACTS = "auto_compact_token_limit = 9000"


async def test_an_owner_is_not_compacted_beside_its_own_plan(tmp_path):
    engine = Probe(OWNER)
    model = scripted(Answer(text="a", usage=FULL), Answer(text="b", usage=FULL))
    async with open_thread(tmp_path, model, facts=FACTS, engine=engine) as thread:
        heard = [*await hear(thread, "first"), *await hear(thread, "second")]
    assert "compact" not in engine.calls
    assert of(heard, CompactionStarted) == []


async def test_an_owner_whose_view_may_overflow_is_asked_to_compact(tmp_path):
    engine = Probe(
        OWNER,
        assemble=lambda given: AssembleResult(
            items=given.items, prompt_authority="preassembly_may_overflow"
        ),
    )
    model = scripted(
        Answer(text="a " * 4_000, usage=FULL), Answer(text="A summary."), Answer(text="b")
    )
    async with open_thread(tmp_path, model, facts=FACTS, engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
    assert [given.trigger for given in engine.given("compact")] == ["auto"]


def shrinks(given: AssembleParams) -> AssembleResult:
    """A view of the present turn that may not be all that is sent."""
    live = given.items[given.pre_prompt_count :]
    return AssembleResult(
        items=(engine_message("It rained. " * 1_000), *live),
        prompt_authority="preassembly_may_overflow",
    )


async def test_what_was_there_before_assembling_counts_where_the_view_may_overflow(tmp_path):
    engine = Probe(OWNER, compact=CompactResult(ok=False, reason="it is small"))
    model = scripted(Answer(text=LONG), Answer(text="b"))
    async with open_thread(tmp_path, model, facts=FACTS, engine=engine) as thread:
        await hear(thread, "first")
        engine.answers["assemble"] = shrinks
        heard = await hear(thread, "second")
    assert engine.calls.count("compact") == 1
    assert last(heard).text == "b"


async def test_a_view_that_was_compacted_is_not_compacted_again_for_what_was_there_before(tmp_path):
    def compacts(given: CompactParams) -> CompactResult:
        rebase = Rebase(items=(engine_message("It rained."), given.items[-1]))
        return CompactResult(compacted=True, rebase=rebase)

    engine = Probe(OWNER, compact=compacts)
    model = scripted(Answer(text=LONG), Answer(text="b"), Answer(text="c"))
    async with open_thread(tmp_path, model, facts=FACTS, engine=engine) as thread:
        await hear(thread, "first")
        engine.answers["assemble"] = shrinks
        second = await hear(thread, "second")
        engine.answers["assemble"] = lambda given: AssembleResult(
            items=given.items, prompt_authority="preassembly_may_overflow"
        )
        third = await hear(thread, "third")
    assert [end.error for end in of(second, CompactionFinished)] == [None]
    assert of(third, CompactionStarted) == []
    assert (last(second).text, last(third).text) == ("b", "c")
