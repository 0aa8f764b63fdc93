from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from treadle.sandbox.policy import Limits, SandboxMode, SandboxPolicy

from .arena import KEY, ROOMY, SECRET, Arena, arena, running, started

WRITES = {
    "by path": "echo owned > $OUT/victim",
    "by dots": "echo owned > $WS/../outside/victim",
    "by symbolic link": "ln -s $OUT $WS/link; echo owned > $WS/link/victim",
    "by hard link": "ln -f $OUT/victim $WS/hard; echo owned > $WS/hard",
    "by /proc/self/root": "echo owned > /proc/self/root$OUT/victim",
    "by /proc/self/cwd": "cd $OUT; echo owned > /proc/self/cwd/victim",
    "by renaming": "echo owned > $WS/new; mv -f $WS/new $OUT/victim",
    "by removing": "rm $OUT/victim; echo owned > $OUT/victim",
    "by an open directory": "exec 9<$OUT; echo owned > /proc/self/fd/9/victim",
    "by swapping the workspace": "cd /; mv $WS ${WS}2; ln -s $OUT $WS; echo owned > $WS/victim",
}
BREAKOUTS = {
    "by the init's root": "echo owned > /proc/1/root$OUT/victim",
    "by remounting": "mount -o remount,rw,bind /; mount -o remount,rw /; echo owned > $OUT/victim",
    "by a bind mount": "mkdir $WS/m; mount --bind $OUT $WS/m; echo owned > $WS/m/victim",
    "by unmounting": "umount -l $WS; umount -l /; echo owned > $OUT/victim",
    "by a namespace of its own": (
        "unshare -Urm sh -c 'mount -o remount,rw,bind /; echo owned > $OUT/victim'"
    ),
    "by entering the init's namespaces": "nsenter -t 1 -m -U sh -c 'echo owned > $OUT/victim'",
    "by chroot": "chroot / sh -c 'echo owned > $OUT/victim'",
    "by chroot and dots": (
        'mkdir -p $WS/c; $PYTHON -c \'import os; d=os.open("/",0); os.chroot("c");'
        ' os.fchdir(d); os.chroot("."); open(os.environ["OUT"]+"/victim","w").write("o")\''
    ),
    "by the loader": "/lib64/ld-linux-x86-64.so.2 /usr/bin/tee $OUT/victim <<<owned",
    "by a copied set-user-id shell": (
        "cp /bin/bash $WS/sh; chmod u+s $WS/sh; $WS/sh -p -c 'echo owned > $OUT/victim'"
    ),
}


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("script", WRITES.values(), ids=WRITES)
def test_nothing_outside_the_roots_can_be_written(ground: Arena, script: str):
    ground.shell(script)
    assert ground.victim.read_text() == "untouched"
    assert names(ground.outside) == ["victim"]
    # The same attempt works without the sandbox, so it is a real one.
    ground.shell(script, unconfined=True)
    assert [path.read_text() for path in ground.outside.glob("victim")] == ["owned\n"]


@pytest.mark.parametrize("script", BREAKOUTS.values(), ids=BREAKOUTS)
def test_nobody_breaks_out(ground: Arena, script: str):
    ground.shell(script)
    assert ground.victim.read_text() == "untouched"


def test_in_read_only_mode_nothing_can_be_written_at_all(ground: Arena):
    policy = msgspec.structs.replace(ROOMY, mode="read-only", exclude_slash_tmp=False)
    done = ground.shell("touch here; touch $OUT/there; touch /tmp/treadle-elsewhere", policy=policy)
    assert done.code == 1
    assert names(ground.workspace) == []
    assert not Path("/tmp/treadle-elsewhere").exists()


def test_devices_cannot_be_made(ground: Arena):
    ground.shell("mknod $WS/disk b 254 0; mknod $WS/mem c 1 1")
    assert names(ground.workspace) == []


