"""The first ten minutes: what somebody types before they have read anything."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace

import click
import pytest

from treadle.cli.cli_home import Home
from treadle.cli.first_steps import offer_a_way_in
from treadle.cli.output import Column, fit_table
from treadle.cli.run_options import RunOptions
from treadle.cli.settings_file import write_settings
from treadle.cli.setup_questions import SetupQuestions, model_offers
from treadle.cli.user_questions import Read
from treadle.config import Settings
from treadle.core.errors import ConfigError
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script

from .scripts import scripted
from .terminal import SCRIPT, Treadle
from .test_chat import Talk, talk
from .test_terminal import screen, shown, without_colour
from .window import window

LOCAL = ("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM", "LOCAL")


def elsewhere(treadle: Treadle, name: str = "elsewhere") -> Treadle:
    place = treadle.project / name
    place.mkdir()
    return replace(treadle, project=place)


def test_last_means_the_last_thread_of_this_directory(treadle):
    model = scripted(treadle, {"text": "One."}, {"text": "Two."})
    treadle("exec", "here", "--model", model)
    (here,) = treadle("threads", "--json").json
    other = elsewhere(treadle)
    for args in (["exec", "--last", "go on"], ["exec", "--continue", "go on"], ["show", "last"]):
        said = other.refused(*args)
        assert said.count("\n") == 1
        assert f"the newest elsewhere is {here['id']} in {str(treadle.project)!r}" in said
    other("exec", "there", "--model", model)
    treadle("exec", "--last", "go on")
    assert treadle("show", "last").text == treadle("show", here["id"]).text
    assert "there" in other("show", "last").text
    done = other("exec", "--last", "--anywhere", "--json", "and on")
    assert done.json_lines[0]["thread_id"] == here["id"]
    assert "leave it out" in treadle.refused("exec", "--anywhere", "x", code=2)


def test_what_is_only_imported_is_not_the_last(treadle, tmp_path):
    line = {"thread": "old", "id": "1", "role": "user", "content": "hi", "time": 1_900_000_000_000}
    (tmp_path / "old.jsonl").write_text(json.dumps(line) + "\n")
    model = scripted(treadle, {"text": "One."})
    treadle("import", str(tmp_path / "old.jsonl"), "--format", "jsonl")
    assert "no thread 'last'" in treadle.refused("show", "last")
    treadle("exec", "here", "--model", model)
    treadle("import", str(tmp_path / "old.jsonl"), "--format", "jsonl")
    assert "here" in treadle("show", "last").text


def test_a_script_is_found_from_another_directory(treadle):
    (treadle.project / "s.jsonl").write_text('{"text": "One."}\n')
    treadle("exec", "x", "--model", "scripted:s.jsonl")
    assert elsewhere(treadle)("exec", "--last", "--anywhere", "y").text == "One.\n"


@pytest.mark.parametrize(
    "args", [["fix it"], ["chat", "fix it"], ["--model", "x"], ["--last"], ["--sandbox=read-only"]]
)
def test_words_and_options_without_a_command_are_for_the_chat(treadle, args):
    said = treadle.refused(*args, code=2)
    assert said == "treadle: there is no terminal to chat on; use `treadle exec`\n"


def test_the_first_words_may_stand_on_the_command_line(treadle):
    model = scripted(treadle, {"text": "Mended."})
    with talk(treadle, "--model", model, "fix it") as person:
        person.expect("fix it")
        person.expect("Mended.")
        person.leave()


def test_help_is_a_command_too(treadle):
    assert treadle("help").text == treadle("--help").text
    assert treadle("help", "auth", "add").text == treadle("auth", "add", "--help").text
    assert "there is no command 'auth ad'" in treadle.refused("help", "auth", "ad", code=2)


def test_resume_lists_the_threads_of_this_directory(treadle):
    treadle("new", "one thing")
    other = elsewhere(treadle)
    other("new", "another thing")
    assert [row["name"] for row in treadle("resume", "--json").json] == ["one thing"]
    listed = other("resume", "--anywhere").text
    assert "one thing" in listed
    assert "another thing" in listed
    assert "treadle exec --resume" in treadle.refused("resume", "last", code=2)


def test_resume_lets_a_person_choose(treadle):
    model = scripted(treadle, {"text": "One."}, {"text": "Two."})
    treadle("exec", "the first words", "--model", model)
    treadle.environ |= {"PROMPT_TOOLKIT_NO_CPR": "1", "TREADLE_MODEL": model}
    with screen(treadle, "resume", columns=80) as terminal:
        person = Talk(terminal)
        person.expect("Continue which thread?")
        person.expect("the first words")
        person.answer("")
        person.expect(" · approval ")
        person.expect("One.")  # what was said before
        person.expect(">")
        person.leave()
    assert len(treadle("threads", "--json").json) == 1


# No key


def without_servers(monkeypatch: pytest.MonkeyPatch, **places: str) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TREADLE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    for name in LOCAL:
        monkeypatch.setenv(f"{name}_BASE_URL", places.get(name, "http://127.0.0.1:9/v1"))


def reader(*lines: str) -> tuple[Read, list[str]]:
    waiting, asked = list(lines), []

    async def read(prompt: str) -> str:
        asked.append(prompt)
        return waiting.pop(0)

    return read, asked


def test_without_a_key_a_local_server_and_the_demo_are_offered(treadle, monkeypatch, capsys):
    async def main() -> None:
        async with FakeServer(Script(answers=(Answer(text="Hi."),))) as server:
            place = server.base_url
            without_servers(monkeypatch, OLLAMA=place)
            read, _ = reader("7", "1")
            options = await offer_a_way_in(Home(treadle.home), RunOptions(), None, read)
        said = capsys.readouterr().err
        assert "no key for the provider 'openai'; run `treadle auth add openai`" in said
        assert f"at {place}" in said
        assert "scripted:demo" in said
        assert options.model is not None
        assert options.model.startswith("ollama:")

    asyncio.run(main())


def test_without_a_key_and_a_wish_nothing_is_started(treadle, monkeypatch):
    async def main() -> None:
        without_servers(monkeypatch)
        read, _ = reader("")
        with pytest.raises(click.exceptions.Exit) as left:
            await offer_a_way_in(Home(treadle.home), RunOptions(), None, read)
        assert left.value.exit_code == 1
        read, _ = reader("1")
        options = await offer_a_way_in(Home(treadle.home), RunOptions(), None, read)
        assert options.model == "scripted:demo"
        known = RunOptions(model="scripted:demo")
        assert await offer_a_way_in(Home(treadle.home), known, None, read) == known

    asyncio.run(main())


def test_a_local_model_whose_server_does_not_run_is_told_before_the_first_word(
    treadle, monkeypatch, capsys
):
    async def main() -> None:
        without_servers(monkeypatch)
        read, _ = reader("1")
        asked = RunOptions(model="ollama:qwen3-coder")
        options = await offer_a_way_in(Home(treadle.home), asked, None, read)
        assert options.model == "scripted:demo"
        said = capsys.readouterr().err
        assert "no server listens at http://127.0.0.1:9/v1; start Ollama, or check the port" in said
        assert "This works now." in said

    asyncio.run(main())


def test_the_chat_says_that_a_key_is_missing_before_the_first_word(treadle):
    treadle.environ |= {"PROMPT_TOOLKIT_NO_CPR": "1"}
    treadle.environ |= {f"{name}_BASE_URL": "http://127.0.0.1:9/v1" for name in LOCAL}
    with screen(treadle) as terminal:
        person = Talk(terminal)
        person.expect("run `treadle auth add openai`, or set OPENAI_API_KEY")
        person.expect("1 starts it, Enter leaves >")
        person.answer("1")
        person.seated()
        person.say("hello")
        person.expect("With a key (treadle setup)")
        person.leave()


def test_errors_name_the_command_that_stores_a_key(treadle):
    said = treadle.refused("exec", "hi")
    assert said == (
        "treadle: no key for the provider 'openai'; run `treadle auth add openai`, "
        "or set OPENAI_API_KEY\n"
    )
    assert treadle("threads", "--json").json == []
    checks = {check["name"]: check for check in treadle("doctor", "--json").json["checks"]}
    assert checks["anthropic key"]["remedy"] == "treadle auth add anthropic"
    treadle("auth", "add", "openai", stdin=b"sk-planted-0123456789abcdef")
    checks = {check["name"]: check for check in treadle("doctor", "--json").json["checks"]}
    assert checks["openai key"]["status"] == "ok"


# Setup


def test_setup_asks_three_questions(treadle, monkeypatch):
    async def main() -> None:
        without_servers(monkeypatch)
        home, settings = Home(treadle.home), Settings()
        read, asked = reader("nonsense", "1", "2")
        questions = SetupQuestions(read, lambda _: " sk-planted-0123456789abcdef ")
        model = await questions.ask_model(await model_offers(settings, home))
        assert model.startswith("openai:")
        assert questions.ask_key(home, settings, "openai")
        rights = await questions.ask_rights()
        assert (rights.sandbox, rights.approval) == ("read-only", "on-request")
        assert len(asked) == 3
        offers = await model_offers(settings, home)
        assert offers[0].means == "its key is there"

    asyncio.run(main())


def test_setup_writes_the_settings(treadle):
    file = treadle.home / "config.toml"
    file.write_text('# mine\neffort = "high"\nmodel = "x:y"  # old\n\n[agents]\ndepth = 1\n')
    done = treadle("setup", "--model", "openai:gpt-5.5", "--sandbox", "read-only")
    assert "still missing: no key for the provider 'openai'; run `treadle auth add" in done.text
    assert file.read_text() == (
        '# mine\neffort = "high"\nmodel = "openai:gpt-5.5"\n\nsandbox = "read-only"\n'
        "[agents]\ndepth = 1\n"
    )
    assert "give --model MODEL" in treadle.refused("setup", code=2)


def test_setup_on_a_terminal_from_the_first_question_to_the_last(treadle):
    treadle.environ |= {"PROMPT_TOOLKIT_NO_CPR": "1"}
    treadle.environ |= {f"{name}_BASE_URL": "http://127.0.0.1:9/v1" for name in LOCAL}
    with screen(treadle, "setup") as terminal:
        person = Talk(terminal)
        person.expect("1 of 3. Which model?")
        person.expect("or PROVIDER:MODEL [1] >")
        person.answer("anthropic:claude-opus-5")
        person.expect("2 of 3. The key of anthropic?")
        person.expect("(Enter: later)")
        person.answer("sk-planted-0123456789abcdef")
        person.expect("3 of 3. What may the agent do?")
        person.expect("1 to 3 [1] >")
        person.answer("")
        code, seen = terminal.end()
    assert (code, "sk-planted" in seen, "still missing" in seen) == (0, False, False)
    assert [row["profile"] for row in treadle("auth", "--json").json] == ["anthropic:default"]
    assert (treadle.home / "config.toml").read_text() == (
        'model = "anthropic:claude-opus-5"\nsandbox = "workspace-write"\napproval = "on-request"\n'
    )


def test_settings_that_cannot_be_changed_by_a_program_are_left_alone(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('model = """\nopenai:x"""\n')
    with pytest.raises(ConfigError, match="by hand"):
        write_settings(tmp_path, {"model": "a:b"})
    assert file.read_text() == 'model = """\nopenai:x"""\n'


# Codex


def test_codex_without_a_login_says_so_and_logs_in_with_one_command(treadle):
    treadle.environ["CODEX_HOME"] = str(treadle.project / "codex")
    (treadle.project / "codex").mkdir()
    done = treadle.attempt("exec", "hi", "--model", "codex:gpt-5.5")
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("treadle: Codex has no login in ")
    assert "run `treadle codex login`" in last
    assert treadle("threads", "--json").json == []
    done = treadle.attempt("codex", "login", "status")
    assert (done.code, "Not logged in" in done.err) == (1, True)


def test_a_profile_pays_for_codex_where_codex_has_no_login(treadle):
    treadle.environ["CODEX_HOME"] = str(treadle.project)
    treadle("auth", "add", "openai", "--name", "work", stdin=b"sk-planted\n")
    with window(treadle, "--model", "codex:gpt-5.5") as session:
        session.until("Codex has no login", "Enter leaves >")
        session.type("\r")
        assert session.end() == 1
    with window(treadle, "--model", "codex:gpt-5.5", "--profile", "openai:work") as session:
        session.until("codex:gpt-5.5", "/help lists the commands")


# Output


THREADS = (
    Column("THREAD", tail=12),
    Column("TITLE", gives=True),
    Column("TURNS", right=True, spare=1),
    Column("ENTRIES", right=True, spare=2),
    Column("UPDATED"),
    Column("FORKED FROM", spare=3),
)


def test_a_narrow_table_keeps_titles_and_ids_that_can_be_typed():
    row = ["thr_01a1dee0-0c11-7a54-9b1e-2f1f0f6ed0a7", "mend the test of the lexer", "3", "22",
           "2026-11-15T11:02:51Z", ""]  # fmt: skip
    columns, rows = fit_table(THREADS, [row], 80)
    assert [column.title for column in columns] == [
        "THREAD",
        "TITLE",
        "TURNS",
        "ENTRIES",
        "UPDATED",
    ]
    assert rows == [["2f1f0f6ed0a7", *row[1:5]]]
    columns, rows = fit_table(THREADS, [row], 62)
    assert [column.title for column in columns] == ["THREAD", "TITLE", "UPDATED"]
    assert fit_table(THREADS, [row], 160) == (list(THREADS), [row])
    # A column in which nothing stands is the first to go.
    without_turns = [*row[:2], "", *row[3:5], "thr_x at 3"]
    columns, _ = fit_table(THREADS, [without_turns], 88)
    assert [column.title for column in columns] == [
        "THREAD",
        "TITLE",
        "ENTRIES",
        "UPDATED",
        "FORKED FROM",
    ]


def test_threads_at_eighty_columns(treadle):
    treadle("new", "mend the test of the lexer")
    (info,) = treadle("threads", "--json").json
    text = without_colour(shown(treadle, "threads", columns=80))
    assert "mend the test" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert treadle("show", text.splitlines()[1].split()[0], "--json").json_lines
    assert info["id"].endswith(text.splitlines()[1].split()[0])


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_trouble(treadle, closed):
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" models {closed} && "$0" new hello {closed}', SCRIPT],
        env=treadle.env,
        cwd=treadle.project,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert treadle("threads", "--json").json[0]["turns"] == 1


# Completion

BASH = """
eval "$(_TREADLE_COMPLETE=bash_source treadle)"
COMP_WORDS=($1) COMP_CWORD=$2
_treadle_completion treadle
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "at", "offered"),
    [("treadle th", 1, ["threads"]), ("treadle exec --out", 2, ["--output-schema", "--output"])],
)
def test_bash_completes_commands_and_options(treadle, typed, at, offered):
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", typed, str(at)],
        env={**treadle.env, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == offered


@pytest.mark.parametrize(("shell", "hook"), [("zsh", "compdef"), ("fish", "complete --no-files")])
def test_other_shells_get_their_script(treadle, shell, hook):
    treadle.environ["_TREADLE_COMPLETE"] = f"{shell}_source"
    script = treadle().text
    assert hook in script
    assert f"_TREADLE_COMPLETE={shell}_complete" in script
    treadle.environ |= {
        "_TREADLE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "treadle th",
        "COMP_CWORD": "1" if shell == "zsh" else "th",
    }
    assert "threads" in treadle().text


# Small things


def test_a_listed_name_is_a_name_and_looking_needs_none(treadle):
    treadle("new", "mend the lexer")
    treadle("new", "titled thread", "--title", "a title")
    assert "mend the lexer" in treadle("show", "mend the lexer").text
    assert treadle("show").text == treadle("show", "last").text
    assert "titled thread" in treadle("show").text
    treadle("rewind", "a title", "--yes")
    done = treadle("show", "a title")
    assert (done.text, done.err) == (
        "",
        "nothing of it is visible; --all prints what was taken back\n",
    )
    assert treadle("lossless").text == treadle("lossless", "status").text


def test_a_patch_stays_in_its_directory(treadle):
    inside = treadle.project / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(treadle.project)
    for path in ("../out.txt", "link/out.txt", str(treadle.project / "out.txt")):
        patch = f"*** Begin Patch\n*** Add File: {path}\n+Hello\n*** End Patch\n".encode()
        said = treadle.refused("patch", "-C", "inside", stdin=patch)
        assert f"{path!r} is not in" in said
    assert not (treadle.project / "out.txt").exists()


def test_an_import_without_files_says_so(treadle):
    said = treadle.refused("import", str(treadle.project))
    assert "there is no .jsonl file in" in said


def test_an_import_keeps_times_and_half_characters(treadle, tmp_path):
    lines = [
        {
            "thread": "old",
            "id": "1",
            "role": "user",
            "content": "cut \ud83d here",
            "time": 1_700_000_000_000,
        },
        {
            "thread": "old",
            "id": "2",
            "role": "assistant",
            "content": "ok",
            "time": 1_700_000_001_000,
        },
    ]
    file = tmp_path / "old.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    treadle("new", "something new")
    done = treadle("import", str(file), "--dry-run")
    assert file.name in done.text
    assert done.err == ""
    treadle("import", str(file))
    newest, oldest = treadle("threads", "--json").json
    assert newest["name"] == "something new"
    assert oldest["updated"] == 1_700_000_001_000
    assert "cut \ufffd here" in treadle("show", oldest["id"]).text


def test_a_profile_that_does_not_exist_leaves_no_thread(treadle):
    model = scripted(treadle, {"text": "One."})
    for args in (["exec", "x"], ["new", "x"]):
        said = treadle.refused(*args, "--model", model, "--profile", "nope")
        assert "nope" in said
    assert treadle("threads", "--json").json == []
