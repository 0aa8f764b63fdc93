from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle.context.tokens import estimate_text
from treadle.engines.lossless.writing.extract import extract
from treadle.engines.lossless.writing.key_facts import find_facts, missing_facts
from treadle.engines.lossless.writing.passages import passages
from treadle.engines.lossless.writing.source import EXPAND, SummarySource, source_tokens

from .samples import SAMPLE, command, ran, says, source, sources, user


def test_an_extract_keeps_what_matters_most():
    made = extract(SAMPLE, 400)
    assert made.text == snapshot("""\
Goal, in the user's words:
- Mend src/app/parser.py: parse_header drops the last line.
- Keep Python 3.11.
Decisions:
- The loop stops early because `read_lines` strips the tail.
- I decided to keep it.
Files:
- src/app/parser.py
- tests/test_parser.py
Commands:
- pytest -q tests/test_parser.py: exit code 1
- ruff check src: exit code 0
Errors:
- KeyError: 'charset'
- 1 failed in 0.2s
Newest state:
- The loop is mended in src/app/parser.py. Next: the release notes for v2.4.1.
Open:
- Add a test for folded headers
- Next: the release notes for v2.4.1.
Expand for details about: the exact wording\
""")
    assert (made.model, made.prompt, made.degraded, made.missing, made.calls) == (
        "",
        "extract-2",
        True,
        (),
        0,
    )


def test_a_short_extract_says_what_it_lost():
    made = extract(SAMPLE, 60)
    assert estimate_text(made.text) <= 60
    facts = find_facts(passages(SAMPLE))
    assert made.missing == tuple(fact.text for fact in missing_facts(facts, made.text))
    assert made.missing


def test_an_extract_of_nodes_has_the_goal_of_each_of_them():
    nodes = tuple(
        f"Goal: part {n} of the work.\nDone: {'much ' * 200}\n{EXPAND} file_{n}.py"
        for n in range(4)
    )
    text = extract(SummarySource(children=nodes, depth=1), 200).text
    for n in range(4):
        assert f"- part {n} of the work." in text
    assert text.count(EXPAND) == 1


def test_a_long_request_keeps_its_beginning_and_the_newest_state_its_end():
    asked = user("Write a compiler. " + "Details. " * 2_000)
    state = says("Far along. " + "More. " * 2_000 + "The parser is next.")
    text = extract(source(asked, state), 512).text
    assert "Write a compiler." in text
    assert "The parser is next." in text


def test_a_path_is_kept_whole_or_left_out():
    paths = [f"src/{'very_' * 12}long/path/number_{n}.py" for n in range(30)]
    made = source(user("Read all of it. " + " ".join(paths)), says("word " * 2_000))
    for target in range(60, 500, 20):
        lines = extract(made, target).text.splitlines()
        if "Files:" in lines:
            after = lines[lines.index("Files:") + 1 :]
            assert {line[2:] for line in after if line.startswith("- src/")} <= set(paths)


def test_a_command_stands_with_its_status():
    killed = ran("deployed ok\n" * 300, 137)
    text = extract(source(user("Deploy."), command("make deploy"), killed), 200).text
    assert "make deploy: exit code 137" in text


def test_what_failed_stands_first_and_then_the_newest_commands():
    steps = [(command(f"step{n}", str(n)), ran("x" * 400, int(n == 0), str(n))) for n in range(40)]
    made = source(user("Go."), *(item for step in steps for item in step))
    lines = extract(made, 200).text.splitlines()
    start = lines.index("Commands:")
    assert lines[start + 1 : start + 4] == [
        "- step0: exit code 1",
        "- step39: exit code 0",
        "- step38: exit code 0",
    ]


def test_an_extract_takes_no_more_than_a_fifth_of_its_source():
    big = source(*(user(f"Point {n}: {'word ' * 100}") for n in range(40)))
    assert estimate_text(extract(big, 10_000).text) <= source_tokens(big) // 5
    assert estimate_text(extract(big).text) <= 512


def test_a_source_in_any_script_comes_out_smaller():
    for text in ("漢字を書く。" * 900, "한국어로 쓴다. " * 600, "👩\u200d👩\u200d👧" * 400):
        made = source(user(text), says(text))
        cut = extract(made).text
        assert 0 < estimate_text(cut) < source_tokens(made)
        assert cut.splitlines()[-1].startswith(EXPAND)


@settings(max_examples=200)
@given(sources, st.integers(0, 600))
def test_an_extract_is_always_smaller_fits_and_ends_with_its_line(made, target):
    got = extract(made, target)
    tokens = source_tokens(made)
    assert got == extract(made, target)
    assert estimate_text(got.text) < tokens or tokens == 0
    assert estimate_text(got.text) <= target
    if got.text:
        assert got.text.splitlines()[-1].startswith(EXPAND)
        assert sum(line.startswith(EXPAND) for line in got.text.split("\n")) == 1


@settings(max_examples=200)
@given(sources, st.integers(0, 600))
def test_an_extract_has_or_names_every_fact(made, target):
    got = extract(made, target)
    facts = find_facts(passages(made))
    lost = {fact.text for fact in missing_facts(facts, got.text)}
    assert lost <= set(got.missing)
