from __future__ import annotations

import json
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from treadle.config import Config, load_config
from treadle.config.settings import HookEvent
from treadle.config.trusted_files import TrustStore
from treadle.core.errors import ConfigError, HookFailed
from treadle.hooks import HookAnswer, Hooks
from treadle.hooks.configured_hooks import (
    ProjectHook,
    events_by_name,
    load_hooks,
    project_hooks,
    register_installed,
    untrusted_hooks,
)
from treadle.hooks.payloads import OnTurnStart

STARTED = OnTurnStart(thread="t", turn="u", model="m")
GREET = "[hooks.greet]\nevent = 'turn_start'\ncommand = ['./greet.sh', 'hello']\n"
SCRIPT = '#!/bin/sh\necho "{\\"context\\":\\"$1 from $PWD\\"}"\n'


@dataclass
class Place:
    """A home, and a project with a hook."""

    home: Path
    project: Path

    @property
    def script(self) -> Path:
        return self.project / "greet.sh"

    def settle(self, text: str = GREET) -> Path:
        file = self.project / ".treadle" / "config.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        TrustStore(self.home).trust(file)
        return file

    def write(self, text: str = SCRIPT) -> None:
        self.script.write_text(text)
        self.script.chmod(0o755)

    @property
    def only(self) -> ProjectHook:
        (hook,) = project_hooks(self.load())
        return hook

    def load(self) -> Config:
        return load_config(self.home, self.project, {})

    def untrusted(self) -> list[str]:
        return [hook.name for hook in untrusted_hooks(self.load(), self.home)]

    def hooks(self) -> Hooks:
        return load_hooks(self.load(), self.home)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "home", tmp_path / "project")
    made.home.mkdir()
    made.project.mkdir()
    made.write()
    made.settle()
    return made


def test_the_settings_know_every_event_and_no_other():
    assert sorted(get_args(HookEvent)) == sorted(events_by_name())


async def test_a_trusted_project_is_not_enough_for_its_hook_to_run(place: Place):
    assert place.untrusted() == ["greet"]
    assert await place.hooks().ask(STARTED) == []


async def test_a_trusted_hook_runs_in_the_project(place: Place):
    place.only.trust(TrustStore(place.home))
    assert place.untrusted() == []
    assert await place.hooks().ask(STARTED) == [HookAnswer(context=f"hello from {place.project}")]


async def test_a_trusted_hook_of_a_project_that_is_not_trusted_does_not_run(place: Place):
    place.only.trust(TrustStore(place.home))
    place.settle().write_text(GREET + "\n")
    assert project_hooks(place.load()) == ()
    assert await place.hooks().ask(STARTED) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda place: place.write("#!/bin/sh\nrm -rf everything\n"),
        lambda place: place.script.unlink(),
        lambda place: place.settle(GREET.replace("hello", "goodbye")),
        lambda place: place.settle(GREET.replace("turn_start", "turn_end")),
        lambda place: place.settle(f"{GREET}timeout = 3\n"),
    ],
    ids=["script", "no script", "command", "event", "time"],
)
def test_a_hook_that_changes_has_to_be_trusted_again(place: Place, change):
    place.only.trust(TrustStore(place.home))
    change(place)
    assert place.untrusted() == ["greet"]


async def test_a_hook_that_is_changed_while_a_thread_is_open_fails_instead_of_running(place: Place):
    place.only.trust(TrustStore(place.home))
    hooks = place.hooks()
    place.write(f"#!/bin/sh\ntouch {place.project}/escaped\n")
    with pytest.raises(HookFailed, match="has changed since it was trusted"):
        await hooks.ask(STARTED)
    assert not (place.project / "escaped").exists()


def test_a_link_to_another_script_is_another_hook(place: Place):
    other = place.project / "other.sh"
    other.write_text(SCRIPT)
    place.only.trust(TrustStore(place.home))
    place.script.unlink()
    place.script.symlink_to(other)
    assert place.untrusted() == ["greet"]


