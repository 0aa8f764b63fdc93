"""The sandbox: commands that try to write, read, reach or leave something outside of it.

Whoever runs the commands, root or not: what is proved is looked at from outside, never by what
the command says. Weakness: the commands run without a sandbox.
"""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

from attack.attempt import Area
from attack.ground import SECRET, Ground
from attack.processes import find_running
from treadle.sandbox.policy import SandboxPolicy

__all__ = ["AREA"]

AREA = Area("sandbox", "commands that try to get out", "no sandbox")

WRITES = {
    "by path": "echo owned > $OUT/victim; echo owned > $OUT/proof",
    "by dots": "echo owned > $WS/../outside/victim",
    "by a symbolic link": "ln -s $OUT $WS/link; echo owned > $WS/link/victim",
    "by a hard link": "ln -f $OUT/victim $WS/hard; echo owned > $WS/hard",
    "by the root of a process": "echo owned > /proc/self/root$OUT/victim",
    "by an open directory": "exec 9<$OUT; echo owned > /proc/self/fd/9/victim",
    "by swapping the workspace": "cd /; mv $WS ${WS}2; ln -s $OUT $WS; echo owned > $WS/victim",
    "by the loader": "/lib64/ld-linux-x86-64.so.2 /usr/bin/tee $OUT/victim <<<owned",
}
BREAKOUTS = {
    "by the root of the first process": "echo owned > /proc/1/root$OUT/victim",
    "by mounting anew": "mount -o remount,rw,bind /; mount -o remount,rw /; echo x > $OUT/victim",
    "by a bind mount": "mkdir $WS/m; mount --bind $OUT $WS/m; echo owned > $WS/m/victim",
    "by unmounting": "umount -l $WS; umount -l /; echo owned > $OUT/victim",
    "by a namespace of its own": (
        "unshare -Urm sh -c 'mount -o remount,rw,bind /; echo owned > $OUT/victim'"
    ),
    "by other namespaces": "nsenter -t 1 -m -U sh -c 'echo owned > $OUT/victim'",
    "by another root": "chroot / sh -c 'echo owned > $OUT/victim'",
}


@AREA.each(WRITES, quick="by path", proof=True)
async def write_outside(ground: Ground, script: str) -> str:
    """A command writes a file beside the workspace. Through if that file is not as it was."""
    await ground.run(script)
    return ground.check_victim()


@AREA.each(BREAKOUTS)
async def break_out(ground: Ground, script: str) -> str:
    """A command undoes the mounts that confine it. Through if a file outside is not as it was."""
    await ground.run(script)
    return ground.check_victim()


READS = {
    "by path": "cat $HOME/.ssh/id_rsa $HOME/.npmrc $TREADLE_HOME/auth.json",
    "by a hard link": "ln -f $HOME/.ssh/id_rsa $WS/hard; cat $WS/hard",
    "by dots": "cat $WS/../home/auth.json $WS/../user/.ssh/id_rsa",
    "by the root of a process": "cat /proc/self/root$TREADLE_HOME/auth.json",
    "by searching": "grep -rhs SECRET $WS/..",
}


@AREA.each(READS, quick="by path", proof=True)
async def read_secrets(ground: Ground, script: str) -> str:
    """A command prints keys of the user and of Treadle. Through if they stand in its output."""
    ran = await ground.run(script)
    return f"it printed {ran.output!r}" if SECRET in ran.output else ""


KERNEL = """#!python
import os
for directory, below, names in os.walk("/proc"):
    if directory == "/proc":
        below[:] = [name for name in below if not name.isdigit() and name not in ("self", "net")]
        below[:] = [name for name in below if name != "thread-self"]
    for name in names:
        try:
            os.close(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_NONBLOCK))
            print(os.path.join(directory, name))
        except OSError:
            pass
"""
OWN = ("/proc/pressure/", "/proc/sys/fs/mqueue/", "/proc/sys/kernel/")
"""What belongs to the namespaces of a command, which whoever is not root may set for itself."""


@AREA.attempt()
async def set_the_kernel(ground: Ground) -> str:
    """A command opens every file of the kernel's settings for writing, and writes nothing.

    Through if one of them opens, as `core_pattern` did: it names a program that runs outside.
    Where Treadle does not run as root, the settings of a command's own namespaces are its own.
    """
    ran = await ground.run(KERNEL)
    found = ran.output.split()
    if os.geteuid():
        found = [name for name in found if not name.startswith(OWN)]
    return f"it could write {found[:3]}" if found else ""


