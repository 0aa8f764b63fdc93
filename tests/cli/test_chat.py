from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.cli.repl.blocks import Blocks
from treadle.cli.repl.slash import COMMANDS

from .scripts import call, scripted, shell
from .terminal import Treadle
from .test_exec import inputs
from .test_terminal import Screen, screen, without_colour

USAGE = {"input": 1000, "cached": 800, "output": 10}


class Talk:
    """A person at the REPL, who reads only what is new."""

    def __init__(self, terminal: Screen) -> None:
        self.terminal, self.read = terminal, 0

    @property
    def plain(self) -> str:
        return without_colour(self.terminal.seen.decode(errors="replace"))

    def expect(self, text: str) -> str:
        """Everything up to `text`, which must come."""
        while (found := self.plain.find(text, self.read)) < 0:
            assert self.terminal._read(), self.plain[self.read :]
        seen = self.plain[self.read : found + len(text)]
        self.read = found + len(text)
        return seen

    def seated(self) -> None:
        """A thread is open and its line waits."""
        self.expect(" · approval ")
        self.expect(">")

    def say(self, text: str) -> None:
        """Type a line; what comes before its echo has been read."""
        self.terminal.type(text.encode() + b"\r")
        self.expect(f"> {text}")

    def answer(self, text: str) -> None:
        self.terminal.type(text.encode() + b"\r")

    def leave(self) -> str:
        self.terminal.type(b"\x04")
        code, _ = self.terminal.end()
        assert (code, "Traceback" in self.plain) == (0, False), self.plain
        return self.plain


@contextmanager
def talk(treadle: Treadle, *args: str) -> Iterator[Talk]:
    treadle.environ["PROMPT_TOOLKIT_NO_CPR"] = "1"
    treadle.environ.setdefault("TREADLE_MODEL", "scripted:demo")
    with screen(treadle, *args, columns=250) as terminal:
        talking = Talk(terminal)
        talking.seated()
        yield talking


def gate(treadle: Treadle, name: str) -> Path:
    """A pipe at which a command and a test meet: reading waits for the writer."""
    path = treadle.home.parent / name
    os.mkfifo(path)
    return path


def answers(treadle: Treadle, *given_answers: dict[str, Any]) -> None:
    treadle.environ["TREADLE_MODEL"] = scripted(treadle, *given_answers)


def test_treadle_alone_on_a_terminal_talks(treadle):
    answers(treadle, {"text": "Some **bold** words.\n\n- one\n- two\n", "usage": USAGE})
    with talk(treadle) as person:
        person.say("hello")
        person.expect("Some bold words.")
        person.expect("• one")
        person.expect("context 0% of 258,400 · 80% cached")
        person.leave()
    assert inputs(treadle) == ["hello"]
    history = treadle.home / "history"
    assert "+hello" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_without_a_word_nothing_is_kept(treadle):
    with talk(treadle) as person:
        person.answer("")
        person.leave()
    assert treadle("threads", "--json").json == []
    said = treadle.refused("chat", code=2)
    assert "there is no terminal to chat on; use `treadle exec`" in said


def test_calls_and_patches_are_shown(treadle):
    patch = "*** Begin Patch\n*** Add File: notes.md\n+Hello\n*** End Patch\n"
    answers(
        treadle,
        {"text": "Working.", "calls": [shell("echo hi")]},
        {"calls": [shell("exit 3")]},
        {"calls": [shell(f"apply_patch <<'EOF'\n{patch}EOF\n")]},
        {"text": "Done."},
    )
    with talk(treadle) as person:
        person.say("go")
        person.expect("Working.")
        person.expect("• echo hi")
        person.expect("ok · ")
        person.expect("• exit 3")
        person.expect("exit 3 · ")
        person.expect("• patch notes.md")
        person.expect("+Hello")
        person.expect("Done.")
        person.say("/diff")
        person.expect("notes.md")
        person.leave()
    assert (treadle.project / "notes.md").read_text() == "Hello\n"


ESCALATED = shell(
    "docker pull nothing",
    sandbox_permissions="require_escalated",
    justification="May I?",
    prefix_rule=["docker", "pull"],
)


@pytest.mark.parametrize(
    ("typed", "left", "goes_on"),
    [
        ("y", 1, True),
        ("t", 0, True),
        ("p", 0, True),
        ("n not like this", 1, True),
        ("s", 0, False),
    ],
)
def test_approvals_are_asked_inline(treadle, typed, left, goes_on):
    # A rule is offered where commands can put no program on the search path.
    treadle.environ["PATH"] = "/usr/bin:/bin"
    answers(treadle, {"calls": [ESCALATED]}, {"calls": [ESCALATED]}, {"text": "Finished."})
    with talk(treadle) as person:
        person.say("go")
        person.expect("? run OUTSIDE the sandbox: ")
        person.expect("(y)es once")
        person.answer("perhaps")
        person.expect("that is none of the answers")
        person.answer(typed)
        for _ in range(left):
            person.expect("? run OUTSIDE the sandbox: ")
            person.answer(typed)
        person.expect("Finished." if goes_on else "interrupted")
        person.leave()
    shown = treadle("show", "last").text
    assert ("rejected by user" in shown) == (typed[0] in "ns")
    assert ("not like this" in shown) == typed.startswith("n ")
    assert (treadle.home / "rules.json").exists() == (typed == "p")
    assert "perhaps" not in (treadle.home / "history").read_text()


