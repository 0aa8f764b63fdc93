from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from treadle.cli.repl.choose import Choice, choose
from treadle.cli.repl.fitting import fit
from treadle.cli.repl.picker import age, pick_thread
from treadle.store.memory import MemoryStore
from treadle.thread.thread import Thread

ROWS = [Choice("apple", "red"), Choice("pear", "green"), Choice("plum", "red and blue")]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("\r", 0),
        ("\x1b[B\x1b[B\x1b[A\r", 1),
        ("red blue\r", 2),
        ("nothing\r\x15plu\r", 2),
        ("\x03", None),
        ("\x1b", None),
    ],
)
async def test_a_row_is_chosen_by_arrows_or_words(keys, chosen):
    with create_pipe_input() as keyboard:
        keyboard.send_text(keys)
        assert await choose("which?", ROWS, keyboard=keyboard, output=DummyOutput()) == chosen


@pytest.mark.parametrize(("typed", "chosen"), [("2\r", 1), ("9\r3\r", 2), ("\r", None)])
async def test_plain_rows_are_chosen_by_number(typed, chosen):
    with create_pipe_input() as keyboard:
        keyboard.send_text(typed)
        taken = await choose("which?", ROWS, plain=True, keyboard=keyboard, output=DummyOutput())
        assert taken == chosen


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [("short", 9, "short"), ("rather long", 6, "rathe…"), ("日本語", 5, "日本…"), ("any", 0, "")],
)
def test_text_is_cut_by_columns(text, columns, shown):
    assert fit(text, columns) == shown


@pytest.mark.parametrize(
    ("seconds", "told"), [(5, "just now"), (90, "1 min ago"), (7200, "2 h ago"), (9e5, "1 w ago")]
)
def test_ages_are_rough(seconds, told):
    assert age(seconds) == told


async def test_threads_of_the_directory_come_first(tmp_path):
    store = MemoryStore()
    places = {"elsewhere": tmp_path / "other", "here": tmp_path / "own"}
    for words, place in places.items():
        place.mkdir()
        async with Thread.open(
            model="openai:gpt-5.5", store=store, cwd=place, home=tmp_path
        ) as thread:
            await thread.log.turns.admit(f"the one {words}")
    ids = {Path(info.cwd).name: info.id for info in await store.threads()}
    with create_pipe_input() as keyboard, create_app_session(keyboard, DummyOutput()):
        keyboard.send_text("\r")
        assert await pick_thread(store, places["here"]) == ids["own"]
        keyboard.send_text("the one elsew\r")
        assert await pick_thread(store, places["here"]) == ids["other"]
        assert await pick_thread(MemoryStore(), tmp_path) is None