@AREA.attempt(quick=True)
async def choose_what_runs_at_a_crash(ground: Ground) -> str:
    """A command writes the kernel's own `core_pattern` back to it, which changes nothing.

    Through if that succeeds: then another text would have been written, too.
    """
    ran = await ground.run(
        'f=/proc/sys/kernel/core_pattern; p=$(cat $f); echo "$p" > $f && echo WR'
    )
    return "core_pattern was written" if "\nWR" in f"\n{ran.output}" else ""


SET_ID = {
    "by chmod": "cp /bin/sh s; chmod u+s s",
    "by chmod for a group": "cp /bin/sh s; chmod g+s s",
    "by install": "install -m 4755 /bin/sh s",
    "by openat2": (
        "#!python\nimport ctypes, os, struct\nos.umask(0)\n"
        "how = struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o4755, 0)\n"
        "ctypes.CDLL(None).syscall(437, -100, b's', how, 24)\n"
    ),
    "by fchmodat2": (
        "#!python\nimport ctypes\nopen('s', 'w').close()\n"
        "ctypes.CDLL(None).syscall(452, -100, b's', 0o4755, 0)\n"
    ),
    "by bits above the mode": (
        "#!python\nimport ctypes\nopen('s', 'w').close()\n"
        "ctypes.CDLL(None).syscall(90, b's', ctypes.c_ulong(0x100000000 | 0o4755))\n"
    ),
    "by a file that has no name yet": (
        "#!python\nimport ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "made = libc.syscall(257, -100, b'.', os.O_TMPFILE | os.O_RDWR, 0o4755)\n"
        "libc.syscall(265, -100, b'/proc/self/fd/%d' % made, -100, b's', 0x400)\n"
    ),
}


@AREA.each(SET_ID, quick="by chmod", proof=True)
async def leave_a_set_user_id_file(ground: Ground, script: str) -> str:
    """A command leaves a shell in the workspace that runs as its owner, for somebody outside.

    Through if a file with such a mode is there afterwards.
    """
    await ground.run(script)
    modes = {each.name: each.stat().st_mode & 0o6000 for each in ground.workspace.iterdir()}
    return f"modes {modes}" if any(modes.values()) else ""


SOCKETS = {
    "a port of this machine": (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[2])), 2)"
    ),
    "a datagram to this machine": (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        " s.sendto(b'x', ('127.0.0.1', int(sys.argv[2])))"
    ),
    "a socket in the file system": (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[3])"
    ),
    "a socket without a file": (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('\\0' + sys.argv[4])"
    ),
}


@AREA.each(SOCKETS, quick="a port of this machine", proof=True)
async def reach(ground: Ground, script: str) -> str:
    """A command without a network connects to something that listens on this machine.

    Through if a connection or a datagram arrives there.
    """
    return await _listen_for(ground, script, ground.policy())


LOCAL = {name: script for name, script in SOCKETS.items() if "AF_UNIX" in script}


@AREA.each(LOCAL, quick="a socket in the file system", proof=True)
async def reach_with_the_network_on(ground: Ground, script: str) -> str:
    """A command with a network connects to a unix socket, as that of a terminal multiplexer.

    Through if a connection arrives: many such programs run commands for whoever asks.
    """
    return await _listen_for(ground, script, ground.policy("read-only", network=True))


async def _listen_for(ground: Ground, script: str, policy: SandboxPolicy) -> str:
    """Run a script of `SOCKETS` and return whether what it looks for has heard of it."""
    place, name = str(ground.outside / "s"), f"attack{os.getpid()}"
    kinds: list[tuple[int, int, Any]] = [
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        (socket.AF_UNIX, socket.SOCK_STREAM, place),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{name}"),
    ]
    index = list(SOCKETS.values()).index(script)
    family, kind, address = kinds[index]
    with closing(socket.socket(family, kind)) as listener:
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        listener.setblocking(False)
        port = listener.getsockname()[1] if family == socket.AF_INET else 0
        await ground.run(f"#!python\n{script}", str(port), place, name, policy=policy)
        try:
            listener.accept() if kind == socket.SOCK_STREAM else listener.recv(9)
        except BlockingIOError:
            return ""
        return "somebody connected"


