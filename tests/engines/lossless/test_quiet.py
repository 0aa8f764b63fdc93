from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.harness.scenes import hear, open_thread
from treadle.engines.lossless.engine import LosslessEngine
from treadle.engines.lossless.library import Library
from treadle.engines.lossless.sqlite_file import SqliteFile
from treadle.harness.events import Event, StepStarted

from .scenes import Speaker, look, summaries, talk, words


class CountingFile(SqliteFile):
    """A file that counts how often it is used."""

    uses = 0

    async def read(self, job: Any) -> Any:
        self.uses += 1
        return await super().read(job)

    async def write(self, job: Any) -> Any:
        self.uses += 1
        return await super().write(job)


class CountingLibrary(Library):
    """A library that can tell how often it is used."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file = self._file = CountingFile(path)


async def test_steps_and_upkeep_beside_a_summary_leave_the_file_alone(tmp_path: Path):
    library = CountingLibrary(tmp_path / "lossless.db")
    engine: Any = LosslessEngine(library)
    model: Any = Speaker(steps=3)
    uses: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, StepStarted):
            uses.append(library.file.uses)

    facts = "context_window = 200000"
    async with open_thread(tmp_path, model, engine=engine, tools=(look,), facts=facts) as thread:
        for number in range(4):
            await talk(thread, f"{number}: {words(number, 400)}")
        await thread.compact()
        assert len(summaries(thread)) >= 1
        for said in ("Look at src/one.py.", "Look at src/two.py."):
            model.steps = 6
            uses.clear()
            await hear(thread, said, at=note)
            await thread.wait_for_engine(10.0)
            uses.append(library.file.uses)
    assert len(uses) >= 5
    # Within the turn nothing is read; its commit is the only use after it.
    assert [after - before for before, after in pairwise(uses)] == [0] * (len(uses) - 2) + [1]
    await library.close()


async def test_a_turn_that_cannot_be_compacted_is_not_looked_at_again_at_each_step(tmp_path: Path):
    library = CountingLibrary(tmp_path / "lossless.db")
    engine: Any = LosslessEngine(library)
    model: Any = Speaker(steps=6)
    uses: list[int] = []
    shares: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, StepStarted):
            uses.append(library.file.uses)
            shares.append(thread.view.tokens / 20_000)

    facts = "context_window = 20000"
    async with open_thread(tmp_path, model, engine=engine, tools=(look,), facts=facts) as thread:
        await hear(thread, words(0, 12_400), at=note)
    assert len(uses) == 7
    assert 0.75 < shares[0] < shares[-1] < 0.9
    # It is looked at again when it has grown by a good piece.
    assert [after - before for before, after in pairwise(uses[1:])].count(0) >= 2
    await library.close()
