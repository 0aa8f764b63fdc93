from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle.sandbox.approvals import Command
from treadle.sandbox.commands import LONGEST_SCRIPT, loose_commands, plain_commands
from treadle.sandbox.safety import MOST_WORDS, is_dangerous, is_safe_read_only
from treadle.sandbox.verdict import judge_command
from treadle.tools.patch import find_patch

from .shells import run_by_bash

WORDS = (
    *("a", "b", "-x", "'q r'", '"d q"', "$X", "`a`", "$(b)", "2", "=", "A=1", "x=", "A+=1", "é"),
    *("$'\\n'", '$"x"', "a'b'\"c\"", '"\\a"', '"\\""', "'\\''", "\\a", "\\ ", "{a,b}", "[1]", "]"),
    *("!", "!!", "!a", "[", "[[", "if", "then", "time", "case", "in", "do", "function", "--", "^"),
)
SIGNS = (
    *(">f", "<f", "2>", "&>", "<<E", "<(a)", "|", "|&", "||", "&&", ";", ";;", "&", "#", "(", ")"),
    *("\n", "\\\n", "\r", "\v", "\f", "\t", "\x01", "\x1b", "\x7f", "\x85", "\xa0", "\u2028"),
    *("\u200b", "\ufeff", "\\", "'", '"', "$", "{", "}", "()"),
)
scripts = st.lists(
    st.tuples(st.sampled_from(WORDS) | st.sampled_from(SIGNS), st.sampled_from(["", " ", "  "])),
    min_size=1,
    max_size=7,
).map(lambda pieces: "".join(part for piece in pieces for part in piece))


@settings(max_examples=400, deadline=None)
@given(scripts)
@example("cat\f/evil")
@example("\f cat")
@example('"cat"\u2028/evil')
@example("cat \\\n-n")
@example("a -\\\nb")
@example("] ]")
@example("time a")
@example("a || b")
def test_a_script_is_lowered_only_to_what_bash_runs(script: str):
    lowered = plain_commands(("bash", "-c", script))
    if lowered is None:
        return
    ran, read = run_by_bash(script)
    claimed = Counter(tuple(word.encode() for word in command) for command in lowered)
    assert not ran - claimed
    assert not read or "||" in script or ran == claimed


@pytest.mark.parametrize(
    "script",
    [
        "cat\f/evil",
        "cat\v/evil",
        '"cat"\u2028/evil',
        "ls\r",
        "ls\x00",
        "ls \ud800",
        "-x ls",
        "+x ls",
        "time ls",
        "ls " + "a" * LONGEST_SCRIPT,
        "uniq in out",
        "uniq -c in out",
        "find . -fprint0 x",
        "git diff --output=x",
        "ls; rm x",
        "cat x > y",
        "cat <(rm x)",
        "echo `rm x`",
        'echo "$(rm x)"',
        "ls & rm x",
        "ls\nrm x",
        "ls #\nrm x",
    ],
)
def test_a_command_that_may_do_more_than_look_is_never_safe(script: str):
    assert not is_safe_read_only(("bash", "-lc", script))


@pytest.mark.parametrize(
    "script", ["uniq", "uniq -c words", "uniq -f 1 words", "ls \\\n -l", "cat 'a\tb'"]
)
def test_a_command_that_only_looks_is_safe(script: str):
    assert is_safe_read_only(("bash", "-lc", script))


@given(st.lists(st.sampled_from(WORDS) | st.sampled_from(SIGNS) | st.text(), max_size=20))
def test_whatever_a_model_writes_is_decided(pieces: list[str]):
    for argv in (("bash", "-lc", " ".join(pieces)), tuple(pieces)):
        for approval in ("never", "on-request", "untrusted"):
            judge_command(Command(argv, "/w"), mode="workspace-write", approval=approval)
    list(loose_commands("".join(pieces)))


@pytest.mark.parametrize(
    "argv",
    [
        ("sudo", *("a",) * MOST_WORDS),
        ("bash", "-lc", "cat <<'E' > x\n" + "x\n" * LONGEST_SCRIPT + "E\nr\\m -rf /"),
        ("env", *("sudo", "eval") * 20, "x"),
    ],
)
def test_what_is_too_long_to_be_seen_through_counts_as_dangerous(argv):
    assert is_dangerous(argv)


def test_a_long_file_may_be_written_by_a_script():
    script = "cat <<'E' > x\n" + "def f(x): return {x | 1}\n" * LONGEST_SCRIPT + "E\n"
    assert not is_dangerous(("bash", "-lc", script))


NESTING = ["(", ")", "$(", "{ ", "<<A ", "`", "'", "if ", "case x in ", "[[ ", "a|", "${", "=("]


@pytest.mark.parametrize("piece", NESTING)
def test_endless_nesting_is_read_to_its_end(piece: str):
    for script in ((piece * LONGEST_SCRIPT)[:LONGEST_SCRIPT], piece * LONGEST_SCRIPT * 50):
        assert not is_safe_read_only(("bash", "-lc", script))
        is_dangerous(("bash", "-lc", script))
        assert find_patch(script) is None
        assert find_patch(f"apply_patch <<E\n{script}") is None
        assert find_patch(f"apply_patch <<E\nx\nE\n{script}") is None