def test_no_privilege_is_left_or_can_be_gained(ground: Arena):
    done = ground.shell("grep -E 'NoNewPrivs|Cap(Prm|Eff|Bnd)|Seccomp:' /proc/self/status")
    assert [line.split()[1].strip("0") for line in done.stdout.splitlines()] == [
        *("", "", ""),
        *("1", "2"),
    ]


def test_no_further_user_namespace_can_be_made(ground: Arena):
    assert ground.shell("unshare --user true").code == 1
    assert ground.shell("unshare --user true", unconfined=True).code == 0


OF_A_NAMESPACE = re.compile(
    r"/proc/(pressure/\w+|sys/fs/mqueue/.+"
    "|sys/kernel/(auto_msgmni|msg.+|sem.*|shm.+|ns_last_pid|pid_max))"
)
KERNEL = """
import os
kept = []
for directory, below, names in os.walk("/proc"):
    if directory == "/proc":
        below[:] = [name for name in below if not name.isdigit() and name not in ("self", "net")]
        below[:] = [name for name in below if name != "thread-self"]
    for name in names:
        try:
            # Nothing is written, so that a hole does no harm.
            os.close(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_NONBLOCK))
            kept.append(os.path.join(directory, name))
        except OSError:
            pass
print(*kept, sep="\\n")
"""


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_no_setting_of_the_kernel_can_be_written(ground: Arena, mode: SandboxMode):
    policy = msgspec.structs.replace(ROOMY, mode=mode)
    found = ground.python(KERNEL, policy=policy).stdout.split()
    # Whoever is not user 0 may set what belongs to the command's own namespaces,
    # and watch how busy the machine is.
    assert [name for name in found if ground.uid == 0 or not OF_A_NAMESPACE.fullmatch(name)] == []


def test_what_runs_at_a_crash_cannot_be_chosen(ground: Arena):
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    script = 'echo "$(cat /proc/sys/kernel/core_pattern)" > /proc/sys/kernel/core_pattern'
    done = ground.shell(script)
    assert done.code == 1
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


def test_a_workspace_that_is_everything_does_not_open_the_kernel(ground: Arena):
    policy = msgspec.structs.replace(ROOMY, writable_roots=("/",))
    done = ground.shell("find /sys /proc/sys/vm -type f -writable 2>/dev/null", policy=policy)
    assert done.stdout == ""


SET_ID = {
    "chmod": "os.chmod('f', {mode})",
    "fchmod": "os.fchmod(os.open('f', os.O_RDWR), {mode})",
    "fchmodat": "os.chmod('f', {mode}, dir_fd=os.open('.', 0))",
    "fchmodat2": "call(452, -100, b'f', {mode}, 0)",
    "open": "os.close(os.open('g', os.O_CREAT | os.O_WRONLY, {mode}))",
    "a temporary file": "keep(os.open('.', os.O_TMPFILE | os.O_RDWR, {mode}))",
    "openat2": "call(437, -100, b'g', struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, {mode}, 0), 24)",
    "mknod": "os.mknod('g', stat.S_IFREG | {mode})",
}
SET_ID_SCRIPT = """
import ctypes, os, stat, struct
def call(*arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def keep(descriptor):
    place = f"/proc/self/fd/{descriptor}".encode()
    ctypes.CDLL(None).linkat(-100, place, -100, b"g", 0x400)
os.umask(0)
open("f", "w").close()
ATTEMPT
"""


@pytest.mark.parametrize("mode", ["0o4755", "0o2755", "0o6755"])
@pytest.mark.parametrize("attempt", SET_ID.values(), ids=SET_ID)
def test_no_file_that_runs_as_its_owner_can_be_left_behind(ground: Arena, attempt: str, mode: str):
    script = SET_ID_SCRIPT.replace("ATTEMPT", attempt.format(mode=mode))
    done = ground.python(script)
    assert "Error" in done.stderr
    kept = [path.stat().st_mode & 0o6000 for path in ground.workspace.iterdir()]
    assert kept == [0] * len(kept)
    # The same attempt works without the sandbox, so it is a real one.
    ground.shell("rm -f f g")
    assert ground.python(script, unconfined=True).stderr == ""
    modes = [path.stat().st_mode & 0o6000 for path in ground.workspace.iterdir()]
    assert int(mode, 8) & 0o6000 in modes


