from __future__ import annotations

from tests.engines.scenes import (
    Committing,
    Following,
    Probe,
    Tidying,
    describe_item,
    engine_message,
    epochs,
    shows,
)
from tests.harness.scenes import call, hear, last, open_thread, scripted
from treadle.engines.call_context import answer_reserve
from treadle.engines.contract import EngineInfo
from treadle.engines.values import AssembleParams, AssembleResult, recall_item
from treadle.hooks import Hooks
from treadle.hooks.payloads import BeforePromptBuild, HookAnswer
from treadle.testing.script import Answer, Tokens
from treadle.tools.decorator import tool

OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "seen"


async def test_an_engine_is_told_all_that_it_decides_by(tmp_path):
    engine = Probe()
    model = scripted(Answer(calls=(call("look"),)), Answer(text="Dry."), Answer(text="Still."))
    facts = "context_window = 80000"
    async with open_thread(
        tmp_path, model, facts=facts, tools=(look,), engine=engine, citations="on"
    ) as thread:
        await hear(thread, "rain?")
        before = thread.log.requests.occupied
        await hear(thread, "and now?")
        told = sum(row.tokens for row in thread.view.rows if row.contextual)
        given = engine.given("assemble")[1]
        assert [describe_item(item) for item in given.items] == [
            "rain?",
            "call look",
            "output seen",
            "Dry.",
            "and now?",
        ]
        window = 80_000 * 95 // 100
        prompt = given.items[-1].tokens
        room = window - answer_reserve(window) - told - thread.log.requests.head_tokens - prompt
    assert (given.model, given.prompt, given.citations) == ("scripted:script", "and now?", "on")
    assert given.available_tools == frozenset({"look"})
    assert (given.pre_prompt_count, given.token_budget) == (4, room)
    assert given.current_tokens == before
    assert given.context.cwd == str(tmp_path / "project")
    assert given.context.prompt_cache.last_usage.input_tokens > 0
    assert given.context.prompt_cache.broke is False


