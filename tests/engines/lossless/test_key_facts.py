from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.core.items import CustomToolCall, FunctionCallOutput, Item
from treadle.engines.lossless.writing.key_facts import (
    MOST_FACTS,
    Fact,
    add_missing_facts,
    find_facts,
    missing_facts,
)
from treadle.engines.lossless.writing.passages import passages
from treadle.engines.lossless.writing.source import (
    EXPAND,
    SummarySource,
    expand_names,
    summary_body,
    with_expand_line,
)

from .samples import SAMPLE, call, command, ran, says, source, sources, user


def facts(*items: Item) -> list[tuple[str, str]]:
    return [(fact.kind, fact.text) for fact in find_facts(passages(source(*items)))]


def texts_of(kind: str, *items: Item) -> list[str]:
    return [text for found, text in facts(*items) if found == kind]


def test_a_piece_of_work_has_these_facts():
    found = [(fact.kind, fact.text) for fact in find_facts(passages(SAMPLE))]
    assert found == [
        ("task", "Add a test for folded headers"),
        ("task", "Next: the release notes for v2.4.1."),
        ("failure", "pytest -q tests/test_parser.py: exit code 1"),
        ("error", "KeyError: 'charset'"),
        ("error", "1 failed in 0.2s"),
        ("number", "Keep Python 3.11"),
        ("path", "src/app/parser.py"),
        ("path", "tests/test_parser.py"),
        ("identifier", "parse_header"),
        ("identifier", "read_lines"),
        ("name", "Python"),
        ("id", "v2.4.1"),
    ]


def test_names_of_every_shape_are_found_and_words_are_not():
    found = texts_of(
        "identifier",
        user("Call parse_header, parseHeader, ParseHeader, treadle.engines, MAX_SIZE, std::io."),
        user("Or json.dumps, self.name, KeyError and os.path.join, which stand in every program."),
        user("And plain words, e.g. this one, i.e. nothing; and/or 1/2 n/a it's HTTP OK."),
    )
    assert sorted(found) == [
        "MAX_SIZE",
        "ParseHeader",
        "parseHeader",
        "parse_header",
        "treadle.engines",
    ]


def test_paths_of_every_shape_are_found_without_the_lines_they_point_at():
    found = texts_of(
        "path",
        user(
            "See /etc/hosts, ~/notes.md, ./run.sh, src/app/main.rs:12:5, README.md and "
            "https://example.org/a/b. Either/or and 3/4 are none."
        ),
    )
    assert sorted(found) == [
        "./run.sh",
        "/etc/hosts",
        "README.md",
        "https://example.org/a/b",
        "src/app/main.rs",
        "~/notes.md",
    ]


def test_numbers_that_name_something_are_found():
    found = texts_of("id", user("Commit 3f2a9bc, release 1.14.2, issue #512, ABC-77, 3 of 4, 0.5."))
    assert sorted(found) == ["#512", "1.14.2", "3f2a9bc", "ABC-77"]


def test_a_credential_is_never_a_fact():
    secrets = "sk-abcdefghijklmnop1234 ghp_abcdefghijklmnop1234 " + "aB3_" * 20
    assert facts(user(f"Use {secrets}"), says(f"Used {secrets}")) == []


def test_words_that_invite_a_long_search_are_read_at_once():
    words = (
        "1.2.3" + "a" * 150 + "@",
        "a_" * 90 + "@",
        "aA" * 90 + "@",
        "a/" * 90 + "@#",
        "::1" * 60,
    )
    assert facts(user(" ".join(words))) == []


def test_one_path_in_two_spellings_is_one_fact():
    found = texts_of("path", user("src/app/main.py"), command("cat /repo/src/app/main.py"))
    assert found == ["src/app/main.py"]


def test_a_file_that_was_changed_comes_first():
    patch = "*** Begin Patch\n*** Update File: lib/b.py\n@@\n-a\n+b\n*** End Patch"
    found = texts_of(
        "path",
        user("Look at lib/a.py and lib/c.py"),
        CustomToolCall(call_id="p", name="apply_patch", input=patch),
    )
    assert found == ["lib/b.py", "lib/a.py", "lib/c.py"]


