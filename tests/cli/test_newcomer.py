"""A newcomer's first session, as it looks: each screen is compared with the one below."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from treadle.thread.thread import Thread

from .scripts import scripted, shell
from .terminal import Treadle
from .test_door import LOCAL
from .window import Window, window

ANSWER = """\
# Notes

Some **bold** words, and a list:


- one
- two

That is all.
"""
PATCH = """\
*** Begin Patch
*** Update File: notes.md
@@
 two
-three
+THREE
 four
*** End Patch
"""
NO_SERVERS = {f"{name}_BASE_URL": "http://127.0.0.1:9/v1" for name in LOCAL}
ASKED = shell(
    "touch /etc/nope", sandbox_permissions="require_escalated", justification="May I write there?"
)


@pytest.fixture
def ready() -> Iterator[Treadle]:
    """A project with notes in a place whose name is always as long, and a model with answers."""
    with tempfile.TemporaryDirectory(prefix="n-", dir="/tmp") as place:
        project, home = Path(place, "project"), Path(place, "home")
        (project / ".git").mkdir(parents=True)
        home.mkdir(mode=0o700)
        (project / "notes.md").write_text("one\ntwo\nthree\nfour\n")
        os.mkfifo(project / "begun")
        treadle = Treadle(home, project, {"HOME": place})
        model = scripted(
            treadle,
            {"when": "go on", "text": "Here again."},
            {"text": ANSWER, "usage": {"input": 1000, "cached": 800, "output": 10}},
            {"calls": [shell(f"apply_patch <<'EOF'\n{PATCH}EOF\n")]},
            {"calls": [ASKED]},
            {"text": "All done."},
            {"calls": [shell("echo first; echo second; echo > begun; sleep 600")]},
            name="s.jsonl",
        )
        treadle.environ["MODEL"] = model
        yield treadle


def look(session: Window, treadle: Treadle, *texts: str, since: str = "Treadle") -> str:
    """The screen from the line `since` to the input line, once these texts stand on it.

    Instead of the place it has a name that is as long. The line at the bottom comes when the
    terminal has told how high it is.
    """
    session.until(*texts)
    place = str(treadle.home.parent)
    lines = session.text.replace(place, "/tmp/PLACE".ljust(len(place), "_")).split("\n")
    first = max(at for at, line in enumerate(lines) if line.startswith(since))
    shown = (line for line in lines[first:] if not line.startswith("scripted:"))
    return "\n".join(shown).rstrip("\n")


async def begin_elsewhere(treadle: Treadle) -> None:
    """Another thread, in another directory."""
    place = treadle.home.parent / "other"
    place.mkdir()
    async with Thread.open(model="openai:gpt-5.5", cwd=place, home=treadle.home) as thread:
        await thread.log.turns.admit("find the [red]leak[/red]")


def test_a_first_session(ready):
    with window(ready, "setup", rows=70, environ=NO_SERVERS) as session:
        session.until("1 of 3. Which model?", "scripted:demo: a script", "or PROVIDER:MODEL [1] >")
        session.type(f"{ready.environ['MODEL']}\r")
        session.until("1 to 3 [1] >")
        session.type("\r")
        assert session.end() == 0
        assert look(session, ready, "Try it", since="3 of 3.") == snapshot("""\
3 of 3. What may the agent do?
 1  write in the project, ask for anything beyond
 2  only read, ask before every change
 3  do everything that you can, without asking
1 to 3 [1] >
wrote /tmp/PLACE_____/home/config.toml: model = scripted:/tmp/PLACE_____/s.jsonl
, sandbox = workspace-write, approval = on-request
Try it: `treadle`, or `treadle "what is this project?"`\
""")
    with window(ready, rows=70) as session:
        assert look(session, ready, "\n>") == snapshot("""\
Treadle V · scripted:/tmp/PLACE_____/s.jsonl · ~/project
workspace-write, no network · approval on-request · /help lists the commands
>\
""")
        session.type("what is in @notes.md?\r")
        assert look(session, ready, "cached\n>") == snapshot("""\
Treadle V · scripted:/tmp/PLACE_____/s.jsonl · ~/project
workspace-write, no network · approval on-request · /help lists the commands
> what is in @notes.md?
                                     Notes

Some bold words, and a list:

 • one
 • two

That is all.

context N% of 258,400 · N% cached
>\
""")
        session.type("change it\r")
        assert look(session, ready, "there?\n(y)es", since="> change it") == snapshot("""\
> change it
• patch notes.md
  notes.md · +1 -1
  2  two
  3 -three
  3 +THREE
  4  four
  ok · N s · Success. Updated the following files: M notes.md
? run OUTSIDE the sandbox: bash -c 'touch /etc/nope'
  in /tmp/PLACE_____/project
  the model says: May I write there?
(y)es once, this (t)hread, (n)o, no and (s)top >\
""")
        session.type("n\r")
        session.until("All done.\n\ncontext N% of 258,400 · N% cached\n>")
        session.type("/undo\r")
        assert look(session, ready, "> /undo", "(n)o\nanswer >", since="> /undo") == snapshot("""\