def command(*words: str) -> str:
    return f"[hooks.greet]\nevent = 'turn_start'\ncommand = {json.dumps(words)}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("bash", "-c", "./greet.sh; true"),
        ("bash", "-c", "x=$(./greet.sh)"),
        ("bash", "-c", "cd tools && ./greet.sh"),
        ("bash", "-c", '"$PWD/greet.sh"'),
        ("/bin/sh", "-c", './greet.sh "x y"'),
        ("env", "--chdir=tools", "./greet.sh"),
        ("env", "./greet.sh"),
        ("python3", "-c", "import os; os.system('./greet.sh')"),
        ("python3", "-m", "greet"),
        ("python3", "-", "greet.sh"),
        ("bash", "--rcfile", "greet.sh", "-i"),
        ("make", "greet"),
        ("npm", "run", "greet"),
        ("./missing.sh",),
        ("/tmp/elsewhere/echo",),
        ("/tmp/elsewhere/sh", "greet.sh"),
        ("greet-on-the-path",),
    ],
    ids=" ".join,
)
async def test_a_command_whose_files_cannot_be_told_is_never_trusted(
    place: Place, words: tuple[str, ...]
):
    place.settle(command(*words))
    assert place.only.read().problem
    place.only.trust(TrustStore(place.home))
    assert place.untrusted() == ["greet"]
    assert await place.hooks().ask(STARTED) == []


@pytest.mark.parametrize(
    "words",
    [("./greet.sh", "hello"), ("sh", "greet.sh", "hello"), ("/bin/sh", "./greet.sh", "hello")],
)
async def test_a_script_runs_by_itself_or_by_an_interpreter(place: Place, words: tuple[str, ...]):
    place.settle(command(*words))
    place.only.trust(TrustStore(place.home))
    assert place.only.sources == (place.script,)
    assert await place.hooks().ask(STARTED) == [HookAnswer(context=f"hello from {place.project}")]


async def test_what_was_looked_at_runs_whoever_swaps_the_file_meanwhile(place: Place):
    place.only.trust(TrustStore(place.home))
    hooks = place.hooks()
    evil, good, stop = place.project / "evil.sh", place.project / "good.sh", threading.Event()
    evil.write_text(f"#!/bin/sh\ntouch {place.project}/escaped\n")
    good.write_text(SCRIPT)
    evil.chmod(0o755)
    good.chmod(0o755)

    def swap() -> None:
        while not stop.is_set():
            for each in (evil, good):
                (place.project / "next").hardlink_to(each)
                (place.project / "next").rename(place.script)
                (place.project / "next").unlink(missing_ok=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    told = {"ran": 0, "refused": 0}
    try:
        while min(told.values()) < 20:
            try:
                answers = await hooks.ask(STARTED)
            except HookFailed:
                told["refused"] += 1
            else:
                assert answers == [HookAnswer(context=f"hello from {place.project}")]
                told["ran"] += 1
    finally:
        stop.set()
        swapper.join()
    assert not (place.project / "escaped").exists()


def test_copies_lie_in_the_home_for_its_owner_only(place: Place):
    copied = Path(place.only.read().command.copy_to(place.home / "hooks")[0])
    assert copied.is_relative_to(place.home / "hooks")
    assert copied.read_text() == SCRIPT
    assert [stat.S_IMODE(each.stat().st_mode) for each in (copied, copied.parent)] == [
        *(0o500, 0o700),
    ]


async def test_neither_an_interpreter_nor_a_program_is_taken_from_the_project(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.write("#!./interpreter\n")
    assert "names an interpreter in the project" in place.only.read().problem
    programs = place.project / "bin"
    programs.mkdir()
    (programs / "sh").write_text(f"#!/bin/bash\ntouch {place.project}/escaped\n")
    (programs / "sh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:bin:/usr/bin:/bin")
    place.write(SCRIPT.replace("#!/bin/sh", "#!/usr/bin/env sh"))
    place.only.trust(TrustStore(place.home))
    assert await place.hooks().ask(STARTED) == [HookAnswer(context=f"hello from {place.project}")]
    assert not (place.project / "escaped").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("./format.sh",),
        ("tools/format.sh",),
        ("../format.sh",),
        ("bash", "./format.sh"),
        ("python3", "tools/format.py"),
        ("python3", "-u", "format.py"),
        ("bash", "-c", "cat && ./format.sh"),
        ("python3", "-m", "formatter"),
        ("python3", "-c", "import formatter"),
    ],
    ids=" ".join,
)
def test_a_hook_of_the_users_does_not_depend_on_the_working_directory(
    place: Place, words: tuple[str, ...]
):
    place.settle("")
    (place.home / "config.toml").write_text(command(*words))
    with pytest.raises(ConfigError, match=r"which any repository could bring along.*full path"):
        place.hooks()


