from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import click
import pytest

from treadle.cli.app import COMMANDS
from treadle.cli.app import treadle as group
from treadle.testing.script import Playback, load_script

COMMAND_NAMES = [
    *COMMANDS,
    "prompts import",
    "prompts show",
    "prompts remove",
    "auth list",
    "auth add",
    "auth set",
    "auth remove",
    "auth order",
    "auth pin",
    "auth test",
    "config explain",
    "mcp add",
    "mcp list",
    "mcp get",
    "mcp remove",
    "mcp test",
    "mcp trust",
    "mcp import",
    "mcp login",
    "mcp logout",
    "mcp serve",
    "home path",
    "home migrate",
    "engines check",
    "codex login",
    "codex status",
    "lossless status",
    "lossless doctor",
    "lossless backup",
    "recall search",
    "recall show",
    "recall expand",
]

WITHOUT_JSON = ("acp", "chat", "codex login", "help")
"""For people; `acp` speaks JSON only."""


def loaded(name: str) -> click.Command:
    ctx, command = click.Context(group), group
    for word in name.split():
        found = command.get_command(ctx, word)
        assert found is not None
        command = found  # type: ignore[assignment]
    return command


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    return {*done.stderr.split()}


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_every_command_teaches_itself_with_examples(name):
    command = loaded(name)
    assert command.help
    options = [p for p in command.params if isinstance(p, click.Option)]
    for_programs = {spelling for option in options for spelling in option.opts}
    assert ("--json" in for_programs) == (name not in WITHOUT_JSON)
    assert [option.name for option in options if not option.help] == []
    assert command.epilog
    heading, *examples = command.epilog.splitlines()[1:]
    assert heading == "Examples:"
    assert examples
    assert [line for line in examples if f"treadle {name}" not in line] == []


def test_the_table_of_commands_is_the_commands():
    found = sorted(
        file.name.removesuffix(".py").rstrip("_")
        for file in files("treadle.cli.commands").iterdir()
        if file.name.endswith(".py") and not file.name.startswith("_")
    )
    assert found == sorted(COMMANDS)
    assert {name: loaded(name).name for name in COMMANDS} == {name: name for name in COMMANDS}
    assert all(len(short) < 70 and short.endswith(".") for short in COMMANDS.values())


def test_listing_the_commands_loads_none_of_them():
    after = modules_after("from treadle.cli.app import run; run(['--help'])")
    assert not {name for name in after if name.startswith("treadle.cli.commands")}
    assert not after & {"rich", "msgspec", "sqlite3", "asyncio"}


def test_the_library_loads_neither_click_nor_rich():
    assert not modules_after("import treadle, treadle.thread.thread") & {
        "click",
        "rich",
        "treadle.cli",
    }


def test_a_pipe_never_needs_rich(treadle, worked):
    code = f"""
from treadle.cli.app import run
last = {worked!r}
for args in (["threads"], ["show", last], ["prompt", "x"], ["cache", last], ["prompts"]):
    assert run(["--home", {str(treadle.home)!r}, *args]) == 0
"""
    assert "rich" not in modules_after(code)


def test_the_version_is_the_package_s(treadle):
    from treadle import __version__

    assert treadle("--version").text == f"treadle {__version__}\n"


def test_it_runs_as_a_module_where_no_script_is_on_the_path(treadle):
    as_module = subprocess.run(
        [sys.executable, "-m", "treadle", "--version"], capture_output=True, check=True, text=True
    )
    assert as_module.stdout == treadle("--version").text


def test_treadle_alone_prints_its_help(treadle):
    assert treadle().out == treadle("--help").out


def test_a_command_that_does_not_exist_is_a_usage_error_with_a_guess(treadle):
    assert "there is no command 'thread'; did you mean 'threads'?" in treadle.refused(
        "thread", code=2
    )


def test_a_wrong_option_is_a_usage_error(treadle):
    said = treadle.refused("threads", "--limit", "0", code=2)
    assert "invalid value for '--limit'" in said
    assert said.endswith("; `treadle threads --help` shows how to use it\n")


def test_the_help_of_the_fake_server_shows_a_script_that_works(treadle, tmp_path):
    lines = [line.removeprefix("    ") for line in treadle("fake", "--help").lines]
    first = next(at for at, line in enumerate(lines) if line.startswith("[[answer]]"))
    last = next(at for at in range(first, len(lines)) if lines[at].startswith("  `delay`"))
    file = tmp_path / "shown.toml"
    file.write_text("\n".join(lines[first:last]))
    playback = Playback(load_script(file))
    said = [playback.next([text]) for text in ("run the tests", "quickly", "so?", "and now?")]
    assert [answer and (answer.text, answer.error and answer.error.status) for answer in said] == [
        ("I will run them.", None),
        ("", 429),
        ("All tests pass.", None),
        ("All tests pass.", None),
    ]