FORBIDDEN = """#!python
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
calls = {"keyctl": (250, 0, -3), "add_key": (248, b"user", b"x", b"y", 1, -3),
         "io_uring": (425, 1, 0), "bpf": (321, 0, 0, 0), "userfaultfd": (323, 0),
         "mount": (165, 0, 0, 0, 0), "fsopen": (430, b"tmpfs", 0), "kexec": (246, 0, 0, 0, 0)}
for name, arguments in calls.items():
    if libc.syscall(*arguments) >= 0:
        print("DONE", name)
for family, kind in ((40, 1), (17, 3), (38, 5), (31, 1), (44, 1), (2, 3)):
    try:
        socket.socket(family, kind)
        print("DONE socket", family, kind)
    except OSError:
        pass
"""


@AREA.attempt()
async def ask_the_kernel_for_more(ground: Ground) -> str:
    """A command asks for keyrings, io_uring, bpf, mounts, and sockets that lead out.

    Through if the kernel grants one of them.
    """
    ran = await ground.run(FORBIDDEN)
    return ran.output if "DONE" in ran.output else ""


REPOSITORY = {
    "a hook": "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
    "the configuration": "echo '[core] fsmonitor = evil' >> .git/config",
    "another in its place": "mv .git old; mkdir .git; echo evil > .git/config",
    "a link in its place": "rm -rf .git; ln -s /tmp .git",
    "its mode": "chmod -R 777 .git; echo evil > .git/config",
}


@AREA.each(REPOSITORY, proof=True)
async def change_what_others_run(ground: Ground, script: str) -> str:
    """A command writes hooks and settings, from which git, Treadle and others run programs.

    Through if `.git`, `.treadle` or their like are not as they were.
    """
    changed = []
    for name in (".git", ".treadle"):
        config = ground.workspace / name / "config"
        config.parent.mkdir()
        config.write_text("[core]\n")
        before = _tree(config.parent)
        await ground.run(script.replace(".git", name))
        if _tree(config.parent) != before:
            changed.append(name)
    return f"{changed} changed" if changed else ""


def _tree(directory: Path) -> dict[str, object]:
    if directory.is_symlink() or not directory.is_dir():
        return {"": "gone"}
    return {
        str(each.relative_to(directory)): (
            each.lstat().st_mode,
            each.is_file() and each.read_text(),
        )
        for each in sorted(directory.rglob("*"))
    }


@AREA.attempt(proof=True)
async def leave_a_process(ground: Ground) -> str:
    """A command leaves processes in sessions of their own, without its environment.

    Through if one of them still runs when the command has ended. (Weak: nothing marks them.)
    """
    mark = f"9000.{os.getpid()}"
    script = f"(setsid nohup sh -c 'exec env -i sleep {mark}' >/dev/null 2>&1 &); sleep 0.2; echo x"
    await ground.run(script)
    left = find_running(mark)
    for pid in left:
        os.kill(pid, 9)
    return f"{len(left)} processes were left" if left else ""


@AREA.attempt(proof=True)
async def end_processes_of_others(ground: Ground) -> str:
    """A command kills a process of the user, by its number. Through if it has ended."""
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sleep", ["sleep", "60"])
    await ground.run(f"kill -9 {pid}; sleep 0.1")
    ended, _ = os.waitpid(pid, os.WNOHANG)
    if not ended:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return "the process has ended" if ended else ""


@AREA.attempt()
async def start_more_processes_than_allowed(ground: Ground) -> str:
    """A command starts as many processes as it can. Through if it gets far more than its limit."""
    script = """#!python
import os, signal
count = 0
try:
    while count < 3000:
        if os.fork() == 0:
            signal.pause()
        count += 1
except OSError:
    pass
print("COUNT", count, flush=True)
"""
    ran = await ground.run(script)
    count = int(ran.output.split("COUNT")[1].split()[0]) if "COUNT" in ran.output else -1
    return f"it started {count} processes" if not 0 <= count < 2000 else ""


@AREA.attempt(quick=True, proof=True)
async def fake_the_sandbox(ground: Ground) -> str:
    """A `bwrap` stands in the workspace, which is on the search path, and confines nothing.

    Through if a command runs in it: it would write a file outside.
    """
    executable = ground.workspace / "bwrap"
    executable.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    executable.chmod(0o755)
    ground.search = f"{ground.workspace}:{ground.search}"
    os.environ["PATH"] = ground.search
    os.chdir(ground.workspace)
    try:
        await ground.run("echo owned > $OUT/victim")
    except Exception as error:
        if type(error).__name__ != "SandboxUnavailable":
            raise
    return ground.check_victim()
