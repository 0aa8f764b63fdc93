from __future__ import annotations

import asyncio
import io
import json
import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.cli.conftest import treadle as treadle  # noqa: PLC0414 - a fixture
from tests.cli.scripts import scripted
from tests.cli.terminal import Treadle
from tests.cli.test_terminal import screen
from treadle.cli.activity import call_line
from treadle.cli.output import one_line, printable
from treadle.cli.repl.blocks import Blocks
from treadle.cli.repl.screen import LONGEST_HIGHLIGHTED, LONGEST_MARKDOWN, Screen
from treadle.cli.user_questions import (
    approval_text,
    decision,
    options_of,
    question_text,
)
from treadle.core.items import FunctionCall, FunctionCallOutput, Message, OutputText
from treadle.sandbox.approval_forms import LONGEST_COMMAND
from treadle.sandbox.approvals import Ask
from treadle.thread.thread import Thread
from treadle.tools.call_text import patch_in
from treadle.tools.contract import UserQuestion

EVIL = (
    "\x1b[2J\x1b]0;title\x07\x1b]8;;http://evil\x1b\\x\x1b]52;c;ZXZpbA==\x07\x9b31m\x90q\x9c\x85"
    "\u202eback\u2066x\u061c\u200b\ufeff\U000e0041\r\x08\x00\x7f[red]y[/red][link=http://e]z[/link]"
)
"""Everything that a terminal or its toolkit would act upon."""

