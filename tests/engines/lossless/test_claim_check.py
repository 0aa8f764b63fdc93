"""A summary is changed in one place; whatever was changed, the checker finds it."""

from __future__ import annotations

import re
from itertools import permutations

import pytest

from treadle.engines.lossless.writing.claim_check import ClaimCheck, lines_without
from treadle.engines.lossless.writing.fact_names import names_in
from treadle.engines.lossless.writing.key_facts import find_facts, missing_facts
from treadle.engines.lossless.writing.passages import passages
from treadle.engines.lossless.writing.source import SummarySource

from .samples import command, ran, says, source, user

WORK = source(
    user(
        "Mend src/app/parser.py, never touch vendor/http/client.py. Keep Python 3.11. "
        "Ask Ingrid Holm before a release, and give the notes to Boris Kade."
    ),
    command("pytest -q tests/test_parser.py", "c1"),
    ran("E   KeyError: 'charset'\n1 failed in 0.2s", 1, "c1"),
    says(
        "The loop in read_lines stops early, so parse_header drops the last line. "
        "MAX_RETRIES is set to 7 in src/app/settings.py. The broker listens on port 8843, "
        "the mirror on port 9921."
    ),
    command("ruff check src", "c2"),
    ran("All checks passed!", 0, "c2"),
    says("The timeout is 45 s. We decided not to cache the headers because they change."),
    says("The tests in tests/test_parser.py failed. The lint check passed."),
)
GOOD = """\
Goal: mend src/app/parser.py; keep Python 3.11; do not touch vendor/http/client.py.
Goal: Ingrid Holm is to be asked before a release, and the notes go to Boris Kade.
Decisions: not to cache the headers, because they change.
Facts: MAX_RETRIES is 7 in src/app/settings.py; the timeout is 45 s.
Facts: the broker listens on port 8843; the mirror listens on port 9921.
Facts: parse_header drops the last line, because the loop in read_lines stops early.
State: pytest -q tests/test_parser.py failed with exit code 1: KeyError: 'charset'.
State: the tests in tests/test_parser.py failed.
State: the lint check passed."""

PIECES = passages(WORK)
FACTS = find_facts(PIECES)
CHECK = ClaimCheck(PIECES)
PATHS = [name for name, kind in names_in(GOOD) if kind == "path"]
NUMBERS = ["3.11", "7 in", "45", "8843", "9921", "exit code 1"]


def is_found(changed: str) -> bool:
    """Whether the checker finds what the good summary has not."""
    lost = set(missing_facts(FACTS, changed)) - set(missing_facts(FACTS, GOOD))
    return bool(lost or CHECK.contradictions(changed))


def test_a_good_summary_contradicts_nothing_and_has_the_facts():
    assert CHECK.contradictions(GOOD) == ()
    lost = {fact.text for fact in missing_facts(FACTS, GOOD)}
    assert lost <= {"1 failed in 0.2s", "Python"}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_was_dropped_is_found(number):
    digits = re.sub(r"[^\d.]", "", number)
    assert is_found(GOOD.replace(number, number.replace(digits, "").strip()))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_was_changed_is_found(number):
    digits = re.sub(r"[^\d.]", "", number)
    for other in (f"{digits}5", digits.replace(digits[-1], "2")):
        assert is_found(GOOD.replace(number, number.replace(digits, other)))


def test_two_numbers_that_changed_places_are_found():
    assert is_found(GOOD.replace("8843", "X").replace("9921", "8843").replace("X", "9921"))
    assert is_found(GOOD.replace("7 in", "45 in").replace("is 45 s", "is 7 s"))


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_was_dropped_is_found(path):
    assert is_found(GOOD.replace(path, "a file"))


@pytest.mark.parametrize(("path", "other"), list(permutations(PATHS, 2)))
def test_a_path_in_the_place_of_another_is_found(path, other):
    assert is_found(GOOD.replace(path, other))


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_was_misspelt_is_found(path):
    assert is_found(GOOD.replace(path, path.replace("/", "/x", 1)))
    assert is_found(GOOD.replace(path, path.replace(".py", "s.py")))


