"""What a sandbox does on other kernels than this one: their files and versions are given."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from treadle.core.errors import SandboxUnavailable
from treadle.sandbox.boundary import resolve_boundary
from treadle.sandbox.bubblewrap import Bubblewrap
from treadle.sandbox.kernel import Kernel
from treadle.sandbox.policy import Limits
from treadle.sandbox.probe import find_bubblewrap

from .arena import NOBODY, PLAIN_PATH, ROOMY
from .test_attacks import BOMB

PID_MAX = Path("/proc/sys/kernel/pid_max")
OLD = "6.13.12-generic"


def machine(files: Path, contents: dict[str, str] | None = None, release: str = OLD) -> Kernel:
    """A kernel whose files have `contents`; it has user namespaces."""
    for name, text in {"proc/self/ns/user": "", **(contents or {})}.items():
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(text)
    return Kernel(release=release, files=files)


def run(sandbox: Bubblewrap, workspace: Path, limits: Limits, *argv: str) -> str:
    policy = msgspec.structs.replace(ROOMY, limits=limits)
    boundary = resolve_boundary(policy, workspace, home=sandbox.home, environ={})
    with sandbox.prepare(argv, cwd=workspace, env={}, boundary=boundary) as launch:
        done = subprocess.run(
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            pass_fds=launch.fds,
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout


@pytest.mark.parametrize(
    ("release", "own"),
    [
        *(("6.14.0", True), ("6.14-rc1", True), ("6.18.44-fc-v445", True), ("7.0", True)),
        *(("6.13.12", False), ("6.8.0-45-generic", False), ("5.15.0", False), ("odd", False)),
    ],
)
def test_a_namespace_has_its_own_pid_max_from_linux_6_14_on(release: str, own: bool):
    assert Kernel(release=release).has_own_pid_max is own


@pytest.mark.parametrize("files", ["/", "nothing"])
def test_the_pid_max_of_a_machine_is_never_written(tmp_path: Path, files: str):
    kernel = Kernel(release=OLD, files=tmp_path / files)
    before = PID_MAX.read_text()
    sandbox = find_bubblewrap(tmp_path, kernel=kernel)
    boundary = resolve_boundary(ROOMY, tmp_path, home=tmp_path / "home", environ={})
    (tmp_path / "home").mkdir()
    with replace(sandbox, home=tmp_path / "home").prepare(
        ("true",), cwd=tmp_path, env={}, boundary=boundary
    ) as launch:
        assert str(PID_MAX) not in " ".join(launch.argv)
    assert PID_MAX.read_text() == before


def test_on_an_older_kernel_a_group_bounds_processes_or_nothing_says_so(tmp_path: Path):
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    kernel = Kernel(release=OLD)
    sandbox = find_bubblewrap(home, kernel=kernel)
    bounded = os.geteuid() != 0 or sandbox.groups is not None
    assert sandbox.bounds_processes is bounded
    script = BOMB.replace("5000", "400")
    most = run(sandbox, workspace, Limits(processes=150), sys.executable, "-c", script)
    assert (0 < int(most or 400) < 160) is bounded


def test_groups_leave_nothing_behind(tmp_path: Path):
    sandbox = find_bubblewrap(tmp_path, kernel=Kernel(release=OLD))
    run(sandbox, tmp_path, Limits(), "true")
    assert [*Path("/sys/fs/cgroup").glob(f"**/treadle-{os.getpid()}-*")] == []


def test_where_nothing_bounds_the_processes_of_root_the_sandbox_says_so(tmp_path: Path):
    sandbox = find_bubblewrap(tmp_path, kernel=machine(tmp_path / "files"))
    assert sandbox.bounds_processes is (os.geteuid() != 0)
    assert (sandbox.bounding, sandbox.groups) == (None, None)


FAILING = "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
OBSTACLES = {
    "apparmor": (
        {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
        "AppArmor forbids user namespaces to programs without a profile",
        "sudo apparmor_parser -r /etc/apparmor.d/treadle-bwrap",
    ),
    "debian": (
        {"proc/sys/kernel/unprivileged_userns_clone": "0\n"},
        "kernel.unprivileged_userns_clone is 0",
        "echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-treadle.conf",
    ),
    "none allowed": (
        {"proc/sys/user/max_user_namespaces": "0\n"},
        "user.max_user_namespaces is 0",
        "echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-treadle.conf",
    ),
    "docker": (
        {".dockerenv": ""},
        "this container forbids namespaces",
        "--security-opt seccomp=unconfined",
    ),
    "filtered": (
        {"proc/self/status": "Name:\tpython\nSeccomp:\t2\n"},
        "this container forbids namespaces",
        "seccompProfile: {type: Unconfined}",
    ),
}


def complaint_about(tmp_path: Path, contents: dict[str, str]) -> str:
    """What somebody who is not root is told when no bubblewrap works."""
    machine(tmp_path / "files", contents)
    (tmp_path / "files/home").mkdir()
    (tmp_path / "files/home").chmod(0o777)
    script = f"""
import os, sys
from pathlib import Path
sys.modules["codex_cli_bin"] = None
from treadle.core.errors import SandboxUnavailable
from treadle.sandbox import boundary, bubblewrap, kernel, probe
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
try:
    probe.find_bubblewrap(
        Path("home").absolute(),
        {{"PATH": {f"{tmp_path}/bin:{PLAIN_PATH}"!r}}},
        kernel=kernel.Kernel(release={OLD!r}, files=Path({str(tmp_path / "files")!r})),
    )
except SandboxUnavailable as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path / "files",
        check=True,
    )
    return done.stdout


@pytest.fixture
def broken(open_directory: Path) -> Path:
    binary = open_directory / "bin" / "bwrap"
    binary.parent.mkdir()
    binary.write_text(FAILING)
    binary.chmod(0o755)
    return open_directory


@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES)
def test_what_forbids_namespaces_is_named_with_its_remedy(
    broken: Path, obstacle: tuple[dict[str, str], str, str]
):
    contents, cause, remedy = obstacle
    said, _, advice = complaint_about(broken, contents).partition("; ")
    assert said.startswith(f"commands cannot be sandboxed: {cause}")
    assert "Permission denied" in said
    assert remedy in advice


def test_without_a_known_cause_the_complaint_stands_alone(broken: Path):
    said = complaint_about(broken, {})
    assert said.startswith(f"commands cannot be sandboxed: {str(broken / 'bin/bwrap')!r} says: ")
    assert "install bubblewrap" in said


PRETENDERS = {
    "it does nothing": ("exit 0\n", "ended well, but ran no command"),
    "it runs commands as they are": (
        'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n',
        "a command could write",
    ),
}


@pytest.mark.parametrize("pretender", PRETENDERS.values(), ids=PRETENDERS)
def test_a_bubblewrap_that_only_ends_well_is_not_taken(
    tmp_path: Path, pretender: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    text, complaint = pretender
    binary = tmp_path / "bin" / "bwrap"
    binary.parent.mkdir()
    binary.write_text(f"#!/bin/sh\n{text}")
    binary.chmod(0o755)
    monkeypatch.setitem(sys.modules, "codex_cli_bin", None)
    with pytest.raises(SandboxUnavailable, match=complaint):
        find_bubblewrap(tmp_path, {"PATH": f"{binary.parent}:{PLAIN_PATH}"})
