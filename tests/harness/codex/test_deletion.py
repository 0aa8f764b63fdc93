from __future__ import annotations

from pathlib import Path

from treadle.harness.codex.codex_home import CodexHome
from treadle.harness.codex.stored_threads import stored_rollouts
from treadle.store.index import SqliteIndex
from treadle.store.sqlite import SqliteStore
from treadle.testing.script import Answer
from treadle.thread.deletion import delete_thread

from .scenes import open_stage, talk


def files_with(place: Path, *texts: str) -> list[str]:
    """The files below a place that contain one of the texts, or are named so."""
    return [
        path.name
        for path in place.rglob("*")
        if path.is_file()
        and any(text in path.name or text.encode() in path.read_bytes() for text in texts)
    ]


async def delete(home: Path, thread: str) -> list[str]:
    async with await SqliteStore.open(home) as store:
        index = SqliteIndex(store, home)
        try:
            return await delete_thread(thread, store, index, home=home)
        finally:
            await index.close()


async def test_codex_forgets_a_deleted_conversation_and_no_other(tmp_path: Path):
    home = tmp_path / "treadle"
    async with open_stage(tmp_path, Answer(text="A wisteria."), rest="An azalea.") as stage:
        async with stage.thread() as thread:
            await talk(thread, "Which plant is in the courtyard of Pellworm?")
            gone = thread.id
        async with stage.thread() as thread:
            await talk(thread, "Which plant is on the roof of Norderney?")
        assert await delete(home, gone) == []
    codex_home = CodexHome.below(home).directory
    assert files_with(codex_home, "wisteria", "Pellworm") == []
    assert files_with(codex_home, "azalea", "Norderney")
    assert len(list(stored_rollouts(codex_home))) == 1