@pytest.mark.parametrize(
    ("said", "changed"),
    [
        ("parse_header", "read_lines"),
        ("read_lines", "parse_header"),
        ("parse_header", "parse_footer"),
        ("MAX_RETRIES", "MIN_RETRIES"),
        ("Ingrid Holm", "Boris Kade"),
        ("Boris Kade", "Ingrid Holm"),
        ("Ingrid Holm", "Somebody"),
        ("KeyError: 'charset'", "ValueError: 'charset'"),
    ],
)
def test_a_name_that_was_swapped_is_found(said, changed):
    assert is_found(GOOD.replace(said, changed))


def test_two_people_who_changed_places_are_found():
    swapped = GOOD.replace("Ingrid Holm", "X").replace("Boris Kade", "Ingrid Holm")
    assert is_found(swapped.replace("X", "Boris Kade"))


@pytest.mark.parametrize(
    ("said", "changed"),
    [
        ("do not touch", "touch"),
        ("not to cache", "to cache"),
        ("keep Python", "do not keep Python"),
        ("because they change", "because they never change"),
        ("listens on port 8843", "does not listen on port 8843"),
        ("failed with exit code 1", "passed with exit code 0"),
        ("failed with exit code 1", "passed with exit code 1"),
        ("the tests in tests/test_parser.py failed", "the tests in tests/test_parser.py passed"),
        ("the lint check passed", "the lint check failed"),
        ("asked before a release", "asked after a release"),
    ],
)
def test_what_was_turned_into_its_opposite_is_found(said, changed):
    assert said in GOOD
    assert is_found(GOOD.replace(said, changed))


@pytest.mark.parametrize(
    "line",
    [
        "State: src/app/migrations/0007_users.py needs to be applied.",
        "Facts: the cache listens on port 7070.",
        "Files: lib/unheard_of.py was created.",
    ],
)
def test_what_nobody_said_is_found_and_taken_out(line):
    (wrong,) = CHECK.contradictions(f"{GOOD}\n{line}")
    assert wrong == line
    assert lines_without(f"{GOOD}\n{line}", {wrong}) == GOOD


OTHER_LANGUAGES = [
    (
        "Bitte niemals die Datei vendor/http/client.py anfassen. Der Broker lauscht auf Port 8843.",
        "Die Datei vendor/http/client.py nicht anfassen. Der Broker lauscht auf Port 8843.",
        [("nicht ", ""), ("8843", "8834"), ("client.py", "server.py"), ("Port 8843", "einem Port")],
    ),
    (
        "不要修改 vendor/http/client.py。 服务器的端口是8843。",
        "不要修改 vendor/http/client.py。 端口是8843。",
        [("不要", ""), ("8843", "8834"), ("client.py", "server.py"), ("是8843", "不知道")],
    ),
]


@pytest.mark.parametrize(("said", "summary", "changes"), OTHER_LANGUAGES, ids=["German", "Chinese"])
def test_what_was_changed_is_found_in_other_languages_too(said, summary, changes):
    pieces = passages(source(user(said)))
    facts, check = find_facts(pieces), ClaimCheck(pieces)
    assert (check.contradictions(summary), missing_facts(facts, summary)) == ((), ())
    for old, new in changes:
        changed = summary.replace(old, new)
        assert changed != summary
        assert check.contradictions(changed) or missing_facts(facts, changed), (old, new)


@pytest.mark.parametrize(
    "own_words",
    [
        "Three files were read, and two of them matter.",
        "The agent wants to mend the parser and keep the old behaviour.",
        "The parser loses a line: read_lines ends too soon.",
        "Next comes a test for headers that are folded.",
        "Nothing else is known about vendor/http/client.py.",
        "src/app/settings.py holds the number of retries.",
        "Headers are not cached.",
        "The user wants to be careful with JavaScript and GitHub.",
        "The tests have failed once; the lint has passed.",
    ],
)
def test_a_summary_in_its_own_words_is_left_alone(own_words):
    assert CHECK.contradictions(own_words) == ()


def test_what_stood_before_a_part_may_be_spoken_of_too():
    check = ClaimCheck(PIECES, "The worker pool has 128 threads in src/app/pool.py.")
    assert check.contradictions("The worker pool still has 128 threads in src/app/pool.py.") == ()


def test_a_summary_of_summaries_is_held_against_these():
    check = ClaimCheck(passages(SummarySource(children=(GOOD,), depth=1)))
    assert check.contradictions(GOOD) == ()
    assert check.contradictions("Facts: the broker listens on port 9921.")
    assert check.contradictions("Goal: touch vendor/http/client.py.")
