from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from treadle import Thread
from treadle.core.errors import ConfigError, MissingHarness, UnsupportedHarness
from treadle.core.specs import spec_name
from treadle.engines.contract import EngineInfo, Requirement
from treadle.engines.linear import LinearEngine
from treadle.harness.contract import Identifies, Traits, nobody
from treadle.harness.events import NoticeRaised, TurnStarted
from treadle.harness.loop import LoopHarness
from treadle.harness.offers import HarnessOffer, Registration
from treadle.harness.registry import HarnessRegistry
from treadle.harness.select import HarnessRules
from treadle.models.providers import ProviderConfig
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script
from treadle.testing.scripted import ScriptedModel
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.decorator import tool

from .packages import Parrot
from .scenes import hear, last, log, of, scripted


@dataclass
class Talker(Parrot):
    """A parrot that answers for its own models, too, and has hands."""

    def __post_init__(self) -> None:
        self.asked: list[str] = []

    def model(self, name: str, identity: Identifies = nobody) -> ScriptedModel:
        del identity
        self.asked.append(name)
        return ScriptedModel([], name)


@tool
async def wave() -> str:
    """Wave."""
    return "waved"


class Cage:
    """A registry with one harness in it, and all that it made."""

    def __init__(self, *, kind: type[Parrot] = Talker, **options: Any) -> None:
        self.made: list[Parrot] = []
        self.offers: list[HarnessOffer] = []
        self.registry = HarnessRegistry()
        self._kind, self._options = kind, options
        self.registry.register(
            Registration(id="parrot", label="", factory=self._make, providers=("birds",))
        )

    def _make(self, offer: HarnessOffer) -> Parrot:
        self.offers.append(offer)
        self.made.append(self._kind(**self._options))
        return self.made[-1]


@asynccontextmanager
async def opened(place, cage: Cage, thread: str | None = None, **options) -> AsyncIterator[Thread]:
    (place / "home").mkdir(exist_ok=True)
    options = {"model": "birds:grey", "environ": {}, "tools": ()} | options
    async with Thread.open(
        thread, **open_keywords(home=place / "home", cwd=place, harnesses=cage.registry, **options)
    ) as found:
        yield found


def reached_at(server: FakeServer) -> ProviderConfig:
    return ProviderConfig(api="responses", base_url=server.base_url, key_required=False)


def started(events) -> tuple[str, str]:
    (begun,) = of(events, TurnStarted)
    return begun.harness, begun.harness_reason


async def test_a_turn_says_which_harness_runs_it_and_why(tmp_path):
    cage = Cage()
    async with opened(tmp_path, cage) as thread:
        heard = await hear(thread, "hello")
        assert started(heard) == ("parrot", "auto_plugin")
        assert last(heard).text == "parrot heard turn 1"
        (parrot,) = cage.made
        assert isinstance(parrot, Talker)
        assert parrot.asked == ["birds:grey"]
        assert parrot.closed == 0
    assert (parrot.left, parrot.closed) == ([thread.id], 1)


async def test_a_harness_that_the_host_brings_is_left_and_not_closed(tmp_path):
    parrot, model = Parrot(), scripted()
    async with opened(tmp_path, Cage(), model=model, harness=parrot) as thread:
        assert started(await hear(thread, "hello")) == ("parrot", "brought")
    await model.close()
    assert (parrot.left, parrot.closed) == ([thread.id], 0)


@pytest.mark.parametrize("name", ["treadle", " Loop ", "", "auto"])
async def test_treadle_runs_the_rest(tmp_path, name):
    model = scripted(Answer(text="hi"))
    async with opened(tmp_path, Cage(), model=model, harness=name) as thread:
        reason = "auto_treadle" if name == "auto" else "forced_treadle"
        assert started(await hear(thread, "hello")) == ("treadle", reason)
        assert isinstance(thread.harness, LoopHarness)
    await model.close()


async def test_a_harness_that_is_asked_for_gets_its_table(tmp_path):
    cage, model = Cage(), scripted()
    rules = HarnessRules(general="parrot", tables={"parrot": {"volume": 11}})
    providers = {"mine": ProviderConfig(base_url="http://127.0.0.1:1")}
    async with opened(
        tmp_path, cage, model=model, harness_rules=rules, environ={"A": "b"}, providers=providers
    ) as thread:
        assert started(await hear(thread, "hello")) == ("parrot", "forced_plugin")
    await model.close()
    assert cage.offers == [
        HarnessOffer(
            home=tmp_path / "home", environ={"A": "b"}, providers=providers, config={"volume": 11}
        )
    ]


async def test_an_unknown_name_opens_nothing_and_leaves_no_lease(tmp_path):
    async with opened(tmp_path, Cage()) as thread:
        pass
    with pytest.raises(MissingHarness, match="there are 'codex', 'treadle', 'parrot'"):
        async with opened(tmp_path, Cage(), thread.id, harness="parot"):
            pass
    async with opened(tmp_path, Cage(), thread.id):
        pass


async def test_treadle_is_no_way_to_a_codex_model(tmp_path):
    with pytest.raises(UnsupportedHarness, match="through a harness of its own only"):
        async with opened(tmp_path, Cage(), model="codex:gpt-5.5", harness="treadle"):
            pass


async def test_a_codex_model_without_codex_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "codex_cli_bin", None)
    with pytest.raises(ConfigError, match=r"no Codex was found.*\[codex\]"):
        async with opened(tmp_path, Cage(), model="codex:gpt-5.5"):
            pass