> /undo
hides turn 2: change it
  restore   notes.md
Rewind the conversation and 1 path? (y)es, (c)onversation only, (f)iles only,
(n)o
answer >\
""")
        session.type("f\r")
        assert look(session, ready, "path is as before\n>", since="> /undo") == snapshot("""\
> /undo
hides turn 2: change it
  restore   notes.md
Rewind the conversation and 1 path? (y)es, (c)onversation only, (f)iles only,
(n)o
  f
1 path is as before
>\
""")
        assert (ready.project / "notes.md").read_text() == "one\ntwo\nthree\nfour\n"
        session.type("/cost\r")
        spent = look(session, ready, "> /cost", "has yours\n>", since="> /cost")
        assert re.sub(r"\d[\d,]* (tokens in|out)", r"N \1", spent) == snapshot("""\
> /cost
this turn    not known (3 answers, N tokens in, N out)
this thread  not known (4 answers, N tokens in, N out)
its agents   none
today        not known (4 answers, N tokens in, N out)
not known: scripted:/tmp/PLACE_____/s.jsonl; [prices] in the settings has yours
>\
""")
        session.type("wait\r")
        (ready.project / "begun").read_text()
        session.until("  second\n")
        session.type("one more thing\r")
        session.until("queued: one more thing")
        session.type("\x1b")
        assert look(
            session, ready, "interrupted", "cached\n> one more thing", since="> wait"
        ) == snapshot("""\
> wait
• echo first; echo second; echo > begun; sleep 600
  failed · N s · Wall time: N seconds aborted by user
interrupted
context N% of 258,400 · N% cached
> one more thing\
""")
        session.type("\x03\x04")
        assert session.end() == 0
        (thread,) = re.findall(r"to continue this thread: treadle resume (\w+)$", session.shown)
    asyncio.run(begin_elsewhere(ready))
    with window(ready, "chat", "--resume", thread, rows=70) as session:
        assert look(session, ready, "> wait", "600\n>") == snapshot("""\
Treadle V · scripted:/tmp/PLACE_____/s.jsonl · ~/project
workspace-write, no network · approval on-request · /help lists the commands
> what is in @notes.md?
                                     Notes

Some bold words, and a list:

 • one
 • two

That is all.

> change it
• patch notes.md
• touch /etc/nope
All done.

> wait
• echo first; echo second; echo > begun; sleep 600
>\
""")
        session.type("go on\r")
        session.until("Here again.", "cached\n>")
        session.type("/resume\r")
        assert look(session, ready, "> /resume", "Esc leaves", since="> go on") == snapshot("""\
> go on
Here again.

context N% of 258,400 · N% cached
> /resume
Continue which thread?
> find the [red]leak[/red]                                   ~/other · just now
type to filter · Enter takes it · Esc leaves\
""")
        session.type("\r")
        session.until("~/other", "> find the [red]leak[/red]\n>")
        session.type("\x04")
        assert session.end() == 0


def test_a_session_in_a_narrow_window_without_colour(ready):
    (ready.home / "config.toml").write_text(f'model = "{ready.environ["MODEL"]}"\n')
    with window(ready, columns=60, rows=90, environ={"NO_COLOR": "1"}) as session:
        assert look(session, ready, "\n>") == snapshot("""\
Treadle V · scripted:/tmp/PLACE_____/s.jsonl · ~/project
workspace-write, no network · approval on-request · /help
lists the commands
>\
""")
        session.type("what is in @notes.md?\r")
        session.until("cached\n>")
        session.type("change it\r")
        assert look(session, ready, "there?\n(y)es", since="> change it") == snapshot("""\
> change it
• patch notes.md
  notes.md · +1 -1
  2  two
  3 -three
  3 +THREE
  4  four
  ok · N s · Success. Updated the following files: M
notes.md
? run OUTSIDE the sandbox: bash -c 'touch /etc/nope'
  in /tmp/PLACE_____/project
  the model says: May I write there?
(y)es once, this (t)hread, (n)o, no and (s)top >\
""")
        session.type("n\r")
        session.until("All done.\n\ncontext N% of 258,400 · N% cached\n>")
        session.type("wait\r")
        (ready.project / "begun").read_text()
        assert look(session, ready, "> wait", "  second\n>", since="> wait") == snapshot("""\
> wait
* echo first; echo second; echo > begun; sleep 600 · N s
  first
  second
>\
""")
        session.type("\x1b")
        session.until("interrupted")
        session.type("/help\r")
        session.until("suspend, leave")
        session.type("\x04")
        assert session.end() == 0
    colours = re.findall(rb"\x1b\[[\d;]*m", session.raw)
    assert [each for each in set(colours) if re.search(rb"[\[;](?:3[0-8]|9[0-7])[;m]", each)] == []
    assert max(map(len, session.lines)) <= 60
