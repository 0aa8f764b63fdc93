"""The contract of a harness, and the part of it about context engines."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...core.items import Message, text_of
from ...core.specs import spec_name
from ...engines.contract import EngineInfo, Requirement
from ...engines.linear import LinearEngine
from ...engines.values import (
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    recall_item,
)
from ...harness.events import NoticeRaised
from ..script import Answer, ScriptedError
from .harness_fixture import call_answer, turn_end
from .harness_turns import HarnessTurns, OpenFixture, collect_events

__all__ = ["HarnessContract"]

_RECALLED = "Zebras have stripes."


_INFO = EngineInfo(
    id="probe",
    name="Probe",
    version="1",
    host_requirements={"agent-run": Requirement(capabilities=("assemble-before-prompt",))},
)


@dataclass(slots=True)
class RecordingEngine(LinearEngine):
    """An engine that records its calls, and recalls one text."""

    info: EngineInfo = _INFO
    calls: list[str] = field(default_factory=list)
    committed: list[CommitParams] = field(default_factory=list)
    settings: list[Any] = field(default_factory=list)

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Record the call and the settings."""
        self.calls.append("bootstrap")
        self.settings.append(given.settings)
        return BootstrapResult(bootstrapped=True)

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """Recall a text right before the present input."""
        self.calls.append("assemble")
        self.settings.append(given.settings)
        now = len(given.items) if given.pre_prompt_count is None else given.pre_prompt_count
        before, after = given.items[:now], given.items[now:]
        return AssembleResult(items=(*before, recall_item(_RECALLED), *after))

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        """Record the turn."""
        self.calls.append("commit_turn")
        self.committed.append(given)
        return CommitResult("committed")


class HarnessContract(HarnessTurns):
    """What every `Harness` must do. Subclass it and make the harness.

    Give the subclass a method `factory` that makes the harness, as its registration does:

        class TestMyHarness(HarnessContract):
            def factory(self, offer):
                return MyHarness(home=offer.home, providers=offer.providers)

    and run it under pytest-asyncio's auto mode. The harness runs real turns on a real store,
    in front of a model server on the loopback interface.
    """

    async def test_an_engine_lives_through_its_turns(self, open_fixture: OpenFixture) -> None:
        probe = RecordingEngine()
        answers = (call_answer("look"), Answer(text="One."), Answer(text="Two."))
        async with open_fixture(*answers) as fixture:
            async with fixture.open_thread(engine=probe) as thread:
                await collect_events(thread.run("First."))
                await collect_events(thread.run("Second."))
            able = fixture.harness.capabilities
            name = fixture.harness.name
        wanted = ["assemble", "commit_turn"] * 2 if "assemble-before-prompt" in able else []
        assert [call for call in probe.calls if call != "bootstrap"] == wanted
        assert {settings.harness for settings in probe.settings if settings} <= {name}
        assert [given.number for given in probe.committed] == [1, 2][: len(wanted) // 2]
        committed = [
            [_describe_item(item.item) for item in given.items] for given in probe.committed
        ]
        assert (
            committed
            == [
                ["user: First.", "function_call", "function_call_output", "assistant: One."],
                ["user: Second.", "assistant: Two."],
            ][: len(wanted) // 2]
        )

    async def test_a_past_is_told_before_the_first_turn(self, open_fixture: OpenFixture) -> None:
        probe = RecordingEngine()
        async with open_fixture(Answer(text="One."), Answer(text="Two.")) as fixture:
            async with fixture.open_thread() as thread:
                await collect_events(thread.run("First."))
            async with fixture.open_thread(thread.id, engine=probe) as thread:
                await collect_events(thread.run("Second."))
            able = {"bootstrap", "assemble-before-prompt"} <= fixture.harness.capabilities
        assert (probe.calls[:2] == ["bootstrap", "assemble"]) is able

    async def test_what_an_engine_recalls_stands_before_the_input(
        self, open_fixture: OpenFixture
    ) -> None:
        async with (
            open_fixture(Answer(text="Nine.")) as fixture,
            fixture.open_thread(engine=RecordingEngine()) as thread,
        ):
            assert turn_end(await collect_events(thread.run("How many stripes?"))).text == "Nine."
            body = fixture.requests[-1].body
            if "assemble-before-prompt" in fixture.harness.capabilities:
                assert body.count(_RECALLED.encode()) == 1
                assert body.index(_RECALLED.encode()) < body.index(b"How many stripes?")

    async def test_a_failed_turn_advances_no_engine(self, open_fixture: OpenFixture) -> None:
        probe = RecordingEngine()
        failure = Answer(error=ScriptedError(status=400, code="invalid", message="that was wrong"))
        async with (
            open_fixture(failure, Answer(text="Fine.")) as fixture,
            fixture.open_thread(engine=probe) as thread,
        ):
            assert turn_end(await collect_events(thread.run("First."))).status == "failed"
            assert probe.committed == []
            assert turn_end(await collect_events(thread.run("Second."))).status == "completed"
        assert {given.number for given in probe.committed} <= {2}

    async def test_an_engine_that_needs_more_is_told_so_and_the_turn_goes_on(
        self, open_fixture: OpenFixture
    ) -> None:
        probe = RecordingEngine()
        needs = Requirement(capabilities=("thread-bootstrap-projection",))
        probe.info = EngineInfo(id="probe", name="Probe", host_requirements={"agent-run": needs})
        async with (
            open_fixture(Answer(text="Fine.")) as fixture,
            fixture.open_thread(engine=probe) as thread,
        ):
            events = await collect_events(thread.run("Go."))
            able = "thread-bootstrap-projection" in fixture.harness.capabilities
        assert turn_end(events).text == "Fine."
        warned = any("does not have" in e.text for e in events if isinstance(e, NoticeRaised))
        assert (warned, bool(probe.committed)) == (not able, able)

    async def test_the_tools_of_the_host_are_those_the_model_gets(
        self, open_fixture: OpenFixture
    ) -> None:
        async with open_fixture(Answer(text="Done.")) as fixture, fixture.open_thread() as thread:
            await collect_events(thread.run("Go."))
            offered = {tool.get("name") for tool in fixture.requests[0].payload["tools"]}
            assert {spec_name(spec) for spec in thread.log.setup.tools} <= offered


def _describe_item(item: Any) -> str:
    if isinstance(item, Message):
        return f"{item.role}: {text_of(item.content)}"
    return str(item.__struct_config__.tag)