def test_questions_of_the_model_are_asked_one_by_one(treadle):
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    questions = [
        {"id": "hue", "header": "Hue", "question": "Which hue?", "options": options},
        {"id": "why", "header": "Why", "question": "Why so?", "options": options},
    ]
    answers(
        treadle, {"calls": [call("request_user_input", questions=questions)]}, {"text": "Good."}
    )
    with talk(treadle) as person:
        person.say("go")
        person.expect("? Which hue?")
        person.answer("2")
        person.expect("? Why so?")
        person.answer("I like it")
        person.expect("• asks: Which hue?")
        person.expect(" s · Blue; I like it\r\n")
        person.expect("Good.")
        person.leave()
    shown = treadle("show", "last").text
    assert "Blue" in shown
    assert "I like it" in shown


def test_ctrl_c_interrupts_the_turn_and_then_only_clears_the_line(treadle):
    begun = gate(treadle, "begun")
    answers(treadle, {"calls": [shell(f"echo > {begun}; sleep 600")]}, {"text": "Back."})
    with talk(treadle) as person:
        person.say("go")
        begun.read_text()
        person.terminal.type(b"\x03")
        person.expect("interrupted")
        person.terminal.type(b"forget this\x03")
        person.say("again")
        person.expect("Back.")
        person.leave()
    assert inputs(treadle) == ["go", "again"]
    assert "aborted by user" in treadle("show", "last").text


def test_what_is_said_during_a_turn_reaches_it(treadle):
    begun, more = gate(treadle, "begun"), gate(treadle, "more")
    waits = shell(f"echo > {begun}; cat {more}")
    answers(treadle, {"calls": [waits]}, {"when": "and this", "text": "Both done."})
    with talk(treadle, "chat", "--yolo") as person:
        person.say("do that")
        begun.read_text()
        person.say("and this")
        more.write_text("open\n")
        person.expect("Both done.")
        person.leave()
    assert inputs(treadle) == ["do that", "and this"]


def test_nothing_a_model_or_tool_writes_moves_the_cursor(treadle):
    answers(
        treadle,
        {
            "text": "\x1b[2Jwiped \x1b]0;title\x07",
            "calls": [shell("printf '\\033[2Jgone'; exit 1")],
        },
        {"text": "[click](javascript:\x1b[31m)"},
    )
    with talk(treadle) as person:
        person.say("go")
        person.expect("\\x1b[2Jwiped \\x1b]0;title\\x07")
        person.expect("\\x1b[2Jgone")
        person.expect("click")
        person.leave()
    raw = person.terminal.seen
    assert b"\x1b[2J" not in raw
    assert b"\x1b]0;" not in raw


def test_a_message_can_have_several_lines(treadle):
    answers(treadle, {"text": "Read."})
    with talk(treadle) as person:
        person.terminal.type(b"one\\\rtwo\x1b\rthree\r")
        person.expect("Read.")
        person.leave()
    assert inputs(treadle) == ["one\ntwo\nthree"]


def test_commands_complete(treadle):
    with talk(treadle) as person:
        person.terminal.type(b"/sta")
        person.expect("/status")
        person.terminal.type(b"\t\r")
        person.expect("> /status")
        person.expect("workspace-write, no network")
        person.leave()


def test_a_command_that_does_not_exist_is_told_with_a_guess(treadle):
    with talk(treadle) as person:
        person.say("/stats")
        person.expect("there is no command /stats; did you mean /status?")
        person.say("/help")
        for name in COMMANDS:
            person.expect(f"/{name}")
        person.say("/quit")
        code, _ = person.terminal.end()
    assert code == 0