def test_other_modes_can_be_set(ground: Arena):
    script = "umask 0; touch f; chmod 755 f; mkdir -m 1777 d; cp -p f d; install -m 640 f d/g"
    assert ground.shell(f"{script}; stat -c %a f d d/f d/g").stdout.split() == [
        *("755", "1777", "755", "640")
    ]


REPOSITORY = {
    "changing the configuration": "echo '[core] fsmonitor=evil' >> .git/config",
    "adding a hook": "mkdir -p .git/hooks; echo evil > .git/hooks/post-checkout",
    "renaming it away": "mv .git old; mkdir .git; echo evil > .git/config",
    "removing it": "rm -rf .git; mkdir .git; echo evil > .git/config",
    "putting a link in its place": "ln -sfn /tmp .git; rm -r .git; ln -s /tmp .git",
    "exchanging the workspace": "cd ..; mv workspace w2; mkdir -p workspace/.git",
    "a hard link into it": "ln .git/config c && echo evil > c",
    "changing its mode": "chmod -R 777 .git; echo evil > .git/config",
    "git itself": "git config core.fsmonitor evil; git config core.hooksPath /tmp",
}


def tree(path: Path) -> dict[str, object]:
    return {
        str(each.relative_to(path)): (
            each.lstat().st_mode,
            each.read_text() if each.is_file() else "",
        )
        for each in sorted(path.rglob("*"))
    }


@pytest.mark.parametrize("name", [".git", ".treadle", ".codex", ".agents"])
def test_protected_directories_stay_as_they_are(ground: Arena, name: str):
    ground.make(ground.workspace / name / "config", "[core]\n")
    before = tree(ground.workspace / name)
    for script in REPOSITORY.values():
        ground.shell(script.replace(".git", name))
        assert tree(ground.workspace / name) == before, script


@pytest.mark.parametrize("name", [".git", ".treadle", ".codex", ".agents"])
def test_protected_names_cannot_be_made_and_leave_no_trace(ground: Arena, name: str):
    script = "mkdir -p NAME/hooks; echo x > NAME; ln -s /tmp NAME/x; mkdir x; mv x NAME; ls -A NAME"
    done = ground.shell(script.replace("NAME", name))
    assert (done.code, done.stdout) == (0, "")
    assert not (ground.workspace / name).exists()


def test_making_a_repository_needs_permission(ground: Arena):
    assert ground.shell("git init .").code != 0
    assert not (ground.workspace / ".git").exists()


def test_a_linked_repository_is_refused_because_it_cannot_be_protected(ground: Arena):
    ground.make(ground.workspace / "real" / "config", "[core]\n")
    (ground.workspace / ".git").symlink_to("real")
    done = ground.shell("echo evil >> real/config")
    assert "symbolic link" in done.refusal
    assert (ground.workspace / "real/config").read_text() == "[core]\n"


@pytest.mark.parametrize(
    "script",
    [
        "echo evil > stores/one/config",
        "mkdir -p stores/one/hooks",
        "mv stores old; mkdir -p stores/one; echo evil > stores/one/config",
        "echo evil > stores/shared/config",
        "echo 'gitdir: elsewhere' > .git",
        "rm .git; mkdir .git",
    ],
)
def test_the_directory_behind_a_worktree_is_protected_too(ground: Arena, script: str):
    ground.make(ground.workspace / ".git", "gitdir: stores/one\n")
    ground.make(ground.workspace / "stores/one/config", "[core]\n")
    ground.make(ground.workspace / "stores/one/commondir", "../shared\n")
    ground.make(ground.workspace / "stores/shared/config", "[core]\n")
    before = tree(ground.workspace)
    ground.shell(script)
    assert tree(ground.workspace) == before