def test_what_somebody_should_read_is_the_command_and_its_scripts(place: Place):
    assert place.only.read().text == f"turn_start: ./greet.sh hello\n\n{place.script}:\n{SCRIPT}"


def test_a_project_that_changes_a_hook_of_the_users_makes_it_its_own(place: Place):
    (place.home / "config.toml").write_text(
        "[hooks.mine]\nevent = 'turn_end'\ncommand = ['true']\n"
        "[hooks.greet]\nevent = 'turn_end'\ncommand = ['true']\n"
    )
    assert place.untrusted() == ["greet"]


def test_trust_that_is_withdrawn_from_a_project_is_withdrawn_from_its_hooks(place: Place):
    trust, hook = TrustStore(place.home), place.only
    hook.trust(trust)
    assert trust.distrust(hook.file)
    trust.trust(hook.file)
    assert place.untrusted() == ["greet"]


async def test_the_users_own_hooks_need_no_trust(place: Place):
    place.settle("")
    (place.home / "config.toml").write_text(
        "[hooks.a]\nevent = 'UserPromptSubmit'\ncommand = ['true']\npriority = 2\n"
        "[hooks.b]\nevent = 'turn_start'\ncommand = ['echo', '{\"context\":\"mine\"}']\n"
    )
    assert await place.hooks().ask(STARTED) == [HookAnswer(context="mine")]


@pytest.mark.parametrize("seconds", ["0", "601"])
def test_a_time_out_of_bounds_is_refused_with_the_place(place: Place, seconds):
    (place.home / "config.toml").write_text(f"[hooks.a]\ntimeout = {seconds}\n")
    with pytest.raises(ConfigError, match="accepted: a number above 0 and at most 600"):
        place.load()


def install(site: Path, code: str) -> None:
    about = site / "treadle_greeter-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: treadle-greeter\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[treadle.hooks]\ngreeter = treadle_greeter:register\n")
    (site / "treadle_greeter.py").write_text(code)


GREETER = """
from treadle.hooks import HookAnswer
from treadle.hooks.payloads import OnTurnStart

async def greet(event):
    return HookAnswer(context=f"welcome to {event.thread}")

def register(hooks):
    hooks.on(OnTurnStart, greet)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import sys

    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "treadle_greeter", raising=False)
    return tmp_path / "site"


async def test_installed_packages_register_hooks(place: Place, site: Path):
    install(site, GREETER)
    assert await place.hooks().ask(STARTED) == [HookAnswer(context="welcome to t")]
    assert register_installed(Hooks()) == ("greeter",)


def test_a_package_whose_hooks_cannot_be_had_is_named(site: Path):
    install(site, "raise ImportError('half installed')")
    with pytest.raises(
        ConfigError,
        match=r"'greeter' .*'treadle_greeter:register' of 'treadle-greeter': .*half installed",
    ):
        register_installed(Hooks())
