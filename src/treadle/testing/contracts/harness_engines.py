"""The contract of a harness: how it serves a context engine."""
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
from ..script import Answer, Failure
from .harness_stage import calling, ended
from .harness_turns import HarnessTurns, Staged, heard

__all__ = ["HarnessEngines"]

_RECALLED = "Zebras have stripes."


_INFO = EngineInfo(
    id="probe",
    name="Probe",
    version="1",
    host_requirements={"agent-run": Requirement(capabilities=("assemble-before-prompt",))},
)


@dataclass(slots=True)
class Probe(LinearEngine):
    """An engine that notes what it is asked, and recalls one thing."""

    info: EngineInfo = _INFO
    calls: list[str] = field(default_factory=list)
    committed: list[CommitParams] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Note that there is a past."""
        self.calls.append("bootstrap")
        self.told.append(given.settings)
        return BootstrapResult(bootstrapped=True)

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """Recall something right before the present input."""
        self.calls.append("assemble")
        self.told.append(given.settings)
        now = len(given.items) if given.pre_prompt_count is None else given.pre_prompt_count
        before, after = given.items[:now], given.items[now:]
        return AssembleResult(items=(*before, recall_item(_RECALLED), *after))

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        """Take in a turn."""
        self.calls.append("commit_turn")
        self.committed.append(given)
        return CommitResult("committed")


class HarnessEngines(HarnessTurns):
    """What every harness must do for an engine, as far as it says that it can."""

    async def test_an_engine_lives_through_its_turns(self, staged: Staged) -> None:
        probe = Probe()
        answers = (calling("look"), Answer(text="One."), Answer(text="Two."))
        async with staged(*answers) as stage:
            async with stage.opened(engine=probe) as thread:
                await heard(thread.run("First."))
                await heard(thread.run("Second."))
            able = stage.harness.capabilities
            name = stage.harness.name
        wanted = ["assemble", "commit_turn"] * 2 if "assemble-before-prompt" in able else []
        assert [call for call in probe.calls if call != "bootstrap"] == wanted
        assert {settings.harness for settings in probe.told if settings} <= {name}
        assert [given.number for given in probe.committed] == [1, 2][: len(wanted) // 2]
        spoken = [[_shown(item.item) for item in given.items] for given in probe.committed]
        assert (
            spoken
            == [
                ["user: First.", "function_call", "function_call_output", "assistant: One."],
                ["user: Second.", "assistant: Two."],
            ][: len(wanted) // 2]
        )

    async def test_a_past_is_told_before_the_first_turn(self, staged: Staged) -> None:
        probe = Probe()
        async with staged(Answer(text="One."), Answer(text="Two.")) as stage:
            async with stage.opened() as thread:
                await heard(thread.run("First."))
            async with stage.opened(thread.id, engine=probe) as thread:
                await heard(thread.run("Second."))
            able = {"bootstrap", "assemble-before-prompt"} <= stage.harness.capabilities
        assert (probe.calls[:2] == ["bootstrap", "assemble"]) is able

    async def test_what_an_engine_recalls_stands_before_the_input(self, staged: Staged) -> None:
        async with (
            staged(Answer(text="Nine.")) as stage,
            stage.opened(engine=Probe()) as thread,
        ):
            assert ended(await heard(thread.run("How many stripes?"))).text == "Nine."
            body = stage.requests[-1].body
            if "assemble-before-prompt" in stage.harness.capabilities:
                assert body.count(_RECALLED.encode()) == 1
                assert body.index(_RECALLED.encode()) < body.index(b"How many stripes?")

    async def test_a_failed_turn_advances_no_engine(self, staged: Staged) -> None:
        probe = Probe()
        failure = Answer(error=Failure(status=400, code="invalid", message="that was wrong"))
        async with (
            staged(failure, Answer(text="Fine.")) as stage,
            stage.opened(engine=probe) as thread,
        ):
            assert ended(await heard(thread.run("First."))).status == "failed"
            assert probe.committed == []
            assert ended(await heard(thread.run("Second."))).status == "completed"
        assert {given.number for given in probe.committed} <= {2}

    async def test_an_engine_that_needs_more_is_told_so_and_the_turn_goes_on(
        self, staged: Staged
    ) -> None:
        probe = Probe()
        needs = Requirement(capabilities=("thread-bootstrap-projection",))
        probe.info = EngineInfo(id="probe", name="Probe", host_requirements={"agent-run": needs})
        async with staged(Answer(text="Fine.")) as stage, stage.opened(engine=probe) as thread:
            events = await heard(thread.run("Go."))
            able = "thread-bootstrap-projection" in stage.harness.capabilities
        assert ended(events).text == "Fine."
        told = any("does not have" in e.text for e in events if isinstance(e, NoticeRaised))
        assert (told, bool(probe.committed)) == (not able, able)

    async def test_the_tools_of_the_host_are_those_the_model_gets(self, staged: Staged) -> None:
        async with staged(Answer(text="Done.")) as stage, stage.opened() as thread:
            await heard(thread.run("Go."))
            offered = {tool.get("name") for tool in stage.requests[0].payload["tools"]}
            assert {spec_name(spec) for spec in thread.log.setup.tools} <= offered


def _shown(item: Any) -> str:
    if isinstance(item, Message):
        return f"{item.role}: {text_of(item.content)}"
    return str(item.__struct_config__.tag)
