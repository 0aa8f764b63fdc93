from __future__ import annotations

import asyncio

import pytest

from tests.engines.scenes import (
    Booting,
    Closing,
    Committing,
    Probe,
    Tidying,
    actions,
    describe_item,
    engine_message,
    epochs,
    notices,
    reports,
)
from tests.harness.scenes import call, hear, last, open_thread, scripted
from treadle.core.errors import CannotCompact
from treadle.engines.contract import EngineInfo, Requirement
from treadle.engines.guard import EngineTimeouts
from treadle.engines.loading import EngineContext, EngineRegistry
from treadle.engines.values import MaintainParams, MaintainResult, Rebase
from treadle.testing.script import Answer
from treadle.tools.decorator import tool


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "seen"


class Whole(Booting, Tidying, Committing, Closing):
    """Has a part in every moment of a turn."""


async def test_an_engine_that_cannot_be_found_is_looked_for_again_and_has_missed_nothing(tmp_path):
    engine = Committing()
    found = [ConnectionError("its server is down")]

    def factory(_: EngineContext) -> Committing:
        if found:
            raise found.pop()
        return engine

    engines = EngineRegistry()
    engines.register("memory", factory)
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine="memory", engines=engines) as thread:
        first = await hear(thread, "first")
        await thread.log.done.settle()
        waiting = [row.state for row in await thread.store.outbox(thread=thread.id)]
        second = await hear(thread, "second")
    assert notices(first) == [
        (
            "context engine 'memory' failed at factory: ConnectionError: its server is down; "
            "check its settings, or choose another engine; this turn runs without engine "
            "'memory', which is tried again on the next turn"
        ),
    ]
    assert actions(first) == ["degraded", "maintenance.skipped"]
    assert waiting == ["accepted"]
    assert [
        [describe_item(item) for item in given.items] for given in engine.given("commit_turn")
    ] == [
        ["first", "a"],
        ["second", "b"],
    ]
    assert notices(second) == []


async def test_a_factory_that_takes_its_settings_apart_finds_them_whole_the_next_time(tmp_path):
    given = []

    def factory(context: EngineContext) -> Probe:
        given.append((context.config.pop("path", None), context.config["deep"].pop("x", None)))
        raise ConnectionError("its server is down")

    engines = EngineRegistry()
    engines.register("memory", factory)
    config = {"path": "here", "deep": {"x": 1}}
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(
        tmp_path, model, engine="memory", engines=engines, engine_config=config
    ) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
    assert given == [("here", 1), ("here", 1)]
    assert config == {"path": "here", "deep": {"x": 1}}


async def thread_whose_engine_has_vanished(tmp_path) -> str:
    """Make a thread with an engine that nobody will offer when it is opened again."""
    engines = EngineRegistry()
    engines.register("nobody", lambda _: Committing(EngineInfo(id="nobody", name="Nobody")))
    async with open_thread(tmp_path, scripted(), engine="nobody", engines=engines) as thread:
        return thread.id


async def test_a_name_that_nobody_offers_any_more_is_told_and_the_turn_runs(tmp_path):
    thread_id = await thread_whose_engine_has_vanished(tmp_path)
    model = scripted(Answer(text="a"))
    async with open_thread(
        tmp_path, model, thread=thread_id, engine="nobody", engines=EngineRegistry()
    ) as thread:
        heard = await hear(thread, "first")
    assert last(heard).text == "a"
    assert notices(heard) == [
        (
            "no context engine 'nobody' is installed; `treadle engines` lists what there is; "
            "install it, or choose another; this turn runs without engine 'nobody', which is "
            "tried again on the next turn"
        ),
    ]


async def test_an_engine_is_known_by_the_name_it_was_chosen_under(tmp_path):
    engines = EngineRegistry()
    engine = Committing(EngineInfo(id="another-id", name="Other"))
    engines.register("chosen", lambda _: engine)
    async with open_thread(
        tmp_path, scripted(Answer(text="a")), engine="chosen", engines=engines
    ) as thread:
        heard = await hear(thread, "first")
    assert {report.engine for report in reports(heard)} == {"chosen"}
    assert engine.given("assemble")[0].settings.engine.id == "chosen"


async def test_what_an_engine_publishes_and_fails_at_is_told_under_the_chosen_name(tmp_path):
    def shorter(given: MaintainParams) -> MaintainResult:
        return MaintainResult(rebase=Rebase(items=(engine_message("All of it."), *given.items[1:])))

    engines = EngineRegistry()
    engine = Tidying(EngineInfo(id="another-id", name="Other"), maintain=shorter)
    engines.register("chosen", lambda _: engine)
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine="chosen", engines=engines) as thread:
        await hear(thread, "first")
        assert await epochs(thread) == [("publish", "chosen")]
        engine.answers["maintain"] = ValueError("odd")
        heard = await hear(thread, "second")
    assert notices(heard) == [
        "context engine 'chosen' failed at maintain: ValueError: odd; the view stays as it is"
    ]