def test_a_worktree_directory_that_is_missing_cannot_be_made(ground: Arena):
    ground.make(ground.workspace / ".git", "gitdir: stores/one\n")
    ground.shell("mkdir -p stores/one/hooks; chmod 777 stores; mkdir -p stores/one/hooks")
    assert names(ground.workspace) == [".git"]


READS = {
    "by path": "cat $TREADLE/auth.json",
    "by symbolic link": "ln -s $TREADLE $WS/link; cat $WS/link/auth.json",
    "by hard link": "ln -f $TREADLE/auth.json $WS/hard; cat $WS/hard",
    "by dots": "cat $WS/../home/auth.json",
    "by /proc/self/root": "cat /proc/self/root$TREADLE/auth.json",
    "by searching": "grep -rh sk- $WS/..",
    "by copying": "cp $TREADLE/auth.json $WS/copy; cat $WS/copy",
}
SPYING = {
    "by the init's root": "cat /proc/1/root$TREADLE/auth.json",
    "by a directory of the init": "cd /proc/1/cwd$TREADLE; cat auth.json",
    "by unmounting": "umount -l $TREADLE; cat $TREADLE/auth.json",
    "by a namespace of its own": "unshare -Urm sh -c 'umount $TREADLE; cat $TREADLE/auth.json'",
    "by changing the mode": "chmod 777 $TREADLE; cat $TREADLE/*",
    "by environments": "cat /proc/*/environ | tr '\\0' '\\n'",
}


@pytest.mark.parametrize("script", READS.values(), ids=READS)
def test_the_keys_of_treadle_cannot_be_read(ground: Arena, script: str):
    assert KEY not in ground.shell(script).stdout
    assert KEY in ground.shell(script, unconfined=True).stdout


@pytest.mark.parametrize("script", SPYING.values(), ids=SPYING)
def test_nothing_is_learned_by_other_ways(ground: Arena, script: str):
    done = ground.shell(script)
    assert (KEY in done.stdout, SECRET in done.stdout) == (False, False)


def test_treadle_cannot_be_replaced_when_its_home_lies_in_a_writable_root(ground: Arena):
    policy = msgspec.structs.replace(ROOMY, writable_roots=(str(ground.top),))
    before = tree(ground.home)
    ground.shell(
        "cd $TREADLE/..; mv home h2; mkdir home; echo evil > home/rules.json", policy=policy
    )
    assert {**tree(ground.home), "sandbox.lock": None} == {**before, "sandbox.lock": None}
    assert not (ground.top / "h2").exists()


def test_scripts_of_skills_run_and_the_rest_of_the_home_stays_hidden(ground: Arena):
    ground.make(ground.home / "skills/one/run.sh", "echo ran; cat $TREADLE/rules.json")
    ground.make(ground.home / "rules.json", KEY)
    done = ground.shell(
        "sh $TREADLE/skills/one/run.sh; ls $TREADLE; echo evil > $TREADLE/skills/one/run.sh; "
        "mv $TREADLE/skills $TREADLE/gone"
    )
    assert done.stdout.splitlines()[0] == "ran"
    assert KEY not in done.stdout
    assert "rules.json" not in done.stdout
    assert (ground.home / "skills/one/run.sh").read_text().startswith("echo ran")


def test_credentials_of_the_user_cannot_be_read(ground: Arena):
    ground.make(ground.top / "user/.ssh/id", KEY)
    ground.make(ground.top / "user/.netrc", KEY)
    done = ground.shell("cat ~/.ssh/id ~/.netrc; ls -A ~/.ssh")
    assert KEY not in done.stdout
    shown = msgspec.structs.replace(ROOMY, hidden=())
    assert ground.shell("cat ~/.ssh/id ~/.netrc", policy=shown).stdout == KEY * 2