def test_the_status_tells_what_is_known(treadle):
    answers(treadle, {"text": "Hello.", "usage": USAGE})
    model = treadle.environ["TREADLE_MODEL"]
    (treadle.home / "config.toml").write_text(f'[prices."{model}"]\ninput = 2.0\noutput = 8.0\n')
    with talk(treadle) as person:
        person.say("/status")
        assert "not reported" in person.expect("cost")
        person.expect("not known: /cost tells why")
        person.say("hi")
        person.expect("Hello.")
        person.expect("$0.0021")
        person.say("/status")
        person.expect("80% cached")
        person.expect("$0.0021")
        person.say("/cost")
        for name in ("this turn", "this thread"):
            person.expect(name)
            person.expect("$0.0021 (1 answer, 1,000 tokens in, 10 out)")
        person.expect("its agents")
        person.expect("none")
        person.expect("today")
        person.expect("$0.0021 (1 answer, 1,000 tokens in, 10 out)")
        person.say("/context")
        person.expect("1,010 of 258,400 tokens")
        person.expect("your messages")
        person.expect("free")
        # 1,010 tokens at $2: without prices of its own, cached input costs the same
        person.expect("the next request costs $0.0020 cold, $0.0020 from the cache")
        person.leave()


def test_threads_are_left_and_resumed(treadle):
    answers(treadle, {"text": "Answer.", "times": 0})
    with talk(treadle) as person:
        person.say("first")
        person.expect("Answer.")
        person.expect("cached")
        first = treadle("threads", "--json").json[0]["id"]
        person.say("/new")
        person.seated()
        person.say("second")
        person.expect("Answer.")
        person.expect("cached")
        person.say("/threads")
        person.expect(f"  {first}")
        person.say(f"/resume {first[-8:]}")
        person.seated()
        person.expect("Answer.")
        person.say("third")
        person.expect("Answer.")
        person.say("/resume nowhere")
        person.expect("no thread 'nowhere'")
        person.leave()
    assert inputs(treadle, first) == ["first", "third"]
    with talk(treadle, "chat", "--last") as person:
        person.say("fourth")
        person.expect("Answer.")
        person.leave()
    assert inputs(treadle, first) == ["first", "third", "fourth"]


def test_undo_shows_the_files_and_asks_once(treadle):
    line = "echo new > a; echo new > b"
    call = {"name": "exec_command", "arguments": {"cmd": line, "login": False}}
    answers(treadle, {"calls": [call]}, {"text": "Answer."})
    (treadle.project / "a").write_text("old")
    with talk(treadle, "chat", "--yolo") as person:
        person.say("one")
        person.expect("Answer.")
        person.expect("cached")
        person.say("/undo")
        person.expect("restore   a")
        person.expect("remove    b")
        person.expect("Rewind the conversation and 2 paths?")
        person.answer("y")
        person.expect("2 paths are as before")
        assert (treadle.project / "a").read_text() == "old"
        assert not (treadle.project / "b").exists()
        person.say("/undo redo")
        person.expect("Rewind the conversation and 2 paths?")
        person.answer("f")
        person.expect("2 paths are as before")
        person.leave()
    assert (treadle.project / "b").read_text() == "new\n"


def test_a_turn_can_be_undone_and_the_view_emptied(treadle):
    answers(treadle, {"text": "Answer.", "times": 0})
    with talk(treadle) as person:
        for text in ("one", "two"):
            person.say(text)
            person.expect("Answer.")
            person.expect("cached")
        person.say("/undo")
        person.expect("the last turn is hidden from the model; /undo redo takes that back")
        person.say("three")
        person.expect("cached")
        person.say("/reset")
        person.expect("the model starts with an empty view")
        person.say("four")
        person.expect("cached")
        person.leave()
    assert inputs(treadle)[-1] == "four"
    body = treadle("prompt", "--thread", "last", "--json").text
    assert [word in body for word in ('"one"', '"two"', '"three"', '"four"')] == [
        False,
        False,
        False,
        True,
    ]
    (entry,) = [
        e
        for e in treadle("show", "last", "--json", "--all").json_lines
        if e["visible"] and e["kind"] == "epoch" and e["control"]["reason"] == "reset"
    ]
    assert entry["turn"] == 3


def test_the_conversation_is_compacted_on_demand(treadle):
    long = "word " * 4000
    answers(treadle, {"text": long}, {"when": "", "text": "A short summary.", "times": 0})
    with talk(treadle) as person:
        person.say("write a lot")
        person.expect("cached")
        person.say("/compact")
        person.expect("compacted: from about ")
        person.leave()
    kinds = [e for e in treadle("show", "last", "--json").json_lines if e["kind"] == "epoch"]
    assert kinds[-1]["control"]["reason"] == "compaction"


def test_another_model_answers_from_the_next_turn_on(treadle):
    other = scripted(treadle, {"text": "I am the other."}, name="other.jsonl")
    answers(treadle, {"text": "I am the first."})
    with talk(treadle) as person:
        person.say("who?")
        person.expect("I am the first.")
        person.expect("cached")
        person.say("/model groq:none")
        person.expect("no key for the provider 'groq'; run `treadle auth add groq`")
        person.say("!")
        person.expect("a command follows the !")
        person.say(f"/model {other}")
        person.expect(f"model {other}")
        person.say("and now?")
        person.expect("I am the other.")
        person.leave()