async def test_a_compaction_by_hand_is_the_runtime_s_where_the_engine_cannot_be_found(tmp_path):
    thread_id = await thread_whose_engine_has_vanished(tmp_path)
    model = scripted(Answer(text="a " * 3_000), Answer(text="A summary."))
    async with open_thread(
        tmp_path, model, thread=thread_id, engine="nobody", engines=EngineRegistry()
    ) as thread:
        await hear(thread, "first")
        assert (await thread.compact()).by == "linear"


@pytest.mark.parametrize("name", ["linear", "legacy"])
async def test_the_plain_engine_costs_and_reports_nothing(tmp_path, name):
    async with open_thread(tmp_path, scripted(Answer(text="a")), engine=name) as thread:
        heard = await hear(thread, "first")
        await thread.log.done.settle()
        assert await thread.store.outbox(thread=thread.id) == []
    assert (reports(heard), notices(heard)) == ([], [])


async def test_what_a_harness_cannot_serve_is_said_and_the_turn_runs_without_it(tmp_path):
    needs = Requirement(
        capabilities=("thread-bootstrap-projection",), message="choose the codex harness"
    )
    info = EngineInfo(id="picky", name="Picky", host_requirements={"agent-run": needs})
    engine = Whole(info)
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        first = await hear(thread, "first")
        second = await hear(thread, "second")
    assert engine.calls == []
    assert notices(first) == [
        (
            "engine 'picky' needs thread-bootstrap-projection for agent-run, which harness "
            "'treadle' does not have (it has after-turn, assemble-before-prompt, bootstrap, "
            "compact, maintain, runtime-llm-complete); choose the codex harness; this turn "
            "runs without it"
        ),
    ]
    assert notices(second) == notices(first)
    assert actions(first) == ["degraded", "maintenance.skipped"]


async def test_a_compaction_by_hand_that_the_harness_cannot_serve_is_refused(tmp_path):
    needs = Requirement(capabilities=("thread-bootstrap-projection",))
    info = EngineInfo(id="picky", name="Picky", host_requirements={"manual-compact": needs})
    engine = Probe(info)
    async with open_thread(tmp_path, scripted(Answer(text="a")), engine=engine) as thread:
        await hear(thread, "first")
        with pytest.raises(CannotCompact, match="picky"):
            await thread.compact()
    assert "compact" not in engine.calls


async def test_an_engine_of_the_thread_s_own_is_let_go_with_it(tmp_path):
    engine = Closing(dispose=RuntimeError("already gone"))
    engines = EngineRegistry()
    engines.register("own", lambda _: engine)
    async with open_thread(
        tmp_path, scripted(Answer(text="a")), engine="own", engines=engines
    ) as one:
        await hear(one, "first")
    assert engine.calls[-1] == "dispose"


async def test_an_engine_of_the_host_s_is_left_to_the_host(tmp_path):
    engine = Closing()
    async with open_thread(tmp_path, scripted(Answer(text="a")), engine=engine) as thread:
        await hear(thread, "first")
    assert "dispose" not in engine.calls


async def test_an_engine_that_does_not_let_go_is_left(tmp_path):
    engine = Closing(dispose=lambda _: asyncio.Event().wait())
    engines = EngineRegistry()
    engines.register("own", lambda _: engine)
    timeouts = EngineTimeouts(dispose=0.05)
    async with open_thread(
        tmp_path, scripted(Answer(text="a")), engine="own", engines=engines, timeouts=timeouts
    ) as thread:
        await hear(thread, "first")
    assert engine.calls[-1] == "dispose"


async def test_tools_of_an_engine_are_offered_and_one_that_fails_to_offer_is_told(tmp_path):
    class Tooled(Probe):
        def tools(self):
            if "tools" in self.answers:
                raise self.answers["tools"]
            return (look,)

    model = scripted(Answer(calls=(call("look"),)), Answer(text="a"))
    engine = Tooled()
    async with open_thread(tmp_path, model, engine=engine) as thread:
        assert last(await hear(thread, "first")).text == "a"
    assert engine.given("assemble")[0].available_tools == {"look"}
    broken = Tooled(tools=KeyError("index"))
    async with open_thread(tmp_path, scripted(Answer(text="a")), engine=broken) as thread:
        heard = await hear(thread, "first")
    assert last(heard).text == "a"
    assert any("KeyError" in text for text in notices(heard))
