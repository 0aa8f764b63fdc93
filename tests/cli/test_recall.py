from __future__ import annotations

import asyncio
import json
import re
import subprocess

import pytest
from inline_snapshot import snapshot

from treadle.cli.commands.recall import answer_at_once
from treadle.core.entries import Draft
from treadle.core.items import Message, OutputText, encode_item
from treadle.engines.lossless.engine import FILE
from treadle.engines.lossless.library import Library
from treadle.engines.lossless.nodes import SummaryNode
from treadle.store import Change, MemoryIndex, MemoryStore, SqliteStore
from treadle.store.contract import Search
from treadle.testing.contracts.drafts import append, user_draft

from .terminal import SCRIPT

ID = re.compile(r"thr_[0-9a-f-]{36}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def tidy(text: str) -> str:
    return TIME.sub("TIME", ID.sub("THREAD", text))


async def _past(treadle) -> tuple[str, str]:
    async with await SqliteStore.open(treadle.home) as store:
        alpha = (await store.create(title="alpha")).id
        beta = (await store.create(title="beta")).id
        answer = Message(role="assistant", content=(OutputText("Postgres, for its extensions"),))
        entries = (
            user_draft("which database should the ledger use?", turn=1),
            Draft(body=encode_item(answer), turn=1, source_id="m-2"),
            user_draft("and the gateway?\nwhat of it?", turn=2),
        )
        await append(store, alpha, Change(entries=entries))
        await append(
            store, beta, Change(entries=(user_draft("the gateway of the ledger is slow"),))
        )
        return alpha, beta


@pytest.fixture
def past(treadle) -> tuple[str, str]:
    return asyncio.run(_past(treadle))


@pytest.mark.usefixtures("past")
def test_hits_are_shown_best_first_with_their_ids(treadle):
    assert tidy(treadle("recall", "ledger database").text) == snapshot("""\
THREAD:1 · user · TIME · turn 1
  which database should the ledger use?

THREAD:1 · user · TIME
  the gateway of the ledger is slow

""")
    assert treadle("recall", "nowhere").text == (
        "nothing was found for 'nowhere'; try other words, or --mode substring\n"
    )


def test_json_has_what_programs_need(treadle, past):
    alpha, _ = past
    found = treadle("recall", "Postgres", "--json").json
    (item,) = found["items"]
    assert found == {"items": [item], "note": "", "index": found["index"]}
    assert found["index"]["with_words"] == found["index"]["entries"] > 0
    assert item == {
        "id": f"{alpha}:2",
        "source_id": "m-2",
        "thread": alpha,
        "score": item["score"],
        "snippet": "Postgres, for its extensions",
        "seq": 2,
        "turn": 1,
        "time": item["time"],
        "role": "assistant",
    }


def ids(done) -> list[str]:
    return [item["id"] for item in done.json["items"]]


def test_a_search_is_narrowed_by_thread_role_time_and_limit(treadle, past):
    alpha, beta = past
    asked = {
        ("--thread", beta): [f"{beta}:1"],
        ("--thread", "beta"): [f"{beta}:1"],
        ("--thread", beta[-8:], "--thread", "alpha"): [f"{alpha}:3", f"{beta}:1"],
        ("--role", "assistant"): [],
        ("--tool", "exec_command"): [],
        ("--since", "1h", "--limit", "1"): [f"{alpha}:3"],
        ("--until", "2020-01-01"): [],
        ("--since", "2020-01-01T00:00+02:00", "--until", "2999-01-01"): [
            f"{alpha}:3",
            f"{beta}:1",
        ],
    }
    found = {options: ids(treadle("recall", "gateway", *options, "--json")) for options in asked}
    assert found == asked
    assert treadle.refused("recall", "x", "--thread", "gamma") == (
        "treadle: no thread 'gamma'; `treadle threads` lists them, `treadle new` creates one\n"
    )
    assert "is not a time; use 2026-11-15" in treadle.refused(
        "recall", "x", "--since", "soon", code=2
    )


@pytest.mark.usefixtures("past")
def test_a_hit_is_explained(treadle):
    asked = ("recall", "ledger database", "--why")
    line = treadle(*asked).text.splitlines()[2]
    assert re.fullmatch(
        r"  because of databas \d\.\d \+ ledger \d\.\d .*, role times 1\.80 = \d+\.\d", line
    )
    why = treadle(*asked, "--json").json["items"][0]["why"]
    assert why["words"].keys() == {"ledger", "databas"}
    assert why["factors"]["role"] == 1.8
    assert "why" not in treadle(*asked[:2], "--json").json["items"][0]


def test_results_may_be_passages_of_their_own(treadle, past):
    alpha, beta = past
    plain = treadle("recall", "ledger Postgres gateway", "--json")
    assert set(ids(plain)) == {f"{alpha}:1", f"{alpha}:2", f"{alpha}:3", f"{beta}:1"}
    passages = treadle("recall", "ledger Postgres gateway", "--passages", "--json").json["items"]
    assert {item["thread"] for item in passages} == {alpha, beta}
    assert len(passages) == 2


def test_text_as_it_stands_and_regular_expressions_are_found(treadle, past):
    alpha, beta = past
    assert ids(treadle("recall", "OSTGRES, F", "--mode", "substring", "--json")) == [f"{alpha}:2"]
    assert ids(treadle("recall", "gateway( of|.$)", "--mode", "regex", "--json")) == [
        f"{beta}:1",
        f"{alpha}:3",
    ]
    assert treadle.refused("recall", "(?=a)", "--mode", "regex") == (
        "treadle: the regular expression '(?=a)' looks ahead or behind, which is not known here; "
        "search for less\n"
    )


def test_words_that_name_a_command_can_be_searched_for(treadle, past):
    alpha, _ = past
    assert ids(treadle("recall", "search", "use", "--json")) == [f"{alpha}:1"]
    assert treadle("recall", "search", "expand").text.startswith("nothing was found")
    assert "give either a QUERY or --batch;" in treadle.refused("recall", code=2)
    assert "give either a QUERY or --batch;" in treadle.refused("recall", "x", "--batch", code=2)


def test_a_batch_answers_every_line_in_order(treadle, past):
    alpha, beta = past
    asked = [
        b'{"id": "q1", "query": "Postgres"}',
        b"nonsense",
        b'{"id": 2, "query": "gateway", "thread": "beta", "limit": 5}',
        b'{"id": [3], "query": 3}',
        b'{"query": "gateway", "limit": 1}',
        b"",
        b'{"id": "q6", "query": "x", "thread": "gamma"}',
        b'{"id": "q7", "query": "(", "mode": "regex"}',
        b'{"id": "q8", "query": "\xff"}',
        b'{"id": "q9", "query": "Postgres", "future": true}',
        b'{"id": "q10", "query": "Postgres", "limit": 0}',
    ]
    answers = treadle("recall", "--batch", stdin=b"\n".join(asked)).json_lines
    told = [
        (line["id"], line.get("error") or [item["id"] for item in line["items"]])
        for line in answers
    ]
    assert told == [
        ("q1", [f"{alpha}:2"]),
        (None, "the line cannot be used: JSON is malformed: invalid character (byte 4)"),
        (2, [f"{beta}:1"]),
        ([3], "the line cannot be used: Expected `str`, got `int` - at `$.query`"),
        (None, [f"{alpha}:3"]),
        ("q6", "no thread 'gamma'; `treadle threads` lists them, `treadle new` creates one"),
        ("q7", "the regular expression '(' has a '(' that is not closed"),
        told[7],
        ("q9", [f"{alpha}:2"]),
        ("q10", "the line cannot be used: Expected `int` >= 1 - at `$.limit`"),
    ]
    assert [line["items"] for line in answers if "error" in line] == [[]] * 6
    assert "the line cannot be used" in told[7][1]
    assert set(answers[0]["items"][0]) == {"id", "source_id", "thread", "score", "snippet"}


def test_a_batch_answers_at_once(treadle, past):
    alpha, _ = past
    command = [str(SCRIPT), "recall", "--batch"]
    with subprocess.Popen(
        command,
        cwd=treadle.project,
        env=treadle.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for n in range(3):
            process.stdin.write(b'{"id": %d, "query": "Postgres"}\n' % n)
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert (answer["id"], answer["items"][0]["id"]) == (n, f"{alpha}:2")
        process.stdin.close()
        assert process.stdout.read() == b""


def test_an_entry_is_shown_whole_with_what_stands_around_it(treadle, past):
    alpha, _ = past
    assert tidy(treadle("recall", "show", f"{alpha}:2", "--context", "1").text) == snapshot("""\
THREAD:1 · user · TIME · turn 1
  which database should the ledger use?

» THREAD:2 · assistant · TIME · turn 1
  Postgres, for its extensions

THREAD:3 · user · TIME · turn 2
  and the gateway?
  what of it?

""")
    shown = treadle("recall", "show", "alpha:2", "--context", "0", "--json").json
    assert [entry["id"] for entry in shown["entries"]] == [f"{alpha}:2"]
    assert treadle.refused("recall", "show", "alpha:9") == (
        "treadle: no entry 'alpha:9'; the thread has entries 1 to 3\n"
    )
    assert "is not the id of an entry" in treadle.refused("recall", "show", "nonsense", code=2)


def test_an_entry_that_says_nothing_tells_where_to_look(treadle, worked):
    silent = treadle("recall", "show", f"{worked}:1", "--context", "0").text
    assert silent == f"{worked}:1 has no text; `treadle show {worked} --all` prints it\n"


def test_ranges_are_opened_up_to_a_number_of_tokens(treadle, past):
    alpha, beta = past
    opened = treadle("recall", "expand", "alpha:1-3", "beta:1", "--tokens", "18", "--json").json
    assert [entry["id"] for entry in opened["entries"]] == [f"{alpha}:1", f"{alpha}:2"]
    assert opened["rest"] == [f"{alpha}:3", f"{beta}:1"]
    assert treadle("recall", "expand", "alpha:2-3", "--tokens", "8").lines[-1] == (
        f"more: treadle recall expand {alpha}:3"
    )
    rest = treadle("recall", "expand", *opened["rest"], "--json").json
    assert [entry["id"] for entry in rest["entries"]] == opened["rest"]
    assert rest["rest"] == []


def test_an_entry_too_large_for_the_room_is_cut(treadle, past):
    alpha, _ = past
    (entry,) = treadle("recall", "expand", "alpha:1", "--tokens", "3", "--json").json["entries"]
    assert (entry["id"], "tokens truncated" in entry["text"]) == (f"{alpha}:1", True)


def test_a_summary_is_opened_to_the_entries_it_stands_for(treadle, past):
    alpha, _ = past
    path = treadle.home / "engines" / "lossless" / FILE
    assert treadle.refused("recall", "expand", "sum_1") == (
        "treadle: no summary 'sum_1'; the lossless engine has written none in this home\n"
    )
    node = SummaryNode(
        id="sum_1",
        key="k",
        thread=alpha,
        first=1,
        last=3,
        spans=((1, 1), (3, 3)),
        text="",
        body=b"",
    )

    async def keep() -> None:
        library = Library(path)
        await library.add_node(node)
        await library.close()

    path.parent.mkdir(parents=True)
    asyncio.run(keep())
    opened = treadle("recall", "expand", "sum_1", "--json").json
    assert [entry["id"] for entry in opened["entries"]] == [f"{alpha}:1", f"{alpha}:3"]
    assert "no summary 'sum_2'" in treadle.refused("recall", "expand", "sum_2")


def test_everything_is_indexed_before_where_that_is_asked_for(treadle, past):
    alpha, _ = past
    known = treadle("doctor", "--json").json["checks"]
    assert [each["detail"][:5] for each in known if each["name"] == "recall"] == ["0 of "]
    told = treadle("recall", "--index").out
    assert b"can be found by words, all" in told
    asked = ("recall", "which database was taken", "--index", "--why", "--json")
    first, *_ = treadle(*asked).json["items"]
    assert first["why"]["meaning"] == 0, "of so few nobody can tell what is usual"
    assert first["thread"] == alpha


def test_a_home_without_threads_has_nothing_to_recall(treadle):
    nothing = {"entries": 0, "with_words": 0, "with_vectors": 0}
    assert treadle("recall", "anything", "--json").json == {
        "items": [],
        "note": "",
        "index": nothing,
    }
    assert treadle("recall", "--batch", stdin=b'{"id":1,"query":"x"}').json == {
        "id": 1,
        "items": [],
    }
    assert list(treadle.home.iterdir()) == []


@pytest.mark.usefixtures("past")
def test_recalling_into_a_pipe_needs_neither_rich_nor_an_engine(treadle):
    code = f"""
import sys
from treadle.cli.app import run
assert run(["--home", {str(treadle.home)!r}, "recall", "ledger"]) == 0
heavy = ("rich", "treadle.engines", "treadle.models")
assert not [name for name in sys.modules if name.startswith(heavy)]
"""
    done = subprocess.run(
        [SCRIPT.with_name("python"), "-c", code], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_in_a_terminal_the_newest_entries_answer_before_all_are_indexed(capsys):
    store = MemoryStore()
    old, new = (await store.create()).id, (await store.create()).id
    said = user_draft("the heron fishes at dawn, says the heron book")
    await append(store, old, Change(entries=(said,)))
    newest = [*["of ducks"] * 1_100, "a heron was seen"]
    await append(store, new, Change(entries=tuple(map(user_draft, newest[::-1]))))
    index = MemoryIndex(store)
    asked = Search("heron", index_most=1)
    await answer_at_once(index, asked)
    told = capsys.readouterr().out
    first, note, older = told.partition("this is from the newest entries")
    assert f"{new}:1" in first
    assert old not in first
    assert note
    assert f"{old}:1" in older
    assert f"{new}:1" not in older, "it stands above already"
    await answer_at_once(index, asked)
    assert note not in capsys.readouterr().out
    await index.close()
