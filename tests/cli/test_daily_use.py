"""What users of the chat do all day: files, pastes, going back, rights, commands of their own."""

from __future__ import annotations

import base64
import re
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.pictures import data_url, picture
from tests.skills.scenes import write_skill
from treadle.cli.repl.completions import LineCompleter
from treadle.cli.repl.custom_commands import find_commands
from treadle.cli.repl.live import Live, elapsed
from treadle.cli.repl.mentions import ProjectFiles, compose
from treadle.cli.repl.notifier import Notifier
from treadle.cli.repl.numbered_diff import NumberedLine, number_diff, number_patch
from treadle.cli.repl.pastes import Pastes
from treadle.cli.repl.slash import is_command
from treadle.config import Settings
from treadle.harness.events import ToolStarted
from treadle.prompt.input import LocalFile, LocalImage

from .scripts import shell
from .terminal import Treadle
from .test_chat import answers, gate
from .test_exec import inputs
from .window import Window, window


def chat(treadle: Treadle, *args: str, **options: Any) -> AbstractContextManager[Window]:
    return window(treadle, *args, columns=250, rows=40, **options)


def sent(treadle: Treadle) -> str:
    return treadle("prompt", "--thread", "last", "--json").text


def test_files_are_mentioned_and_pastes_collapsed(treadle):
    (treadle.project / "notes.md").write_text("remember </file> this\n")
    (treadle.home / "secret.txt").write_text("a secret")
    answers(treadle, {"text": "Read."}, {"text": "Read too."})
    with chat(treadle) as session:
        session.until("\n>")
        session.type("look at @not")
        session.until(" notes.md")
        session.type("\t and go\r")
        session.until("> look at @notes.md  and go\n", "Read.")
        session.type(f"and @{treadle.home}/secret.txt\r")
        session.until("cannot be read: is hidden by the sandbox policy")
        session.type("\x15")
        session.paste("\n".join(f"line {n}" for n in range(20)))
        session.until("> [pasted text #1: 20 lines]")
        session.type(" is it\r")
        session.until("> [pasted text #1: 20 lines] is it\n", "Read too.")
        session.type("\x04")
        assert session.end() == 0
    body = sent(treadle)
    assert "remember &lt;/file> this" in body
    assert "a secret" not in body
    assert inputs(treadle)[1].endswith("line 18\nline 19 is it")
    assert "+line 19 is it" in (treadle.home / "history").read_text()


def test_images_are_dragged_and_pasted_and_answers_copied(treadle):
    """The program of the desktop is a script here; a terminal has no clipboard of its own."""
    programs = treadle.home.parent / "bin"
    programs.mkdir()
    (programs / "copied").write_bytes(picture(width=9))
    (programs / "xclip").write_text(
        f"""#!/bin/sh
case "$*" in
"-selection clipboard -t image/png -o") cat {programs}/copied ;;
"-selection clipboard") cat > {programs}/text ;;
esac
"""
    )
    (programs / "xclip").chmod(0o755)
    (treadle.project / "xclip").write_text("#!/bin/sh\ntouch run")
    (treadle.project / "xclip").chmod(0o755)
    (treadle.project / "drawn here.png").write_bytes(picture(width=5))
    path = f"{treadle.project}:{programs}:{treadle.env['PATH']}"
    answers(treadle, {"text": "Seen."})
    with chat(treadle, environ={"DISPLAY": ":1", "PATH": path}) as session:
        session.until("\n>")
        session.paste(f"'{treadle.project}/drawn here.png'")
        session.until("> [image #1: drawn here.png]")
        session.type(" and \x16")
        session.until(" and [image #2: pasted, 1 KB]")
        (programs / "copied").write_bytes(b"")
        session.paste("")  # what terminals do that see an image and no text
        session.until("no image can be read from the clipboard; drag its file in here")
        session.type("\r")
        session.until("Seen.", "cached\n>")
        session.type("/copy\r")
        session.until("copied 5 characters\n")
        session.type("\x04")
        assert session.end() == 0
    assert (programs / "text").read_text() == "Seen."
    images = re.findall(r'"(data:image/[^"]+)"', treadle("show", "last", "--json").text)
    assert images == [data_url(picture(width=width)) for width in (5, 9)]
    assert not (treadle.project / "run").exists()