@pytest.mark.parametrize(
    "name",
    [
        *(".npmrc", ".pgpass", ".my.cnf", ".cargo/credentials.toml", ".cargo/credentials"),
        *(".local/share/keyrings/login.keyring", ".bash_history", ".zsh_history", ".pypirc"),
        *(".python_history", ".config/containers/auth.json", ".docker/config.json"),
        *(".terraform.d/credentials.tfrc.json", ".vault-token", ".gem/credentials"),
        *(".config/pip/pip.conf", ".gradle/gradle.properties", ".kube/config"),
        *(".config/rclone/rclone.conf", ".password-store/a.gpg", ".cache/huggingface/token"),
    ],
)
def test_the_usual_places_of_credentials_are_hidden(ground: Arena, name: str):
    ground.make(ground.top / "user" / name, KEY)
    assert KEY not in ground.shell(f"cat ~/{name}").stdout
    assert KEY in ground.shell(f"cat ~/{name}", unconfined=True).stdout


@pytest.mark.parametrize(
    "script",
    ["sleep {0} &", "setsid nohup sleep {0} >/dev/null 2>&1 &", "(trap '' HUP; sleep {0} & ) &"],
)
def test_a_background_process_ends_with_its_command(ground: Arena, script: str):
    marker = f"6000.{os.getpid()}{ground.uid}"
    assert ground.shell(script.format(marker) + " echo started").stdout == "started\n"
    assert running(marker) == []


def test_commands_end_when_treadle_is_killed(own_ground: Arena):
    marker = f"7000.{os.getpid()}{own_ground.uid}"
    job = {
        "argv": ["bash", "-c", f"setsid sleep {marker} & sleep {marker}"],
        "cwd": str(own_ground.workspace),
        "workspace": str(own_ground.workspace),
        "home": str(own_ground.home),
        "environ": own_ground.environ(),
        "policy": ROOMY,
    }
    assert own_ground.process.stdin
    own_ground.process.stdin.write(msgspec.json.encode(job) + b"\n")
    own_ground.process.stdin.flush()
    while len(running(marker)) < 2:
        time.sleep(0.01)
    own_ground.process.send_signal(signal.SIGKILL)
    own_ground.process.wait()
    while running(marker):
        time.sleep(0.01)