async def test_every_array_has_the_length_of_the_items(tmp_path):
    engine = Probe(OWNER)
    model = scripted(Answer(calls=(call("look"),)), Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, tools=(look,), engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
    for given in engine.given("assemble"):
        arrays = (given.items, given.provenance, given.internal_events, given.persist)
        assert {len(each) for each in arrays} == {len(given.items)}


async def test_what_the_runtime_says_is_not_among_the_items(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "AGENTS.md").write_text("Speak of rain.")
    engine = Tidying()
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
        assert any(row.contextual for row in thread.view.rows)
    (_, given) = engine.given("assemble")
    assert [describe_item(item) for item in given.items] == ["first", "a", "second"]
    assert given.pre_prompt_count == 2
    assert b"Speak of rain." in model.requests[-1].body


async def test_a_long_conversation_that_fits_reaches_the_model_uncut(tmp_path):
    long = "wet leaves " * 2_700
    engine = Probe(
        assemble=lambda given: AssembleResult(
            items=(engine_message(long), *given.items), estimated_tokens=8_000
        )
    )
    model = scripted(Answer(text="a"))
    facts = "context_window = 80000"
    async with open_thread(tmp_path, model, facts=facts, engine=engine) as thread:
        await hear(thread, "first")
    assert shows(model.requests[0]) == [long, "first"]


async def test_what_stands_around_the_input_extends_the_view(tmp_path):
    def around(given: AssembleParams) -> AssembleResult:
        before, now = given.items[:-1], given.items[-1]
        return AssembleResult(
            items=(*before, recall_item("It rained."), now, engine_message("Mind that."))
        )

    engine = Probe(assemble=around)
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
        assert await epochs(thread) == []
        assert thread.log.requests.newest is not None
        assert thread.log.requests.newest.reason is None
    first, second = model.requests
    assert second.body.startswith(first.body.rstrip(b"]}"))
    assert first.body.count(b"<recalled_memory>") == 1
    assert second.body.count(b"<recalled_memory>") == 2
    assert shows(second) == ["first", "Mind that.", "a", "second", "Mind that."]


async def test_memory_is_not_handed_back_and_other_additions_are_marked_as_volatile(tmp_path):
    def around(given: AssembleParams) -> AssembleResult:
        before, now = given.items[:-1], given.items[-1]
        return AssembleResult(
            items=(*before, recall_item("It rained."), now, engine_message("Mind that."))
        )

    engine = Committing(assemble=around)
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        engine.answers.clear()
        await hear(thread, "second")
    given = engine.given("assemble")[-1]
    told = [
        (describe_item(item), persist)
        for item, persist in zip(given.items, given.persist, strict=True)
    ]
    assert told == [("first", True), ("Mind that.", False), ("a", True), ("second", True)]
    assert [
        [describe_item(item) for item in each.items] for each in engine.given("commit_turn")
    ] == [
        ["first", "a"],
        ["second", "b"],
    ]


async def test_a_view_that_is_not_an_extension_is_an_epoch_of_the_engine_s(tmp_path):
    def newest(given: AssembleParams) -> AssembleResult:
        return AssembleResult(items=(engine_message("It rained."), *given.items[-1:]))

    engine = Probe(assemble=newest)
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        assert await epochs(thread) == []
        await hear(thread, "second")
        assert await epochs(thread) == [("publish", "probe")]
        assert thread.log.requests.newest is not None
        assert thread.log.requests.newest.reason == "publish"
    assert shows(model.requests[-1]) == ["It rained.", "second"]


async def test_the_first_context_and_its_bytes_stay_at_an_engine_s_epoch(tmp_path):
    def newest(given: AssembleParams) -> AssembleResult:
        return AssembleResult(items=(engine_message("It rained."), *given.items[-1:]))

    model = scripted(Answer(text="a"), Answer(text="b"))
    engine = Probe()
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        known = dict(thread.view.baselines)
        engine.answers["assemble"] = newest
        await hear(thread, "second")
        assert thread.view.baselines == known
    first, second = model.requests
    opening, found, _ = first.body.partition(
        b'{"type":"message","role":"user","content":[{"type":"input_text","text":"first"}'
    )
    assert found
    assert second.body.startswith(opening)


async def test_an_input_that_the_engine_covers_is_shown_in_its_words_and_kept_in_the_log(tmp_path):
    def covers(given: AssembleParams) -> AssembleResult:
        told = engine_message(f"In the record: {given.prompt}")
        return AssembleResult(items=(*given.items[:-1], told), covers_current_turn=True)

    engine = Committing(assemble=covers)
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
    assert shows(model.requests[0]) == ["In the record: first"]
    assert shows(model.requests[1]) == ["In the record: first", "a", "In the record: second"]
    assert [describe_item(given.items[0]) for given in engine.given("commit_turn")] == [
        "first",
        "second",
    ]


async def test_an_input_that_was_only_left_out_is_shown_all_the_same(tmp_path):
    engine = Probe(assemble=AssembleResult(items=(engine_message("It rained."),)))
    model = scripted(Answer(text="a"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
    assert shows(model.requests[0]) == ["It rained.", "first"]


async def test_the_same_input_is_never_shown_twice(tmp_path):
    engine = Probe(
        assemble=lambda given: AssembleResult(items=given.items, covers_current_turn=True)
    )
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "again")
        await hear(thread, "again")
    assert shows(model.requests[1]) == ["again", "a", "again"]


async def test_what_nobody_knows_of_the_cache_is_not_made_up(tmp_path):
    engine = Following()
    model = scripted(Answer(text="a", usage=Tokens(input=500, cached=300, output=7)))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
    (given,) = engine.given("assemble")
    assert given.context.prompt_cache is None
    (given,) = engine.given("after_turn")
    usage = given.context.prompt_cache.last_usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (500, 300, 7)


async def test_hooks_come_after_the_engine_and_what_they_add_stands_behind_its_view(tmp_path):
    order: list[object] = []

    async def remind(seen: BeforePromptBuild) -> HookAnswer:
        order.append(("hook", seen.prompt, seen.instructions))
        return HookAnswer(context="mind the gap")

    def assembles(given: AssembleParams) -> AssembleResult:
        order.append("engine")
        items = (*given.items, engine_message("Mind that."))
        return AssembleResult(items=items, system_prompt_addition="Be brief.")

    hooks = Hooks()
    hooks.on(BeforePromptBuild, remind)
    engine = Probe(assemble=assembles)
    model = scripted(Answer(text="a"))
    async with open_thread(tmp_path, model, engine=engine, hooks=hooks) as thread:
        await hear(thread, "first")
    told = "<engine_guidance>\nBe brief.\n</engine_guidance>"
    assert order == ["engine", ("hook", "first", told)]
    (given,) = engine.given("assemble")
    assert [describe_item(item) for item in given.items] == ["first"]
    body = model.requests[0].body
    places = [body.index(text) for text in (b'"first"', b"Mind that.", b"mind the gap")]
    assert places == sorted(places)


async def test_an_input_that_a_hook_does_not_want_ends_its_turn_and_reaches_no_model(tmp_path):
    hooks = Hooks()
    hooks.on(BeforePromptBuild, refuse)
    engine = Probe()
    model = scripted(Answer(text="a"))
    async with open_thread(tmp_path, model, engine=engine, hooks=hooks) as thread:
        ended = last(await hear(thread, "first", turn_id="turn_1"))
        (turn,) = await thread.store.turns(thread.id)
        assert (ended.status, turn.state, thread.view.rows) == ("failed", "failed", [])
        assert "not today" in (ended.error or "")
    assert model.requests == []


async def refuse(_: BeforePromptBuild) -> HookAnswer:
    return HookAnswer(block="not today")