def test_the_user_goes_back_to_an_earlier_message(treadle):
    answers(treadle, {"text": "Answer.", "times": 0})
    with chat(treadle) as session:
        session.until("\n>")
        for words in ("one", "two", "three"):
            session.type(f"{words}\r")
            session.until(f"> {words}\nAnswer.", "cached\n>")
        session.type("\x1b\x1b")
        session.until("Go back to before which message?", "> three")
        session.type("tw")
        session.until("message? tw")
        session.type("\r")
        session.until("the model sees nothing from that message on", "\n> two")
        session.type(" again\r")
        session.until("> two again\nAnswer.", "cached\n>")
        session.type("\x04")
        assert session.end() == 0
    body = sent(treadle)
    assert [word in body for word in ('"one"', '"two"', '"three"', '"two again"')] == [
        True,
        False,
        False,
        True,
    ]


def test_a_queued_message_is_taken_back_and_changed(treadle):
    begun, more = gate(treadle, "begun"), gate(treadle, "more")
    waits = shell(f"echo > {begun}; cat {more}")
    answers(treadle, {"calls": [waits]}, {"text": "Done."})
    with chat(treadle, "chat", "--yolo") as session:
        session.until("\n>")
        session.type("go\r")
        begun.read_text()
        session.type("and red\r")
        session.until("queued: and red")
        session.type("\x1b[A")
        session.until("\n> and red")
        session.type("\x7f\x7f\x7fblue\r")
        session.until("queued: and blue")
        more.write_text("open\n")
        session.until("> and blue\n", "Done.")
        session.type("\x04")
        assert session.end() == 0
    assert inputs(treadle) == ["go", "and blue"]


def test_rights_are_changed_by_commands(treadle):
    answers(treadle, {"text": "Planned."}, {"text": "Done."})
    with chat(treadle) as session:
        session.until("\n>")
        session.type("/approvals never\r")
        session.until("approval never")
        session.type("/approvals sometimes\r")
        session.until("/approvals does not know 'sometimes'; use one of untrusted")
        session.type("/sandbox\r")
        session.until("What may commands do?", "no sandbox: commands can do everything")
        session.type("read\r")
        session.until("sandbox read-only, no network")
        session.type("/sandbox danger-full-access\r")
        session.until("Really without a sandbox?")
        session.type("\r")
        session.until("> /sandbox danger-full-access\nsandbox read-only, no network")
        session.type("/plan the roof\r")
        session.until("mode plan", "> the roof\nPlanned.", "cached\n>")
        session.type("/plan off\r")
        session.until("mode default")
        session.type("build\r")
        session.until("> build\nDone.", "cached\n>")
        session.type("\x04")
        assert session.end() == 0
    body = sent(treadle)
    assert "read-only" in body
    assert "Plan mode is on." in body
    assert "The earlier collaboration mode has ended." in body


def test_commands_of_files_are_sent_and_those_of_a_project_only_after_trust(treadle):
    own, project = treadle.home / "commands", treadle.project / ".treadle/commands"
    for place, text in ((own, "Check $1, then $ARGUMENTS."), (project, "Never sent.")):
        place.mkdir(parents=True)
        (place / "check.md").write_text(f"---\ndescription: Look closely\n---\n{text}\n")
    (project / "ship.md").write_text("Ship it.\n")
    (project / "help.md").write_text("Not the help.\n")
    for name in ("check", "ship", "help"):
        write_skill(treadle.home / "skills", name, body="Never reached.")
    answers(treadle, {"text": "Answer.", "times": 0})
    with chat(treadle) as session:
        session.until("\n>")
        session.type("/che")
        session.until("/check", "Look closely")
        session.type("ck a b\r")
        session.until("> /check a b\nAnswer.", "cached\n>")
        assert session.text.count("/check a b") == 1
        session.type("/ship\r")
        session.until("Ship it.", "Use this command of the project?")
        session.type("\r")
        session.until("Ship it.\n>")
        session.type("/ship\r")
        session.until("Use this command of the project?")
        session.type("yes\r")
        session.until("> /ship\nAnswer.", "cached\n>")
        session.type("/ship now\r")
        session.until("> /ship now\nAnswer.", "cached\n>")
        session.type("\x04")
        assert session.end() == 0
    assert inputs(treadle) == ["Check a, then a b.", "Ship it.", "Ship it.\n\nnow"]
    assert "Never reached." not in sent(treadle)