def test_lines_that_differ_in_their_numbers_hide_no_other_line():
    log = [f"INFO queue handled {n} requests in 0.{n} s" for n in range(1_100, 1_140)]
    log.insert(17, "ERROR broker: connection refused on port 8843")
    found = facts(ran("\n".join(log)), ran("disk /var/spool: 93% used"))
    assert ("error", "ERROR broker: connection refused on port 8843") in found
    assert any("93%" in text for _, text in found)
    assert not [text for _, text in found if "handled" in text]


def test_the_results_of_a_few_runs_are_no_listing():
    found = texts_of("number", ran("first run: 1250 s\nsecond run: 1311 s"))
    assert [text for text in found if "1311" in text]


def test_a_huge_listing_does_not_drown_what_people_said():
    listing = "\n".join(f"vendor/pkg{n}/file_{n}.py imports helper_{n}" for n in range(5_000))
    found = facts(command("grep -r import"), ran(listing), user("Only app/main.py matters."))
    assert found[0] == ("path", "app/main.py")
    assert len(found) <= 5


def test_what_failed_and_succeeded_since_is_no_failure():
    assert texts_of(
        "failure",
        command("make", "a"),
        ran("", 2, "a"),
        command("pytest", "b"),
        ran("", 1, "b"),
        command("make", "c"),
        ran("", 0, "c"),
        command("deploy", "d"),
        ran("", 137, "d"),
    ) == ["deploy: exit code 137", "pytest: exit code 1"]


def test_the_command_that_failed_last_comes_first():
    assert texts_of(
        "failure",
        command("make", "a"),
        ran("", 2, "a"),
        command("pytest", "b"),
        ran("", 1, "b"),
        command("make", "c"),
        ran("", 3, "c"),
    ) == ["make: exit code 3", "pytest: exit code 1"]


def test_code_that_handles_errors_is_no_error():
    code = "class BadHeader(ValueError):\n    raise KeyError(name)\n    except OSError:\n0 errors"
    assert texts_of("error", command("cat a.py"), ran(code)) == []


def test_errors_of_people_and_of_what_failed_come_first_then_the_newest():
    assert texts_of(
        "error",
        user("It says fatal: one"),
        command("a", "a"),
        ran("fatal: two", 1, "a"),
        command("b", "b"),
        ran("fatal: three", 0, "b"),
        command("c", "c"),
        ran("fatal: four", 0, "c"),
    ) == ["fatal: two", "It says fatal: one", "fatal: four", "fatal: three"]


def test_an_error_deep_in_a_long_line_is_told_all_the_same():
    (told,) = texts_of(
        "error", command("a"), ran("x" * 5_000 + " fatal: no room " + "y" * 5_000, 1)
    )
    assert "fatal: no room" in told
    assert len(told) <= 160


def test_one_output_tells_its_first_and_its_last_errors_only():
    output = "\n".join(f"fatal: number {n}" for n in range(1_000))
    assert texts_of("error", command("a"), ran(output, 1)) == [
        "fatal: number 0",
        "fatal: number 1",
        "fatal: number 998",
        "fatal: number 999",
    ]


def test_what_went_well_tells_an_error_only_where_it_is_plainly_one():
    output = (
        "It cannot be helped, some failed.\nKeyError: 'a'\nerror[E0502]: borrowed\nan Error too"
    )
    assert sorted(texts_of("error", command("cat log"), ran(output))) == [
        "KeyError: 'a'",
        "error[E0502]: borrowed",
    ]
    assert len(texts_of("error", command("cat log"), ran(output, 1))) == 4


def test_errors_are_found_in_every_language_they_are_told_in():
    output = "fatal: not a repository\nFAILED tests/a.py::b\n错误:找不到文件\nthread panicked at x"
    assert sorted(texts_of("error", command("x"), ran(output, 1))) == [
        "FAILED tests/a.py::b",
        "fatal: not a repository",
        "thread panicked at x",
        "错误:找不到文件",
    ]


def test_only_the_newest_plan_counts():
    def plan(call_id: str, *steps: tuple[str, str]) -> Item:
        listed = [{"step": step, "status": status} for step, status in steps]
        return call("update_plan", call_id, plan=listed)

    assert texts_of(
        "task",
        plan("a", ("Read", "in_progress"), ("Write", "pending")),
        plan("b", ("Read", "completed"), ("Write", "in_progress"), ("Check", "pending")),
    ) == ["Write", "Check"]