def test_a_turn_that_fails_leaves_the_person_at_the_line(treadle):
    answers(treadle, {"error": {"status": 400, "message": "the model is on strike"}})
    with talk(treadle) as person:
        person.say("go")
        person.expect("the model is on strike")
        person.leave()


def test_a_command_that_changes_the_thread_waits_for_the_turn(treadle):
    begun = gate(treadle, "begun")
    answers(treadle, {"calls": [shell(f"echo > {begun}; sleep 600")]})
    with talk(treadle) as person:
        person.say("go")
        begun.read_text()
        person.say("/new")
        person.expect("/new has to wait for the running work; Ctrl-C interrupts it")
        plain = person.leave()
    assert "interrupted" in plain
    assert "aborted by user" in treadle("show", "last").text


def test_a_signal_ends_the_turn_before_the_process(treadle):
    begun = gate(treadle, "begun")
    answers(treadle, {"calls": [shell(f"echo > {begun}; sleep 600")]})
    with talk(treadle) as person:
        person.say("go")
        begun.read_text()
        person.terminal.process.send_signal(signal.SIGTERM)
        code, _ = person.terminal.end()
    assert (code, "Traceback" in person.plain) == (0, False)
    assert "aborted by user" in treadle("show", "last").text


def test_a_project_s_configuration_is_shown_before_it_counts(treadle):
    file = treadle.project / ".treadle" / "config.toml"
    file.parent.mkdir()
    file.write_text('sandbox = "read-only"\n')
    treadle.environ |= {"PROMPT_TOOLKIT_NO_CPR": "1", "TREADLE_MODEL": "scripted:demo"}
    for typed, sandbox in (("n", "workspace-write"), ("y", "read-only")):
        with screen(treadle, columns=250) as terminal:
            person = Talk(terminal)
            person.expect('sandbox = "read-only"')
            person.expect("(n)ot now")
            person.answer(typed)
            person.expect(f"{sandbox}, no network")
            person.seated()
            person.leave()
    with talk(treadle) as person:
        assert "wants to settle" not in person.leave()


def test_the_line_editor_loads_only_for_people(treadle):
    code = "import sys; from treadle.cli.app import run; run(['config']); run(['exec', '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sys.modules, file=sys.stderr)"],
        env=treadle.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"prompt_toolkit", "rich"} & {*done.stderr.split()}


LINES = st.lists(st.sampled_from(["", "a", "```", "~~~~", "```py", "  - b", "    c", "``"]))


@given(LINES, st.data())
def test_blocks_lose_nothing_and_never_cut_code(lines, data):
    text = "\n".join(lines)
    blocks, shown = Blocks(), []
    while text:
        size = data.draw(st.integers(1, len(text)))
        shown += blocks.feed(text[:size])
        text = text[size:]
    shown.append(blocks.rest())
    whole = "\n".join(lines)
    assert [line for block in shown for line in block.split("\n") if line.strip()] == [
        line for line in whole.split("\n") if line.strip()
    ]
    assert [block for block in shown[:-1] if block.count("```") == 1 and "~" not in block] == []


def test_a_line_with_an_exclamation_mark_runs_as_the_user(treadle):
    answers(treadle, {"text": "I see."})
    with talk(treadle) as person:
        person.say("!echo from my shell")
        person.expect("from my shell")
        person.expect("exit code 0")
        person.say("what did I run?")
        person.expect("I see.")
        person.leave()
    sent = treadle("prompt", "--thread", "last", "--json").text
    assert "<user_shell_command>" in sent
    assert "echo from my shell" in sent
    assert inputs(treadle) == ["what did I run?"]


def test_mode_personality_and_context_are_changed_by_commands(treadle):
    (treadle.home / "config.toml").write_text(
        'mode = "plan"\npersonality = "Be short."\n[context.house]\nvalue = "No shoes."\n'
    )
    answers(treadle, {"text": "I plan."}, {"text": "I do."})
    with talk(treadle, "chat", "--personality", "Be kind.") as person:
        person.say("/mode")
        person.expect("mode plan")
        person.say("first")
        person.expect("I plan.")
        person.say("/mode default")
        person.expect("mode default")
        person.say("/personality none")
        person.expect("personality none")
        person.say("/context set weather rain")
        person.expect("weather")
        person.say("/context set 2nd rain")
        person.expect("cannot be a tag")
        person.say("/context weather rain")
        person.expect("there is no /context weather")
        person.say("/context set sky grey")
        person.expect("sky")
        person.say("/context unset sky")
        person.expect("weather")
        person.say("second")
        person.expect("I do.")
        person.leave()
    sent = treadle("prompt", "--thread", "last", "--json").text
    assert "Plan mode is on." in sent
    assert "Be kind." in sent
    assert "<external_house>No shoes.</external_house>" in sent
    assert "The earlier collaboration mode has ended." in sent
    assert "<external_weather>rain</external_weather>" in sent