def test_answers_are_copied_threads_named_and_instructions_written(treadle):
    answers(
        treadle,
        {"text": "The answer."},
        {"when": "three to seven words", "text": '"A fine name"'},
        {"when": "AGENTS.md", "text": "Written."},
    )
    with chat(treadle) as session:
        session.until("\n>")
        session.type("/title\r")
        session.until("/title TEXT names it now")
        session.type("what?\r")
        session.until("The answer.", "cached\n>")
        session.type("/copy\r")
        session.until("copied 11 characters")
        session.type("/title\r")
        session.until("title: A fine name")
        session.type("/init\r")
        session.until("Written.", "cached\n>")
        session.type("/title Another name\r")
        session.until("title: Another name")
        session.type("\x04")
        assert session.end() == 0
    assert base64.b64encode(b"The answer.") in session.raw
    assert treadle("threads", "--json").json[0]["title"] == "Another name"


def test_a_long_text_is_written_in_the_editor_of_the_user(treadle):
    editor = treadle.home.parent / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s, more" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    treadle.environ["EDITOR"] = str(editor)
    answers(treadle, {"text": "Read."})
    with chat(treadle) as session:
        session.until("\n>")
        session.type("begun\x07")
        session.until("> begun, more")
        session.type("\r")
        session.until("Read.")
        session.type("\x04")
        assert session.end() == 0
    assert inputs(treadle) == ["begun, more"]


def test_ctrl_z_suspends_and_the_shell_continues(treadle):
    answers(treadle, {"text": "Back again."})
    shell_command = ("/bin/bash", "--norc", "--noprofile", "-i")
    with window(treadle, columns=100, environ={"PS1": "$ "}, command=shell_command) as session:
        session.until("$")
        session.type("treadle chat\r")
        session.until("/help lists", "\n>")
        session.type("typed\x1a")
        session.until("Stopped", "treadle chat\n$")
        session.type("stty -a | grep -o ' [-]*icanon'; fg\r")
        session.until("\n icanon", "> typed")
        session.type(" more\r")
        session.until("Back again.", "cached\n>")
        session.type("\x04")
        session.until("resume ID\n$")
    assert inputs(treadle) == ["typed more"]


def test_plain_text_has_neither_colours_nor_moving_parts(treadle):
    (treadle.home / "config.toml").write_text("notify_after = 0\n")
    answers(treadle, {"text": "# Title\n\n**Bold.**\n", "calls": [shell("echo hi")]}, {"text": "."})
    with window(treadle, "chat", "--plain") as session:
        session.until("\n>")
        session.type("go\r")
        session.until("> go\n# Title", "running: echo hi", "\n.\n")
        session.type("/approvals\r")
        session.until("3. never", "a number, or nothing to leave it >")
        session.type("3\r")
        session.until("approval never")
        session.type("\x04")
        assert session.end() == 0
    assert [each for each in re.findall(rb"\x1b\[([\d;]+)m", session.raw) if each != b"0"] == []
    assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", session.raw.decode())
    assert session.raw.count(b"\x07") == 1  # at the end of the turn


@pytest.mark.parametrize(
    ("environ", "setting", "seconds", "sequence"),
    [
        ({}, "auto", 11.0, "\a"),
        ({}, "auto", 9.0, ""),
        ({"TERM_PROGRAM": "WezTerm"}, "auto", 11.0, "\x1b]9;Treadle: the turn has ended\a"),
        ({"TERM_PROGRAM": "WezTerm", "TMUX": "x"}, "auto", 11.0, "\a"),
        ({"TERM_PROGRAM": "WezTerm"}, "bell", 11.0, "\a"),
        ({}, "desktop", 11.0, "\x1b]9;Treadle: the turn has ended\a"),
        ({}, "off", 11.0, ""),
    ],
)
def test_the_end_of_a_long_turn_is_told(environ, setting, seconds, sequence):
    told: list[str] = []
    Notifier(Settings(notify=setting), environ, told.append).notify("the turn has ended", seconds)
    assert told == [sequence] * bool(sequence)


def test_exec_shows_what_it_does_and_leaves_nothing_of_it(treadle):
    begun, more = gate(treadle, "begun"), gate(treadle, "more")
    answers(treadle, {"calls": [shell(f"echo > {begun}; cat {more}")]}, {"text": "Finished."})
    with window(treadle, "exec", "--yolo", "go", columns=200) as session:
        begun.read_text()
        session.until("* echo > ", " · N s")
        more.write_text("open\n")
        assert session.end() == 0
    assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", session.shown)
    assert "Finished." in session.lines