def test_promises_count_where_they_were_made_last():
    assert texts_of(
        "task",
        says("I will look at the tests."),
        user("Fine.\n- [ ] release notes\nThanks."),
        says("Done.\nTODO: update the changelog\nBye."),
    ) == ["TODO: update the changelog", "- [ ] release notes"]


def test_a_plan_that_cannot_be_read_is_no_task():
    assert texts_of("task", call("update_plan", plan="later")) == []


def test_facts_of_nodes_are_found_in_their_texts():
    found = find_facts(
        passages(SummarySource(children=("Files: src/a.py", "Open: still to do"), depth=1))
    )
    assert found == (Fact("task", "Open: still to do"), Fact("path", "src/a.py"))


def test_a_text_has_what_it_quotes():
    told = find_facts(passages(SAMPLE))
    text = (
        "Add a test for   folded\nheaders. The loop is mended in src/app/parser.py. Next: the "
        "release notes for v2.4.1. pytest exited with code 1: keyerror: 'charset', 1 failed in "
        "0.2s, see /repo/tests/test_parser.py; parse_header, read_lines; Python stays at 3.11"
    )
    assert missing_facts(told, text) == ()


def test_a_text_lacks_what_it_only_resembles():
    lost = (
        Fact("failure", "make: exit code 2"),
        Fact("failure", "pytest: exit code 1"),
        Fact("path", "src/app/main.py"),
        Fact("identifier", "read_line"),
        Fact("id", "1.2.3"),
    )
    text = "make exited with code 1; exit code 12; main.py and read_lines and 1.2.34"
    assert missing_facts(lost, text) == lost


def test_the_end_of_a_path_is_enough_to_find_it():
    path = Fact("path", "/home/me/repo/src/main.py")
    assert missing_facts([path], "changed src/main.py") == ()
    assert missing_facts([path], "changed main.py") == (path,)


@given(sources)
def test_a_source_has_its_own_facts_in_bounded_number(made):
    read = passages(made)
    found = find_facts(read)
    assert found == find_facts(read)
    assert len(found) == len(set(found)) <= sum(MOST_FACTS.values())
    assert missing_facts(found, "\n".join(fact.text for fact in found)) == ()


@given(sources, st.text(max_size=200))
def test_more_text_never_loses_a_fact(made, more):
    found = find_facts(passages(made))
    half = "\n".join(fact.text for fact in found[::2])
    assert set(missing_facts(found, f"{half}\n{more}")) <= set(missing_facts(found, half))


def test_an_output_without_a_status_is_neither_failed_nor_done():
    assert facts(call("look", "z", at="x"), FunctionCallOutput(call_id="z", output="fine")) == []


def test_facts_that_are_lost_are_named_as_far_as_there_is_room():
    facts = [Fact("path", "src/a.py"), Fact("path", "src/bb.py"), Fact("identifier", "c_d")]
    text, lost = add_missing_facts(f"Goal.\n{EXPAND} notes", facts, 16)
    assert text == f"Goal.\n{EXPAND} notes; src/a.py; c_d"
    assert lost == ("src/bb.py",)
    assert add_missing_facts(text, facts[:1], 0) == (text, ())


def test_a_line_that_names_nothing_makes_room_for_names():
    bare = with_expand_line("Goal.", ())
    assert add_missing_facts(bare, [Fact("path", "src/a.py")], 0) == (
        f"Goal.\n{EXPAND} src/a.py",
        (),
    )


@given(
    st.lists(st.sampled_from(["src/a.py", "src/b.py", "read_line", "1.2.3"]), unique=True),
    st.integers(0, 60),
)
def test_naming_facts_stays_within_its_room(names, room):
    facts = [Fact("identifier", name) for name in names]
    bare = with_expand_line("Goal.", ())
    text, lost = add_missing_facts(bare, facts, room)
    assert len(text) <= len(bare) + room
    assert {*expand_names(text), *lost} == set(names)
    assert summary_body(text) == "Goal."