# What Treadle writes by itself: colours, lines it has drawn and draws anew, modes of its editor.
OWN = re.compile(rb"\r?\x1b\[(?:[0-9;]*m|[0-9]*[ABCDGJK]|6n|\?(?:7|12|25|1000|1004|2004|2026)[hl])")
HIDDEN = re.compile(
    "[\x00-\x06\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def acts(data: bytes) -> list[str]:
    """What in a terminal's bytes is neither text nor Treadle's own."""
    text = OWN.sub(b"", data).decode(errors="surrogateescape")
    found = HIDDEN.findall(text)
    return found + re.findall("\r(?!\r?\n|$)", text)


def evil_items() -> list[FunctionCall | Message]:
    return [
        FunctionCall(name=f"tool{EVIL}", arguments=json.dumps({"cmd": EVIL}), call_id="c1"),
        Message(role="assistant", content=(OutputText(text=f"needle {EVIL}\n# {EVIL}"),)),
    ]


async def evil_thread(treadle: Treadle) -> str:
    (treadle.project / "AGENTS.md").write_text(EVIL.replace("\0", ""))
    async with Thread.open(
        model="openai:gpt-5.5", cwd=treadle.project, home=treadle.home, title=EVIL
    ) as thread:
        await thread.log.turns.admit(f"needle {EVIL}")
        await thread.log.requests.record(thread.request())
        await thread.log.requests.record_answer(evil_items())
        await thread.log.append(FunctionCallOutput(call_id="c1", output=f"out {EVIL}"))
        await thread.log.turns.finish()
        await thread.log.note(EVIL, level="warning")
        return thread.id


VIEWS = (
    ("threads",),
    ("threads", "--search", "needle"),
    ("show", "last"),
    ("show", "last", "--all"),
    ("recall", "needle"),
    ("recall", "show", "last:4"),
    ("cache", "last"),
    ("prompt", "--thread", "last"),
)


def test_nothing_that_was_stored_acts_on_a_terminal_or_breaks_json(treadle: Treadle):
    asyncio.run(evil_thread(treadle))
    for view in VIEWS:
        with screen(treadle, *view) as terminal:
            code, _ = terminal.end()
        assert (code, acts(terminal.seen)) == (0, []), view
        piped = treadle(*view).out
        assert acts(piped) == [], view
        assert b"\x1b" not in piped, view
    for view in VIEWS:
        with screen(treadle, *view, "--json") as terminal:
            code, _ = terminal.end()
        assert (code, acts(terminal.seen)) == (0, []), view
        assert [json.loads(line) for line in treadle(*view, "--json").out.splitlines()], view


def test_nothing_a_model_says_acts_on_a_terminal_while_it_is_said(treadle: Treadle):
    evil = EVIL.replace("\0", "")
    model = scripted(treadle, {"text": f"{evil}\n\n&#27;[2J &#x9b;2J &#x202e; &rlm;{evil}"})
    with screen(treadle, "exec", "--model", model, "go") as terminal:
        code, _ = terminal.end()
    assert (code, acts(terminal.seen)) == (0, [])


def test_errors_about_hostile_names_are_safe(treadle: Treadle):
    for args in (
        ("show", EVIL[1:40].replace("\0", "")),
        ("no\x1b[2Jcommand",),
        ("import", "\x1b[2J"),
    ):
        with screen(treadle, *args) as terminal:
            code, _ = terminal.end()
        assert code != 0
        assert acts(terminal.seen) == []


hostile = st.text(
    st.sampled_from([*EVIL, *"ab[]/=&#;x\n\t*`_<>|-"]) | st.characters(), max_size=60
) | st.sampled_from(["&#27;[2J", "&#x202e;x", "&rlm;", "<http://x/&#x202e;>", "![a](b&#x9b;)"])


def rendered(text: str) -> str:
    file = io.StringIO()
    Screen(Console(force_terminal=True, highlight=False, file=file, width=60)).markdown(text)
    return file.getvalue()


@settings(deadline=None)
@given(hostile)
@example("&#x202e; &rlm; &#27;[2J &#x9b;2J &#13;x")
@example("[a&#x202e;](http://x/&#x2066;)")
def test_markdown_is_read_without_obeying_it(text: str):
    assert acts(rendered(text).encode(errors="surrogateescape")) == []


@given(hostile)
def test_what_is_printable_stays_so_and_has_one_line_if_asked(text: str):
    safe = printable(text)
    assert printable(safe) == safe
    assert acts(safe.encode()) == []
    line = one_line(text, 40)
    assert len(line) <= 40
    assert not {unicodedata.category(char) for char in line} & {"Cc", "Cs", "Zl", "Zp"}


def test_long_code_and_long_blocks_are_shown_plainly():
    code = "x = (1,\n" * (LONGEST_HIGHLIGHTED // 4)
    assert "x = (1," in rendered(f"```python\n{code}```")
    assert "*a*" in rendered("*a* " * (LONGEST_MARKDOWN // 2))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
calls = st.dictionaries(
    st.sampled_from(["cmd", "command", "chars", "session_id", "plan", "path", "input"]), json_values
).map(json.dumps)
TOOLS = ["exec_command", "shell", "write_stdin", "update_plan", "view_image", "apply_patch", EVIL]


@given(st.sampled_from(TOOLS), calls | st.text(max_size=40))
@example("shell", '{"command": 7}')
@example("shell", '{"command": {"a": 1}}')
@example("update_plan", '{"plan": [[], {"step": {}}]}')
@example("shell", "[" * 100_000)
@example("apply_patch", "*** Begin Patch\n" * 50_000)
def test_whatever_a_call_holds_it_is_told_on_one_line(name: str, arguments: str):
    line = call_line(name, arguments)
    assert acts(line.encode()) == []
    assert "\n" not in line
    patch_in(name, arguments)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("*** Begin Patch\nx\n*** End Patch", True),
        ("apply_patch <<E\n*** Begin Patch\nx\n*** End Patch\nE", True),
        ("*** Begin Patch", False),
        ("*** Begin Patch\nx", False),
        ("x*** Begin Patch\n\n*** End Patch", False),
        ("*** End Patch\n*** Begin Patch\n", False),
    ],
)
def test_a_patch_is_found_from_its_first_line_to_its_last(text: str, found: bool):
    assert (patch_in("apply_patch", text) is not None) == found


def test_what_is_approved_is_seen_whole():
    padding = "a" * 300
    ask = Ask(argv=("bash", "-lc", f"echo {padding}\nrm -rf /\x1b[2K"), cwd="/w", reason="r")
    text = approval_text(ask)
    assert "\n  | rm -rf /\\x1b[2K'" in text
    assert padding in text
    long = approval_text(Ask(argv=("echo", "a" * 9_000 + "evil"), cwd="", reason="r"))
    assert "CHARACTERS ARE NOT SHOWN" in long
    assert "evil" in long
    assert len(long) < LONGEST_COMMAND + 200


@pytest.mark.parametrize("prefix", [("a" * 300,), ("git", "\x1b[2K"), ("git", "\u202e"), ("a\nb",)])
def test_a_prefix_that_cannot_be_read_is_not_offered(prefix):
    ask = Ask(argv=(*prefix, "x"), cwd="", reason="r", prefix=prefix)
    assert "prefix" not in options_of(ask)
    assert decision(ask, "p") is None


def test_a_question_cannot_pass_for_lines_of_treadle():
    asked = UserQuestion(id="q", header="h", question="sure?\n? run in the sandbox: ls", options=())
    assert "\n? run" not in question_text(asked)


def test_a_line_that_never_ends_costs_what_it_is_long():
    blocks = Blocks()
    for _ in range(100_000):
        assert blocks.feed("x" * 10) == []
    assert blocks.tail.startswith("xxx")
    assert len(blocks.rest()) == 1_000_000
