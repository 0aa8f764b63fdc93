from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from treadle.core.errors import SandboxUnavailable
from treadle.sandbox.boundary import Boundary, resolve_boundary
from treadle.sandbox.bubblewrap import Bubblewrap
from treadle.sandbox.launch import NoSandbox
from treadle.sandbox.placeholders import hold_placeholders
from treadle.sandbox.policy import SandboxPolicy
from treadle.sandbox.probe import find_bubblewrap
from treadle.sandbox.seccomp import command_filter

from .arena import ROOMY, Arena


def test_work_in_the_workspace_succeeds(ground: Arena):
    done = ground.shell("mkdir a && echo hi > a/b && mv a/b c && ln c d && rm -r a && cat c")
    assert (done.code, done.stdout, done.stderr) == (0, "hi\n", "")
    assert sorted(path.name for path in ground.workspace.iterdir()) == ["c", "d"]


def test_everything_else_can_be_read(ground: Arena):
    assert ground.shell("cat $OUT/victim /etc/hostname >/dev/null && ls /usr").code == 0


def test_further_roots_can_be_written(ground: Arena):
    policy = msgspec.structs.replace(ROOMY, writable_roots=(str(ground.outside),))
    assert ground.shell("echo new > $OUT/victim", policy=policy).code == 0
    assert ground.victim.read_text() == "new\n"


def test_temporary_files_work_where_the_policy_has_them(ground: Arena):
    tmp = ground.make(ground.top / "tmp" / "keep").parent
    script = 'f=$(mktemp) && g=$(mktemp /tmp/treadle-XXXXXX) && rm "$f" "$g" && echo "${f%/*}"'
    policy = SandboxPolicy(mode="workspace-write")
    assert ground.shell(script, policy=policy, environ={"TMPDIR": str(tmp)}).stdout == f"{tmp}\n"
    assert ground.shell(script, environ={"TMPDIR": str(tmp)}).code == 1


def test_a_command_starts_in_its_own_directory(ground: Arena):
    assert ground.run("pwd", cwd=ground.outside).stdout == f"{ground.outside}\n"


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_exit_codes_and_signals_are_passed_on(ground: Arena, script: str, code: int):
    assert ground.shell(script).code == code


def test_a_missing_program_is_said_so(ground: Arena):
    done = ground.run("no-such-program")
    assert (done.code, "no-such-program" in done.stderr) == (127, True)


def test_git_works_around_a_protected_repository(ground: Arena):
    ground.shell("git init -q . && mkdir sub && echo x > f", unconfined=True)
    done = ground.shell("git status --short; cd sub; git rev-parse --show-toplevel")
    assert done.stdout == f"?? f\n{ground.workspace}\n"


def test_the_repository_above_a_workspace_is_still_found(ground: Arena):
    ground.shell("cd ..; git init -q .", unconfined=True)
    assert ground.shell("git rev-parse --show-toplevel").stdout == f"{ground.top}\n"


def test_network_can_be_given(ground: Arena):
    policy = msgspec.structs.replace(ROOMY, network=True)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo hello >&3"
        assert ground.shell(script, policy=policy).code == 0
        connection = server.accept()[0]
        with connection:
            assert connection.recv(9) == b"hello\n"