async def test_another_model_may_bring_another_harness_and_the_conversation_stays(tmp_path):
    cage = Cage()
    async with (
        FakeServer(Script(answers=(Answer(text="I am Treadle."),))) as server,
        opened(tmp_path, cage, providers={"mine": reached_at(server)}) as thread,
    ):
        await hear(thread, "one")
        thread.use("mine:script")
        assert thread.harness.name == "parrot"
        assert started(await hear(thread, "two")) == ("treadle", "auto_treadle")
        thread.use("birds:grey")
        assert started(await hear(thread, "three")) == ("parrot", "auto_plugin")
        assert server.requests[0].payload["model"] == "script"
        assert await log(thread) == [
            "user: one",
            "assistant: parrot heard turn 1",
            "user: two",
            "assistant: I am Treadle.",
            "user: three",
            "assistant: parrot heard turn 3",
        ]
    (parrot,) = cage.made
    assert (parrot.left, parrot.closed) == ([thread.id] * 2, 1)


async def test_a_harness_can_be_changed_by_name_and_left_to_the_rules_again(tmp_path):
    cage, model = Cage(), scripted(Answer(text="hi"))
    async with opened(tmp_path, cage, model=model) as thread:
        thread.use(harness="Parrot")
        assert started(await hear(thread, "one")) == ("parrot", "forced_plugin")
        with pytest.raises(MissingHarness):
            thread.use(harness="nobody")
        with pytest.raises(ConfigError, match="is the host's"):
            thread.use("birds:grey", harness="treadle")
        assert started(await hear(thread, "two")) == ("parrot", "forced_plugin")
        thread.use(harness="auto")
        assert started(await hear(thread, "three")) == ("treadle", "auto_treadle")
    await model.close()


async def test_what_the_host_brought_can_be_returned_to(tmp_path):
    model, parrot = scripted(Answer(text="hi")), Parrot()
    async with opened(tmp_path, Cage(), model=model, harness=parrot) as thread:
        thread.use(harness="treadle")
        assert started(await hear(thread, "one")) == ("treadle", "forced_treadle")
        thread.use(harness="auto")
        assert started(await hear(thread, "two")) == ("parrot", "brought")
    await model.close()
    assert parrot.closed == 0


async def test_built_in_tools_are_not_offered_beside_hands_of_its_own(tmp_path):
    cage = Cage(traits=Traits(tools=True))
    async with opened(tmp_path, cage, tools=None) as thread:
        assert [spec_name(spec) for spec in thread.log.setup.tools] == []
        thread.use("openai:gpt-5.5", harness="treadle")
        await thread.foresee()
        assert "apply_patch" in [spec_name(spec) for spec in thread.log.setup.tools]
    async with opened(tmp_path, cage, tools=[wave]) as thread:
        assert [spec_name(spec) for spec in thread.log.setup.tools] == ["wave"]


async def test_an_engine_is_told_which_harness_it_is_on(tmp_path):
    class Needy(LinearEngine):
        info = EngineInfo(
            id="needy",
            name="Needy",
            host_requirements={"agent-run": Requirement(capabilities=("bootstrap",))},
        )

    model = scripted(Answer(text="hi"), Answer(text="hi"))
    async with opened(tmp_path, Cage(), model=model, engine=Needy()) as thread:
        assert of(await hear(thread, "one"), NoticeRaised) == []
        thread.use(harness="parrot")
        (notice,) = of(await hear(thread, "two"), NoticeRaised)
        assert "harness 'parrot' does not have" in notice.text
        thread.use(harness="treadle")
        assert of(await hear(thread, "three"), NoticeRaised) == []
    await model.close()


async def test_a_reset_is_told_to_a_harness_that_remembers(tmp_path):
    cage = Cage()
    async with opened(tmp_path, cage) as thread:
        await hear(thread, "one")
        await thread.reset()
        assert cage.made[0].forgot == [thread.id]


async def test_a_harness_that_fails_to_let_go_is_in_nobodys_way(tmp_path, caplog):
    class Stubborn(Talker):
        async def leave(self, thread: str) -> None:
            raise OSError(f"{thread} stays, token=hunter2")

        async def close(self) -> None:
            raise OSError("I stay")

        async def forget(self, log) -> None:
            raise OSError(f"I remember {log.id}")

    with caplog.at_level(logging.WARNING, "treadle.harness.thread_harness"):
        async with opened(tmp_path, Cage(kind=Stubborn)) as thread:
            await thread.reset()
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        f"OSError: I remember {thread.id}",
        f"OSError: {thread.id} stays, token=…",
        "OSError: I stay",
    ]


async def test_a_harness_that_fails_is_not_replaced(tmp_path):
    class Failing(Talker):
        async def run(self, run):
            assert run.turn is not None
            raise ConfigError("the bird has flown; open the cage again")

    model = scripted(Answer(text="never"))
    cage = Cage(kind=Failing)
    async with opened(tmp_path, cage, model=model, harness="parrot") as thread:
        with pytest.raises(ConfigError, match="the bird has flown"):
            await hear(thread, "one")
    assert model.requests == []
    await model.close()


async def test_a_factory_is_asked_once_for_a_thread(tmp_path):
    cage = Cage()
    async with opened(tmp_path, cage) as thread:
        for said in ("one", "two"):
            await hear(thread, said)
    assert len(cage.made) == 1