TCP = """
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2).sendall(b"owned")
"""
UDP = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"owned", ("127.0.0.1", int(sys.argv[1])))
"""
UNIX = """
import socket, sys
address = sys.argv[1].replace("@", "\\0")
socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(address)
"""
PAIR = """
import socket, sys
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.sendto(b"owned", sys.argv[1])
"""


@pytest.fixture
def tcp() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        yield server


def nothing_arrives(server: socket.socket) -> bool:
    try:
        server.accept()[0].close() if server.type == socket.SOCK_STREAM else server.recv(9)
    except BlockingIOError:
        return True
    return False


def test_tcp_reaches_nothing(ground: Arena, tcp: socket.socket):
    port = tcp.getsockname()[1]
    assert ground.python(TCP, port).code == 1
    assert nothing_arrives(tcp)
    assert ground.python(TCP, port, unconfined=True).code == 0
    assert not nothing_arrives(tcp)


def test_udp_reaches_nothing(ground: Arena):
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        port = server.getsockname()[1]
        ground.python(UDP, port)
        assert nothing_arrives(server)
        ground.python(UDP, port, unconfined=True)
        assert not nothing_arrives(server)


@pytest.mark.parametrize("kind", ["abstract", "path"])
@pytest.mark.parametrize(
    ("local_sockets", "network"), [(False, False), (True, False), (False, True)]
)
def test_unix_sockets_reach_nothing(ground: Arena, kind: str, local_sockets: bool, network: bool):
    if kind == "path" and local_sockets:
        address = f"/run/treadle-arena-{os.getpid()}-{ground.uid}"
    else:
        address = str(ground.outside / "socket") if kind == "path" else f"@{ground.top.name}"
    policy = msgspec.structs.replace(ROOMY, local_sockets=local_sockets, network=network)
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(address.replace("@", "\0"))
        try:
            if kind == "path":
                Path(address).chmod(0o777)
            server.listen()
            server.setblocking(False)
            assert ground.python(UNIX, address, policy=policy).code == 1
            assert nothing_arrives(server)
            assert ground.python(UNIX, address, unconfined=True).code == 0
            assert not nothing_arrives(server)
        finally:
            Path(address).unlink(missing_ok=True)


def test_sockets_of_the_desktop_stay_hidden_in_a_writable_tmp():
    directory = Path("/tmp/.ICE-unix")
    made = not directory.exists()
    directory.mkdir(exist_ok=True)
    policy = SandboxPolicy(mode="workspace-write", local_sockets=True)
    uid = os.geteuid()
    try:
        with started(uid) as process, arena(uid, process) as ground:
            done = ground.shell(f"touch {directory}/x; ls {directory}; ls -A /run", policy=policy)
        assert (done.code, done.stdout) == (2, "")
    finally:
        if made:
            directory.rmdir()


def test_a_socket_pair_cannot_be_turned_outwards(ground: Arena):
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as server:
        server.bind(str(ground.outside / "socket"))
        (ground.outside / "socket").chmod(0o777)
        server.setblocking(False)
        assert ground.python(PAIR, ground.outside / "socket").code == 1
        assert nothing_arrives(server)
        assert ground.python(PAIR, ground.outside / "socket", unconfined=True).code == 0
        assert not nothing_arrives(server)


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("family", ["AF_VSOCK", "AF_ALG", "AF_PACKET"])
def test_other_families_of_sockets_cannot_be_opened(ground: Arena, family: str, network: bool):
    script = f"import socket; socket.socket(socket.{family}, socket.SOCK_STREAM)"
    policy = msgspec.structs.replace(ROOMY, network=network)
    assert "Operation not permitted" in ground.python(script, policy=policy).stderr


@pytest.mark.parametrize("number", [425, 426, 427])
def test_the_kernels_side_doors_are_shut(ground: Arena, number: int):
    script = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(int(sys.argv[1]), 0, 0, 0, 0, 0), ctypes.get_errno())
"""
    assert ground.python(script, number).stdout == "-1 1\n"


BOMB = """
import os, time
count = 0
try:
    while count < 5000:
        if os.fork() == 0:
            time.sleep(600)
        count += 1
except BlockingIOError:
    print(count)
"""


def test_a_fork_bomb_runs_into_the_limit(ground: Arena):
    policy = msgspec.structs.replace(ROOMY, limits=Limits(processes=150))
    done = ground.python(BOMB, policy=policy)
    # For root the kernel counts process numbers, of which it keeps three hundred back.
    most = 450 if ground.uid == 0 else 150
    assert 100 < int(done.stdout) < most


def test_limits_of_memory_and_file_size_hold(ground: Arena):
    limits = Limits(memory_bytes=1 << 30, file_bytes=1 << 20)
    policy = msgspec.structs.replace(ROOMY, limits=limits)
    assert "MemoryError" in ground.python("bytearray(2 << 30)", policy=policy).stderr
    ground.shell("head -c 5000000 /dev/zero > big", policy=policy)
    assert (ground.workspace / "big").stat().st_size == 1 << 20


def test_processes_outside_can_neither_be_seen_nor_stopped(ground: Arena):
    script = """
import ctypes, os, sys
pid = int(sys.argv[1])
try:
    os.kill(pid, 9)
except OSError as error:
    print(error.strerror)
print(ctypes.CDLL(None).ptrace(16, pid, 0, 0), os.path.exists(f"/proc/{pid}"))
"""
    other = {"user": ground.uid} if ground.uid != os.geteuid() else {}
    with subprocess.Popen(
        ["cat"],
        stdin=subprocess.PIPE,
        **other,  # type: ignore[call-overload]
    ) as bystander:
        done = ground.python(script, bystander.pid)
        ground.shell("kill -9 -1")
        assert bystander.poll() is None
        bystander.communicate()
    assert (done.stdout, bystander.returncode) == ("No such process\n-1 False\n", 0)