LOOPBACK = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
a, b = socket.socketpair()
print("connected")
"""


def test_without_network_a_command_can_still_talk_to_itself(ground: Arena):
    assert ground.python(LOOPBACK).stdout == "connected\n"


def test_unix_sockets_of_ones_own_can_be_allowed(ground: Arena):
    script = "import socket; socket.socket(socket.AF_UNIX).bind('s')"
    policy = msgspec.structs.replace(ROOMY, local_sockets=True)
    assert (ground.python(script).code, ground.python(script, policy=policy).code) == (1, 0)


@pytest.fixture
def bubblewrap(tmp_path: Path) -> Bubblewrap:
    home = tmp_path / "home"
    home.mkdir()
    return find_bubblewrap(home)


def boundary(bubblewrap: Bubblewrap, workspace: Path) -> Boundary:
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    return resolve_boundary(policy, workspace, home=bubblewrap.home, environ={})


INTERACTIVE = "import sys,time\ntry: print('ready', sys.stdin.isatty(), flush=True); time.sleep(60)"
INTERACTIVE += "\nexcept KeyboardInterrupt: print('interrupted'); sys.exit(5)"


def test_ctrl_c_on_a_terminal_reaches_the_command_alone(bubblewrap: Bubblewrap, tmp_path: Path):
    ours, theirs = pty.openpty()
    argv = (sys.executable, "-c", INTERACTIVE)
    with bubblewrap.prepare(
        argv, cwd=tmp_path, env={}, boundary=boundary(bubblewrap, tmp_path), tty=True
    ) as launch:
        process = subprocess.Popen(
            launch.argv,
            env=launch.env,
            pass_fds=launch.fds,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        seen = b""
        while b"ready" not in seen:
            seen += os.read(ours, 1000)
        os.write(ours, b"\x03")
        assert process.wait() == 5
    assert b"True" in seen
    assert b"interrupted" in os.read(ours, 1000)
    os.close(ours)


def test_placeholders_stay_while_another_command_runs(bubblewrap: Bubblewrap, tmp_path: Path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    line = boundary(bubblewrap, workspace)
    first = bubblewrap.prepare(("true",), cwd=workspace, env={}, boundary=line)
    second = bubblewrap.prepare(("true",), cwd=workspace, env={}, boundary=line)
    first.close()
    assert sorted(path.name for path in workspace.iterdir()) == [
        *(".agents", ".codex", ".git", ".treadle")
    ]
    second.close()
    second.close()
    assert list(workspace.iterdir()) == []


def test_placeholders_stay_while_a_command_of_another_home_runs(
    bubblewrap: Bubblewrap, tmp_path: Path
):
    workspace, other_home = tmp_path / "workspace", tmp_path / "other"
    workspace.mkdir()
    line = boundary(bubblewrap, workspace)
    other = replace(bubblewrap, home=other_home).prepare(
        ("true",), cwd=workspace, env={}, boundary=line
    )
    with bubblewrap.prepare(
        ("mkdir", ".git/hooks"), cwd=workspace, env={"PATH": "/bin"}, boundary=line
    ) as launch:
        other.close()
        done = subprocess.run(
            launch.argv, env=launch.env, pass_fds=launch.fds, capture_output=True, check=False
        )
    assert b"cannot create directory" in done.stderr
    assert b".git/hooks" in done.stderr
    assert list(workspace.iterdir()) == []


def test_homes_that_make_and_remove_placeholders_at_once_always_have_theirs(
    bubblewrap: Bubblewrap, tmp_path: Path
):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    line = boundary(bubblewrap, workspace)
    missing: list[str] = []

    def one(number: int) -> None:
        for _ in range(60):
            with hold_placeholders(line, tmp_path / f"lock{number}"):
                names = {path.name for path in workspace.iterdir()}
                missing.extend({".agents", ".codex", ".git", ".treadle"} - names)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
    assert list(workspace.iterdir()) == []


def test_a_directory_of_the_users_is_never_taken_for_a_placeholder(
    bubblewrap: Bubblewrap, tmp_path: Path
):
    workspace = tmp_path / "workspace"
    (workspace / ".agents").mkdir(parents=True)
    bubblewrap.prepare(
        ("true",), cwd=workspace, env={}, boundary=boundary(bubblewrap, workspace)
    ).close()
    assert [path.name for path in workspace.iterdir()] == [".agents"]


def test_many_commands_can_start_at_once(bubblewrap: Bubblewrap, tmp_path: Path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    line = boundary(bubblewrap, workspace)
    codes: list[int] = []

    def one() -> None:
        for _ in range(3):
            with bubblewrap.prepare(
                ("mkdir", ".git/hooks"), cwd=workspace, env={"PATH": "/bin"}, boundary=line
            ) as launch:
                done = subprocess.run(
                    launch.argv,
                    env=launch.env,
                    pass_fds=launch.fds,
                    capture_output=True,
                    check=False,
                )
            codes.append(done.returncode)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [1] * 12
    assert list(workspace.iterdir()) == []


def test_full_access_is_a_launch_of_another_name(bubblewrap: Bubblewrap, tmp_path: Path):
    policy = SandboxPolicy(mode="danger-full-access")
    line = resolve_boundary(policy, tmp_path, home=bubblewrap.home, environ={})
    launch = NoSandbox().prepare(("ls",), cwd=tmp_path, env={"A": "1"}, boundary=line)
    assert (launch.argv, launch.env, launch.cwd, launch.fds) == (("ls",), {"A": "1"}, tmp_path, ())
    with pytest.raises(ValueError, match="NoSandbox"):
        bubblewrap.prepare(("ls",), cwd=tmp_path, env={}, boundary=line)


def test_without_a_working_bubblewrap_nothing_is_run(tmp_path: Path):
    broken = tmp_path / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    broken.chmod(0o755)
    script = f"""
import sys
from pathlib import Path
sys.modules["codex_cli_bin"] = None
from treadle.core.errors import SandboxUnavailable
from treadle.sandbox.probe import find_bubblewrap
try:
    find_bubblewrap(Path({str(tmp_path)!r}), {{"PATH": {f"{broken.parent}:/usr/bin:/bin"!r}}})
except SandboxUnavailable as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == (
        f"commands cannot be sandboxed: {str(broken)!r} says: no namespaces here; install "
        "bubblewrap, or run `pip install '.[codex]'` in a clone of Treadle, which brings one; "
        "without a sandbox "
        "commands run only under --sandbox danger-full-access\n"
    )


def test_a_bubblewrap_in_the_working_directory_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    planted = tmp_path / "bin" / "bwrap"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\nexec true\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    found = find_bubblewrap(tmp_path, {"PATH": f"{planted.parent}:bin:/usr/bin:/bin"})
    assert found.binary != planted


def test_missing_tools_are_named(tmp_path: Path):
    with pytest.raises(SandboxUnavailable, match="'prlimit' is not on the search path"):
        find_bubblewrap(tmp_path, {"PATH": str(tmp_path)})


def test_an_unknown_machine_is_refused():
    with pytest.raises(SandboxUnavailable, match="no system-call filter is known for 'vax'"):
        command_filter(local_sockets=False, machine="vax")
