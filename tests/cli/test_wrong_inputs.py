"""A hundred wrong inputs: one line, the cause and the next step, the right code, no thread."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.cli.app import run

from .conftest import work
from .terminal import Treadle

USAGE, FAILED = 2, 1

# What is typed, the exit code, the cause, and the next step. FILE is a text, DIR the project.
TABLE: list[tuple[str, int, str, str]] = [
    # Commands and options that do not exist
    ("thread", USAGE, "no command 'thread'", "did you mean 'threads'?"),
    ("exce hello", USAGE, "no command 'exce'", "did you mean 'exec'?"),
    ("fix", USAGE, "no command 'fix'", "`treadle chat TEXT`"),
    ("help exce", USAGE, "no command 'exce'", "`treadle help` lists"),
    ("auth ad openai", USAGE, "no such command 'ad'", "did you mean 'add'?"),
    ("mcp ad docs", USAGE, "no command 'ad'; did you mean 'add'?", "`treadle mcp --help` lists"),
    ("models refrech", USAGE, "no such command 'refrech'", "mean 'refresh'?"),
    ("threads --limt 3", USAGE, "'--limt'", "--limit"),
    ("exec --modle x hello", USAGE, "'--modle'", "--model"),
    ("show last --al", USAGE, "'--al'", "did you mean '--all'"),
    ("doctor --jsn", USAGE, "'--jsn'", "--json"),
    ("threads extra", USAGE, "extra", "treadle threads --help"),
    ("fork", USAGE, "THREAD", "treadle fork --help"),
    ("delete", USAGE, "THREAD", "treadle delete --help"),
    ("exec --model", USAGE, "'--model' requires an argument", "treadle --help"),
    ("--home", USAGE, "'--home' requires an argument", "--help"),
    ("--home FILE threads", USAGE, "is a file", "--help"),
    ("agents show", USAGE, "NAME", "treadle agents show --help"),
    ("agents show reviewr", FAILED, "no kind of agents 'reviewr'", "`treadle agents` lists"),
    ("worktrees", FAILED, "no git repository", "`git init` makes it"),
    ("worktrees remove", USAGE, "NAME", "treadle worktrees remove --help"),
    ("worktrees remove x", FAILED, "no git repository", "-C names another directory"),
    ("exec --worktree=a x", FAILED, "no git repository", "`git init` makes it"),
    # Values that are no values
    ("threads --limit 0", USAGE, "0 is not in the range", "treadle threads --help"),
    ("threads --limit many", USAGE, "'many' is no whole number", "threads --help"),
    ("show last --limit -1", USAGE, "-1 is not in the range", "treadle show --help"),
    ("exec --sandbox readonly x", USAGE, "'readonly' is not one of", "'read-only'"),
    ("exec --approval sometimes x", USAGE, "'sometimes' is not one of", "'on-request'"),
    ("exec --mode plann x", USAGE, "'plann' is not one of", "'plan'"),
    ("exec --cwd /nowhere x", USAGE, "'/nowhere' does not exist", "treadle exec --help"),
    ("exec --cwd FILE x", USAGE, "is a file", "treadle exec --help"),
    ("exec --add-dir /nowhere x", USAGE, "'/nowhere' does not exist", "treadle exec --help"),
    ("import /nowhere", USAGE, "'/nowhere' does not exist", "treadle import --help"),
    ("import FILE --format word", USAGE, "'word' is not one of", "'jsonl'"),
    ("export last --format word", USAGE, "'word' is not one of", "'markdown'"),
    ("rewind last 0", USAGE, "0 is not in the range", "treadle rewind --help"),
    ("rewind last x", USAGE, "'x' is no whole number", "treadle rewind --help"),
    ("exec --max-cost much x", USAGE, "'much' is no number", "treadle exec --help"),
    ("exec --cd DIR x", USAGE, "no such option '--cd'", "did you mean '--cwd' or '--mode'?"),
    ("exec --max-time soon x", USAGE, "'soon' is no length of time", "use 90d, 36h or 30s"),
    ("fork last --at 0", USAGE, "0 is not in the range", "treadle fork --help"),
    ("contracts --harness codx", USAGE, "no harness 'codx'", "'codex'"),
    ("contracts --engine losless", USAGE, "no context engine", "did you mean 'lossless'?"),
    ("contracts --domain rooms", USAGE, "'rooms' is not one of", "'tools'"),
    ("setup --sandbox none", USAGE, "'none' is not one of", "'workspace-write'"),
    # Options that exclude each other
    ("exec --last --resume x y", USAGE, "both name a thread", "leave one out"),
    ("chat --last --resume x", USAGE, "both name a thread", "leave one out"),
    ("exec --anywhere x", USAGE, "--anywhere is about --last", "leave it out"),
    ("exec --yolo --sandbox read-only x", USAGE, "--yolo already sets", "leave them out"),
    ("auth add openai --token --oauth", USAGE, "exclude each other", "leave one out"),
    ("trust --remove --show", USAGE, "exclude each other", "leave one out"),
    ("rewind last 1 --to 3", USAGE, "TURNS", "--to"),
    ("prompt x --at 3", USAGE, "--at needs --thread", "treadle prompt --help"),
    ("new --model openai:gpt-5.5", USAGE, "--model needs TEXT", "treadle new --help"),
    ("auth order openai work --clear", USAGE, "either profiles or --clear", "--help"),
    # Nothing said, nobody there
    ("exec", USAGE, "there is no PROMPT", "treadle exec --help"),
    ("send last", USAGE, "there is no TEXT", "treadle send --help"),
    ("patch", FAILED, "invalid patch", "'*** Begin Patch'"),
    ("chat", USAGE, "no terminal to chat on", "use `treadle exec`"),
    ("--last", USAGE, "no terminal to chat on", "use `treadle exec`"),
    ("--model openai:x", USAGE, "no terminal to chat on", "use `treadle exec`"),
    ("resume last", USAGE, "no terminal to chat on", "`treadle exec --resume`"),
    ("setup", USAGE, "no terminal to ask on", "give --model MODEL"),
    ("delete last", USAGE, "no terminal to ask on", "use --yes"),
    ("recall", USAGE, "either a QUERY or --batch", "treadle recall search --help"),
    # Models
    ("exec --model foo:bar x", USAGE, "there is no provider 'foo'", "known are"),
    ("exec --model opnai:gpt-5.5 x", USAGE, "there is no provider 'opnai'", "mean 'openai'?"),
    ("exec --model claude:opus x", USAGE, "there is no provider 'claude'", "mean 'anthropic'?"),
    ("exec --model= x", USAGE, "'model' is ''", "accepted: a string that is not empty"),
    ("exec --model openai: x", USAGE, "'openai:' names no model", "write 'PROVIDER:MODEL'"),
    ("exec --model codex: x", USAGE, "'codex:' names no model", "write 'PROVIDER:MODEL'"),
    ("new --model foo:bar x", USAGE, "there is no provider 'foo'", "known are"),
    ("new --model openai: x", USAGE, "'openai:' names no model", "write 'PROVIDER:MODEL'"),
    ("prompt --model foo:bar x", USAGE, "there is no provider 'foo'", "known are"),
    ("plan --model foo:bar x", USAGE, "there is no provider 'foo'", "known are"),
    ("exec --model openai:gpt-5.5 x", FAILED, "no key for", "run `treadle auth add openai`"),
    ("exec --model anthropic:claude-opus-5 x", FAILED, "no key for", "`treadle auth add "),
    ("exec --model codex:gpt-5.5 x", FAILED, "no login in", "run `treadle codex login`"),
    ("exec --model codex/gpt-5.5 x", FAILED, "no login in", "run `treadle codex login`"),
    ("exec --model ollama:a --fallback opnai:x x", USAGE, "no provider 'opnai'", "mean 'openai'?"),
    ("exec --model ollama:a --fallback openai: x", USAGE, "names no model", "'PROVIDER:MODEL'"),
    ("setup --model opnai:gpt-5.5", USAGE, "no provider 'opnai'", "did you mean 'openai'?"),
    ("setup --model openai:", USAGE, "'openai:' names no model", "write 'PROVIDER:MODEL'"),
    ("exec --model groq:x hello", FAILED, "no key for", "or set GROQ_API_KEY"),
    ("exec --model azure:x hello", FAILED, "no key for", "set AZURE_OPENAI_API_KEY"),
    ("exec --model scripted:/nowhere.toml x", FAILED, "cannot read the script", "check the path"),
    ("exec --model scripted:FILE x", FAILED, "cannot be used", "correct it"),
    ("models --provider opnai", FAILED, "no provider 'opnai'", "did you mean 'openai'?"),
    ("models refresh nobody", FAILED, "no provider 'nobody'", "the known ones are"),
    # Efforts, engines, harnesses, channels
    ("exec --model MODEL --effort turbo x", USAGE, "'turbo' is no effort", "accepted are"),
    ("exec --model MODEL --effort hihg x", USAGE, "'hihg' is no effort", "did you mean 'high'?"),
    ("new --model MODEL --effort turbo x", USAGE, "'turbo' is no effort", "accepted are"),
    ("plan --model MODEL --effort turbo x", USAGE, "'turbo' is no effort", "accepted are"),
    ("exec --model MODEL --engine losless x", USAGE, "no context engine", "mean 'lossless'?"),
    ("exec --model MODEL --engine nope x", USAGE, "no context engine", "`treadle engines` lists"),
    ("new --model MODEL --engine nope x", USAGE, "no context engine", "`treadle engines` lists"),
    ("exec --last --engine losless x", USAGE, "no context engine", "did you mean 'lossless'?"),
    ("exec --model MODEL --harness nope x", USAGE, "no harness 'nope'", "'auto' chooses"),
    ("exec --model MODEL --channel nope x", FAILED, "'nope'", "channels"),
    ("exec --model MODEL --profile nope x", FAILED, "'nope'", "`treadle auth` lists"),
    ("exec --model MODEL --executor dcker:x x", USAGE, "is no executor", "write one of: local"),
    ("exec --model MODEL --executor docker: x", USAGE, "is no executor", "docker:IMAGE"),
    ("engines check nope", FAILED, "no context engine 'nope'", "`treadle engines` lists"),
    # Files
    ("exec --image FILE x", USAGE, "cannot be sent as an image", "name a whole image file"),
    ("exec --image /nowhere.png x", USAGE, "does not exist", "treadle exec --help"),
    ("exec --image DIR x", USAGE, "is a directory", "treadle exec --help"),
    ("exec --output-schema FILE x", FAILED, "is not a JSON schema", "write a JSON object"),
    ("exec --output-schema LIST x", FAILED, "is not a JSON schema", "write a JSON object"),
    ("exec --output-schema NONSENSE x", USAGE, "the type 'text'", "there are 'object'"),
    ("exec --output-schema /nowhere x", USAGE, "does not exist", "treadle exec --help"),
    ("exec -o /nowhere/x y", USAGE, "there is no directory '/nowhere'", "make it first"),
    ("fake /nowhere.toml", USAGE, "does not exist", "treadle fake --help"),
    ("fake FILE", FAILED, "cannot be used", "correct it"),
    # Threads and entries
    ("show nothing", FAILED, "no thread 'nothing'", "`treadle threads` lists"),
    ("exec --resume nothing x", FAILED, "no thread 'nothing'", "`treadle threads` lists"),
    ("fork nothing", FAILED, "no thread 'nothing'", "`treadle threads` lists"),
    ("send nothing hi", FAILED, "no thread 'nothing'", "`treadle threads` lists"),
    ("fork last --at 9999", FAILED, "9999", ""),
    ("rewind last 99 --yes", FAILED, "99", ""),
    ("recall show nothing", USAGE, "'nothing'", "treadle recall"),
    ("review --commit nowhere", FAILED, "no git repository", "or name one with -C"),
    # Settings and keys
    ("config explain modle", FAILED, "no key 'modle'", "did you mean"),
    ("auth add nope", FAILED, "no provider 'nope'", "the known ones are"),
    ("auth add nobody", FAILED, "no provider 'nobody'", "the known ones are"),
    ("auth remove nobody", FAILED, "no profile 'nobody'", "`treadle auth` lists"),
    ("auth pin last nobody", FAILED, "'nobody'", "`treadle auth` lists"),
    ("auth test nobody", FAILED, "no profile 'nobody'", "`treadle auth` lists"),
    ("mcp get nothing", FAILED, "no MCP server 'nothing'", "`treadle mcp list` lists"),
    ("mcp add a/b -- x", FAILED, "'a/b' cannot name an MCP server", "use up to 64 letters"),
    ("mcp serve --port 4011", USAGE, "are for --http", "add it"),
    ("mcp add docs", USAGE, "a server is a command or an address", "give `-- COMMAND`"),
    ("mcp add docs --url there", FAILED, "no http address: 'there'", "use https://"),
    ("skills show nothing", FAILED, "no skill 'nothing'", "`treadle skills` lists"),
    ("plugin show DIR", FAILED, "is no plug-in", "skills"),
    ("prune --older-than soon", USAGE, "'soon'", "90d"),
    ("prompts import --codex /nowhere", USAGE, "does not exist", "treadle prompts import --help"),
]  # fmt: skip


class Shell:
    """Runs commands in this process; its home has one thread."""

    def __init__(self, place: Path) -> None:
        self.treadle = Treadle(place / "home", place / "project")
        for directory in (self.treadle.home, self.treadle.project):
            directory.mkdir(mode=0o700)
        asyncio.run(work(self.treadle))
        (place / "words.txt").write_text("words = ")
        (place / "list.json").write_text("[]")
        (place / "nonsense.json").write_text('{"properties": {"x": {"type": "text"}}}')
        (place / "script.toml").write_text('[[answer]]\ntext = "Hello."\n')
        self.words = {
            "FILE": str(place / "words.txt"),
            "DIR": str(place),
            "LIST": str(place / "list.json"),
            "NONSENSE": str(place / "nonsense.json"),
            "MODEL": f"scripted:{place / 'script.toml'}",
        }

    def run(self, line: str) -> tuple[int, str, str]:
        args = [self._word(word) for word in line.split()]
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(args)
        out.seek(0)
        return code, out.read(), err.getvalue()

    def _word(self, word: str) -> str:
        for name, value in self.words.items():
            if word == name or word.endswith(f":{name}"):
                return word.removesuffix(name) + value
        return word


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("wrong"))


@pytest.fixture
def here(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(shell.treadle.project)
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name.startswith("TREADLE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TREADLE_HOME", str(shell.treadle.home))
    monkeypatch.setenv("HOME", str(shell.treadle.project))
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("typed", "code", "cause", "remedy"), TABLE, ids=str)
def test_a_wrong_input_is_one_line(shell, typed, code, cause, remedy):
    done, out, err = shell.run(typed)
    assert (done, out, err.count("\n")) == (code, "", 1), err
    assert err.startswith("treadle: ")
    assert cause in err
    assert remedy in err
    assert len(json.loads(shell.run("threads --json")[1])) == 1


def test_the_table_has_a_hundred_rows():
    assert len({typed for typed, *_ in TABLE}) >= 100
