from __future__ import annotations

import tomllib
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import treadle_retrieval
from inline_snapshot import snapshot

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from treadle import Thread
from treadle.engines.loading import EngineContext, EngineRegistry
from treadle.engines.reports import EngineReported
from treadle.harness.events import StepStarted, ToolFinished
from treadle.testing import layout
from treadle.testing.conversations import ANNOUNCED, ANNOUNCEMENT
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel

LONG = "It sleeps standing." + " So do horses, if they must." * 100
PROJECT = Path(treadle_retrieval.__file__).parents[2] / "pyproject.toml"


def talking(*answers: Answer) -> ScriptedModel:
    """Answers what the test wants, and else sums up or says yes."""
    return scripted(
        *answers,
        Answer(when="sleep?", times=0, text=LONG),
        Answer(times=0, text="They spoke of sleep."),
    )


def remembering(
    place: Path, model: ScriptedModel, thread: str | None = None, **options: Any
) -> AbstractAsyncContextManager[Thread]:
    engines = EngineRegistry()
    engines.register("retrieval", treadle_retrieval.engine)
    return open_thread(place, model, thread=thread, engine="retrieval", engines=engines, **options)


def recalls(model: ScriptedModel) -> int:
    """How many recalled items the newest request shows."""
    return model.requests[-1].body.count(b"</recalled_memory>")


async def test_a_request_about_compacted_turns_brings_them_back(tmp_path: Path):
    model = talking()
    async with remembering(tmp_path, model) as thread:
        await hear(thread, "How does a zebra sleep?")
        await thread.compact()
        await hear(thread, "And herons?")
        asked = await hear(thread, "Was that about the zebra true?")
        assert layout(thread) == snapshot("""\
00 developer  <permissions> <guidance>
01 user       <environment>
02 user       How does a zebra sleep?
03 user       The earlier part of this conversation was left out to make …
04 user       And herons?
05 assistant  It sleeps standing. So do horses, if they must. So do horse…
06 user       <recall>
07 user       Was that about the zebra true?
08 assistant  It sleeps standing. So do horses, if they must. So do horse…
""")
    assert [step.reason for step in of(asked, StepStarted)] == [None]
    assert "turn 1, assistant: It sleeps standing." in model.requests[-1].body.decode()


async def test_what_was_recalled_leaves_with_the_next_epoch(tmp_path: Path):
    model = talking()
    async with remembering(tmp_path, model) as thread:
        await hear(thread, "How does a zebra sleep?")
        await thread.compact()
        await hear(thread, "Was that about the zebra true?")
        assert recalls(model) == 1
        await hear(thread, "Good.")
        assert recalls(model) == 1
        await thread.compact()
        await hear(thread, "Thanks.")
        assert recalls(model) == 0


async def test_the_model_can_look_for_more(tmp_path: Path):
    model = talking(Answer(when="Look", calls=(call("recall", query="zebra"),)))
    async with remembering(tmp_path, model) as thread:
        await hear(thread, "How does a zebra sleep?")
        (found,) = of(await hear(thread, "Look it up."), ToolFinished)
    assert found.success
    assert found.output.startswith(
        "turn 1, user: How does a zebra sleep?\nturn 1, assistant: It sleeps standing."
    )


async def test_an_announcement_is_neither_looked_up_nor_kept(tmp_path: Path):
    model = talking()
    async with remembering(tmp_path, model) as thread:
        await hear(thread, "How does a zebra sleep?")
        await thread.compact()
        await hear(
            thread,
            "The task is done: the zebra was counted.",
            provenance=ANNOUNCED,
            events=(ANNOUNCEMENT,),
        )
        assert recalls(model) == 0
        await thread.reset()
        await hear(thread, "Who was counted, the zebra?")
        assert recalls(model) == 0


async def test_what_was_rolled_back_is_not_brought_back(tmp_path: Path):
    model = talking()
    async with remembering(tmp_path, model) as thread:
        await hear(thread, "How does a heron sleep?")
        await hear(thread, "How does a zebra sleep?")
        await thread.rollback()
        await thread.compact()
        await hear(thread, "Was that about the zebra true?")
        assert recalls(model) == 0
        await hear(thread, "Was that about the heron true?")
        assert recalls(model) == 1


async def test_what_was_reset_stays_forgotten_when_the_thread_is_opened_again(tmp_path: Path):
    async with remembering(tmp_path, talking()) as thread:
        await hear(thread, "How does a zebra sleep?")
        await thread.reset()
        await hear(thread, "How does a heron sleep?")
        await thread.compact()
    model = talking()
    async with remembering(tmp_path, model, thread.id) as thread:
        await hear(thread, "Was that about the zebra true?")
        assert recalls(model) == 0
        await hear(thread, "Was that about the heron true?")
        assert recalls(model) == 1


async def test_what_was_rolled_back_without_it_is_not_brought_back(tmp_path: Path):
    async with remembering(tmp_path, talking()) as thread:
        await hear(thread, "How does a heron sleep?")
        await hear(thread, "How does a zebra sleep?")
    async with open_thread(tmp_path, talking(), thread=thread.id) as thread:
        await thread.rollback()
    model = talking()
    async with remembering(tmp_path, model, thread.id) as thread:
        await thread.compact()
        await hear(thread, "Was that about the zebra true?")
        assert recalls(model) == 0
        await hear(thread, "Was that about the heron true?")
        assert recalls(model) == 1


async def test_a_thread_that_began_without_it_is_caught_up_with(tmp_path: Path):
    model = talking()
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "How does a zebra sleep?")
        await thread.compact()
    model = talking()
    async with remembering(tmp_path, model, thread.id) as thread:
        heard = await hear(thread, "Was that about the zebra true?")
    assert recalls(model) == 1
    assert [event.action for event in of(heard, EngineReported)] == [
        "bootstrap.started",
        "bootstrap.completed",
        "assemble.applied",
        "finalise.completed",
    ]


async def test_a_fork_remembers_what_it_shares(tmp_path: Path):
    model = talking()
    async with remembering(tmp_path, model) as thread:
        await hear(thread, "How does a zebra sleep?")
        fork = await thread.fork()
        await hear(thread, "How does a quagga sleep?")
    model = talking()
    async with remembering(tmp_path, model, fork) as thread:
        await thread.compact()
        await hear(thread, "Was that about the zebra true?")
        assert recalls(model) == 1
        await hear(thread, "Tell me about the quagga.")
        assert b"quagga sleep" not in model.requests[-1].body


async def test_a_turn_ends_well_when_its_file_is_no_database(tmp_path: Path):
    file = tmp_path / "home" / "engines" / "retrieval" / "memory.db"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no database at all, but long enough to be looked at" * 20)
    model = talking()
    async with remembering(tmp_path, model) as thread:
        assert last(await hear(thread, "How does a zebra sleep?")).status == "completed"
        file.unlink()
        assert last(await hear(thread, "And a heron?")).status == "completed"
        await thread.compact()
        await hear(thread, "Was that about the zebra true?")
    assert recalls(model) == 1


async def test_its_package_offers_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project = tomllib.loads(PROJECT.read_text())["project"]
    metadata = tmp_path / f"treadle_retrieval-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {project['name']}\n")
    points = project["entry-points"]["treadle.engines"]
    lines = [f"{name} = {target}" for name, target in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[treadle.engines]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = await EngineRegistry().resolve("retrieval", EngineContext(home=tmp_path))
    assert (found.owner, found.problem) == ("treadle-retrieval", None)
    assert isinstance(found.engine, treadle_retrieval.RetrievalEngine)
    assert found.engine.info.version == project["version"]
