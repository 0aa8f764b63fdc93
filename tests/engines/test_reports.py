from __future__ import annotations

import pytest

from tests.engines.scenes import (
    Booting,
    Committing,
    Probe,
    Tidying,
    past,
    reports,
)
from tests.harness.scenes import hear, open_thread, scripted
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    BootstrapResult,
    ContextItem,
)
from treadle.harness.events import EngineReported
from treadle.testing.script import Answer


class Whole(Booting, Tidying, Committing):
    """Has a part in every moment of a turn."""


SECRET = "the rosebud of the prompt"


class Talkative(Whole):
    """Fails, and says what it has seen while it does."""

    def __init__(self) -> None:
        super().__init__()
        for call_name in ("bootstrap", "maintain", "assemble", "commit_turn"):
            self.answers[call_name] = ValueError(f"cannot read {SECRET!r}")


async def test_reports_hold_counts_and_names_and_never_a_word_of_the_conversation(tmp_path):
    thread = await past(tmp_path, SECRET)
    told = []
    for engine in (Whole(bootstrap=BootstrapResult(bootstrapped=True, reason=SECRET)), Talkative()):
        model = scripted(Answer(text=SECRET), Answer(text=SECRET), Answer(text=SECRET))
        async with open_thread(tmp_path, model, thread=thread, engine=engine) as again:
            told += reports(await hear(again, SECRET))
            told += reports(await hear(again, SECRET))
    assert {report.action for report in told} >= {
        "bootstrap.completed",
        "bootstrap.failed",
        "assemble.applied",
        "assemble.failed",
        "finalise.failed",
        "maintenance.run",
    }
    assert [report for report in told if "rosebud" in str(report)] == []


@pytest.mark.parametrize("odd", [{"id": SECRET, "body": b"{}"}, {"body": SECRET.encode()}])
async def test_reports_of_nonsense_hold_no_word_that_an_engine_chose(tmp_path, odd):
    def prose(given: AssembleParams) -> AssembleResult:
        return AssembleResult(items=(*given.items, ContextItem(**odd)))

    model = scripted(Answer(text="a"))
    async with open_thread(tmp_path, model, engine=Probe(assemble=prose)) as thread:
        told = reports(await hear(thread, SECRET))
    assert [report.action for report in told] == ["assemble.failed", "finalise.completed"]
    assert [report for report in told if "rosebud" in str(report)] == []


async def test_a_report_says_how_much_was_assembled(tmp_path):
    engine = Committing(
        assemble=lambda given: AssembleResult(
            items=given.items, estimated_tokens=77, system_prompt_addition="Ask memory."
        )
    )
    async with open_thread(tmp_path, scripted(Answer(text="a")), engine=engine) as thread:
        heard = await hear(thread, "first")
    assert reports(heard) == [
        EngineReported(
            action="assemble.applied",
            thread=thread.id,
            turn=1,
            engine="probe",
            items=1,
            tokens=77,
            has_addition=True,
        ),
        EngineReported(
            action="finalise.completed", thread=thread.id, turn=1, engine="probe", items=2
        ),
    ]