def test_the_clock_of_a_call_stands_while_the_user_is_asked():
    now = [0.0]
    live = Live(clock=lambda: now[0])
    live.begin("waiting")
    live.add(ToolStarted(call_id="c1", name="exec_command", arguments="{}"))
    for at, step in ((2.0, live.hold), (3.0, live.hold), (62.0, live.release)):
        now[0] = at
        step()
    now[0] = 65.0
    assert (live.seconds, now[0] - live.calls["c1"].began) == (5.0, 5.0)
    assert elapsed(live.seconds + 60) == "1 min 05 s"


def test_a_sentence_that_begins_with_a_path_is_no_command():
    said = {
        "/help": True,
        "/model x": True,
        "/": True,
        "/etc/hosts what is it?": False,
        "hi": False,
    }
    assert {line: is_command(line) for line in said} == said


def test_dragged_images_become_parts(tmp_path):
    picture = tmp_path / "a b.png"
    picture.write_bytes(b"")
    other = tmp_path / "c.jpg"
    other.write_bytes(b"")
    pastes = Pastes()
    escaped = str(picture).replace(" ", "\\ ")
    marks = [pastes.take(text) for text in (escaped, f"'{picture}'", f"file://{other}", "x.png")]
    assert marks == ["[image #1: a b.png]", "[image #2: a b.png]", "[image #3: c.jpg]", "x.png"]
    said = compose(f"{marks[2]} and {marks[0]} and @c.jpg", pastes, tmp_path)
    assert said.parts[1:] == (LocalImage(other), LocalImage(picture), LocalImage(other))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("see @a.py, and @sub/b.py.", ["a.py", "sub/b.py"]),
        ('@"with blank.md" twice @"with blank.md"', ["with blank.md"]),
        ("mail me@a.py or @nobody", []),
    ],
)
def test_mentions_are_files_that_exist(tmp_path, line, names):
    (tmp_path / "sub").mkdir()
    for name in ("a.py", "sub/b.py", "with blank.md"):
        (tmp_path / name).write_text("x")
    said = compose(line, Pastes(), tmp_path)
    assert said.parts == (line, *(LocalFile(tmp_path / name) for name in names))


def test_files_and_commands_are_completed_with_what_they_mean(tmp_path):
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    for name in ("src/deep/target_file.py", "top.py", ".hidden", "node_modules/top.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    completer = LineCompleter(lambda _: [("/new", "start over")], ProjectFiles(tmp_path))

    def offered(text: str) -> list[tuple[str, str]]:
        found = completer.get_completions(Document(text), CompleteEvent())
        return [(each.text, each.display_meta_text) for each in found]

    assert offered("/n") == [("/new", "start over")]
    assert offered("see @tgfile") == [("@src/deep/target_file.py ", "")]
    assert offered("@top") == [("@top.py ", "")]
    assert offered("/x") == offered("plain") == []


def test_the_lines_of_patches_and_diffs_have_numbers():
    patch = "*** Begin Patch\n*** Update File: a\n@@\n b\n-c\n+C\n+D\n@@\n-y\n+Y\n*** End Patch"
    before, after = ["a", "b", "c", "x", "y"], ["a", "b", "C", "D", "x", "Y"]
    numbered = [
        NumberedLine("file", "a · +3 -2"),
        NumberedLine(" ", "b", 2),
        NumberedLine("-", "c", 3),
        NumberedLine("+", "C", 3),
        NumberedLine("+", "D", 4),
        NumberedLine("@", "⋮"),
        NumberedLine("-", "y", 5),
        NumberedLine("+", "Y", 6),
    ]
    assert number_patch(patch, lambda _: after, applied=True) == numbered
    assert number_patch(patch, lambda _: before, applied=False) == numbered
    assert {line.number for line in number_patch(patch, lambda _: [], applied=True)} == {None}
    diff = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -7,2 +7,2 @@\n k\n--- dash\n+m"
    diff += "\n\\ No newline at end of file\n+++ new file b"
    assert [(line.kind, line.number) for line in number_diff(diff)] == [
        *[("file", None)] * 3,
        ("@", None),
        (" ", 7),
        ("-", 8),
        ("+", 8),
        (" ", None),
        ("file", None),
    ]


def test_a_project_s_command_is_read_only_where_a_model_may_read(tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    place = project / ".treadle/commands"
    place.mkdir(parents=True)
    home.mkdir()
    (home / "secret.md").write_text("secret")
    (place / "leak.md").symlink_to(home / "secret.md")
    (place / "bad name.md").write_text("x")
    (place / "fine.md").write_text("x")
    assert list(find_commands(home, project)) == ["fine"]
