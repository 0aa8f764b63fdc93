from __future__ import annotations

import re

from inline_snapshot import snapshot

from treadle.cli.command_options import MOST_PIPED

ID = re.compile(r"thr_[0-9a-f-]{36}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def tidy(text: str) -> str:
    return TIME.sub("TIME", ID.sub("THREAD", text))


def test_a_new_thread_says_its_id_and_is_listed(treadle):
    made = treadle("new", "fix the bug\nand the  other one").text.strip()
    assert ID.fullmatch(made)
    titled = treadle("new", "--title", "an idea", "--json").json
    listed = treadle("threads", "--json").json
    assert [thread["id"] for thread in listed] == [titled["id"], made]
    assert [thread["name"] for thread in listed] == ["an idea", "fix the bug and the other one"]
    nothing = {"amounts": {}, "requests": 0, "unpriced": 0}
    assert listed[0] == {**titled, "name": "an idea", "bytes": 0, "cost": nothing}
    assert titled == {
        "id": titled["id"],
        "root": titled["id"],
        "parent": None,
        "cut": 0,
        "cwd": str(treadle.project),
        "title": "an idea",
        "created": titled["created"],
        "updated": titled["updated"],
        "turns": 0,
        "entries": 0,
    }


def test_the_list_is_a_table_with_stable_columns(treadle):
    treadle("new", "fix the bug")
    treadle("new", "--title", "an idea")
    header, *rows = tidy(treadle("threads").text).splitlines()
    assert header.split() == [
        *("THREAD", "TITLE", "TURNS", "ENTRIES", "SIZE", "COST", "UPDATED", "FORKED", "FROM"),
    ]
    assert [re.sub(r"\d+ KB", "SIZE", row) for row in rows] == snapshot(
        [
            "THREAD  an idea          0        0      0        TIME",
            "THREAD  fix the bug      1        5  SIZE        TIME",
        ]
    )


def test_a_short_list_says_that_more_exist(treadle):
    for n in range(3):
        treadle("new", "--title", f"{n}")
    done = treadle("threads", "--limit", "2")
    assert (len(done.lines), done.err) == (3, "more exist; show them with --limit 10\n")
    assert treadle("threads", "--limit", "3").err == ""


def test_the_first_input_can_come_from_a_pipe(treadle):
    treadle("new", "-", stdin=b"from a pipe\n")
    assert treadle("threads", "--json").json[0]["name"] == "from a pipe"
    said = treadle.refused("new", "-", stdin=b"ab\xff")
    assert said == "treadle: standard input is not UTF-8 at byte 2; convert it first\n"
    said = treadle.refused("new", "-", stdin=b"a" * (MOST_PIPED + 1))
    assert "longer than 4,194,304 bytes; write it to a file" in said


def test_an_empty_input_makes_no_thread(treadle):
    said = treadle.refused("new", "  ")
    assert said == "treadle: the input is empty; give it a text or an image\n"
    assert treadle("threads", "--json").json == []


def test_the_model_of_a_thread_is_the_one_asked_for(treadle):
    treadle("new", "hello", "--model", "anthropic:claude-opus-4-1")
    assert b'"model":"claude-opus-4-1"' in treadle("prompt", "--thread", "last", "--json").out
    treadle.environ["TREADLE_MODEL"] = "openai:gpt-5.4"
    treadle("new", "hello")
    assert b'"model":"gpt-5.4"' in treadle("prompt", "--thread", "last", "--json").out
    assert "--model needs TEXT" in treadle.refused("new", "--model", "gpt-5.4", code=2)


def test_search_finds_words_and_shows_where(treadle, worked):
    (hit,) = treadle("threads", "--search", "changelog write", "--json").json
    assert (hit["thread"], hit["snippet"]) == (worked, "write the changelog")
    assert tidy(treadle("threads", "--search", "changelog").text) == snapshot("""\
THREAD                                    ENTRY  TEXT
THREAD     19  write the changelog
""")
    assert treadle("threads", "--search", 'no"where').text == (
        "nothing contains all of 'no\"where'; try fewer words\n"
    )


def test_a_home_without_threads_says_how_to_make_one(treadle):
    assert treadle("threads").text == snapshot(
        'no threads yet; make one with `treadle new "your first input"`\n'
    )
    assert list(treadle.home.iterdir()) == []


def test_threads_are_named_by_beginning_end_or_last(treadle):
    first = treadle("new", "one").text.strip()
    second = treadle("new", "two").text.strip()
    for name in ("last", second, second[-8:], second[4:]):
        assert treadle("fork", name, "--json").json["parent"] == second
        treadle("delete", "last", "--yes")
    said = treadle.refused("show", "thr_")
    assert said.startswith("treadle: 'thr_' matches 2 threads; type more of the id:\n")
    assert f"  {first}  one\n" in said
    assert f"  {second}  two\n" in said
    assert treadle.refused("show", "nobody") == (
        "treadle: no thread 'nobody'; `treadle threads` lists them, `treadle new` creates one\n"
    )
    assert treadle.refused("show", "") == (
        "treadle: no thread ''; `treadle threads` lists them, `treadle new` creates one\n"
    )


def test_a_fork_shares_the_beginning(treadle, worked):
    fork = treadle("fork", "last", "--title", "another way", "--json").json
    assert (fork["parent"], fork["root"], fork["title"]) == (worked, worked, "another way")
    early = treadle("fork", worked, "--at", "7")
    assert early.err == "entry 7 is inside a step; the fork shares up to 6\n"
    assert treadle("show", early.text.strip(), "--json").json_lines == [
        line for line in treadle("show", worked, "--json").json_lines if line["seq"] <= 6
    ]
    assert treadle("threads").lines[1].endswith(f"{worked} at 6")
    assert "has no entry 999; choose one from 0 to" in treadle.refused(
        "fork", worked, "--at", "999"
    )


def test_a_rollback_hides_turns_and_says_which_entries(treadle, worked):
    before = treadle("prompt", "--thread", "last", "--json").out
    treadle("new", "elsewhere")
    rolled = treadle("rewind", worked, "--json").json
    assert rolled["thread"] == worked
    assert "Written." not in treadle("show", worked).text
    assert treadle("prompt", "--thread", worked, "--json").out != before
    assert (
        treadle("rewind", worked, "--to", "5").text
        == f"entries 6 to {rolled['entry']} are hidden\n"
    )
    assert treadle("show", worked).text.count("user · ") == 1
    assert "has 1 turns that can be rolled back, not 7" in treadle.refused("rewind", worked, "7")
    assert "either TURNS or --to" in treadle.refused("rewind", worked, "1", "--to", "5", code=2)
    assert "0 is not in the range" in treadle.refused("rewind", worked, "0", code=2)


def test_an_empty_thread_has_nothing_to_roll_back(treadle):
    treadle("new")
    assert "has 0 turns that can be rolled back, not 1" in treadle.refused("rewind", "last")


def test_a_deleted_thread_is_gone(treadle, worked):
    kept = treadle("new", "--title", "keep").text.strip()
    treadle("threads", "--search", "changelog")
    assert "use --yes to delete the thread" in treadle.refused("delete", worked, code=2)
    assert treadle("delete", worked, "--yes").text == f"deleted {worked}\n"
    assert [thread["id"] for thread in treadle("threads", "--json").json] == [kept]
    assert treadle("threads", "--search", "changelog", "--json").json == []
    assert treadle("delete", kept, "-y", "--json").json == {"deleted": kept}


def test_old_threads_are_pruned_after_a_yes(treadle, worked):
    fork = treadle("fork", worked).text.strip()
    listed = treadle("prune", "--older-than", "0s", "--dry-run", "--json").json
    assert {each["id"] for each in listed} == {worked, fork}
    assert all(each["bytes"] > 0 for each in listed if each["id"] == worked)
    assert {each["name"] for each in listed} == {"make the test pass"}
    assert "make the test pass" in treadle("prune", "--older-than", "0s", "--dry-run").text
    assert "2 threads would be deleted" in treadle.refused("prune", "--older-than", "0s", code=2)
    assert "use 90d, 36h or 30s" in treadle.refused("prune", "--older-than", "90", code=2)
    assert treadle("prune", "--older-than", "1d").text == (
        "no thread is that old; nothing was deleted\n"
    )
    done = treadle("prune", "--older-than", "0s", "--yes", "--json").json
    assert (sorted(done["deleted"]), done["problems"]) == (sorted([worked, fork]), [])
    assert treadle("gc", "--json").json["copies of files"] == {"deleted": 0, "bytes": 0}
    assert treadle("threads", "--json").json == []


def test_the_old_name_of_rewind_names_the_new_one(treadle):
    assert "is called 'rewind' now" in treadle.refused("rollback", "last", code=2)
