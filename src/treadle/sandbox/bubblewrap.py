"""Bubblewrap: commands in namespaces of their own.

Owns the command line of `bwrap` and the order of its mounts. Invariant: a command sees the
whole file system read-only but for its writable roots, no process but its own, no network
unless it was given, and holds no privilege that it could get more with; the programs that
launch it see none of its environment. What hides or protects is a mount of its own, and so is
every directory on the way to it, so that none of them can be renamed out of the way.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..core.errors import SandboxUnavailable
from .boundary import Boundary, PathRule
from .launch import Launch
from .placeholders import hold_placeholders, is_placeholder
from .policy import Limits
from .process_groups import open_group
from .seccomp import command_filter

__all__ = ["Bubblewrap"]

_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    "--unshare-cgroup-try",
)
_RESERVED_PIDS = 300
"""Numbers that the kernel does not give out a second time; they come on top of the limit."""
_RESOLVER = Path("/etc/resolv.conf")
_LEAVE = "cd /"
"""The step out of the directory that Treadle runs in."""
_LOWEST_DESCRIPTOR = 10
"""Shell steps use the descriptors below it."""
# The shell stays to reap the children, and does not print how they died. Some shells call the
# number of processes `-p`, and the others `-u`.
_WRITE_AND_RUN = (
    "echo >&9 && exec 9>&- 8>&2 2>/dev/null && "
    '(ulimit -c 0 && {{ ulimit -p {processes} || ulimit -u {processes}; }} && exec "$@" 2>&8 8>&-'
    ' || {{ code=$?; echo "cannot limit a command to {processes} processes" >&8; exit $code; }}); '
    "exit $?"
)

_PROXY_PORT = 61080
"""In a network of its own every port is free; this one is given to nobody by chance."""
_PROXY = f"http://127.0.0.1:{_PROXY_PORT}"
_PROXY_VARIABLES = {
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), _PROXY),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}
# Python ignores two signals, which a command must not inherit.
_LISTEN = """\
import _signal, _socket, os, sys
handover, port, *command = sys.argv[1:]
listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
listener.bind(("127.0.0.1", int(port)))
listener.listen(128)
passed = listener.fileno().to_bytes(4, sys.byteorder)
way = _socket.socket(fileno=int(handover))
way.sendmsg([b"1"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
way.close()
listener.close()
for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
    _signal.signal(number, _signal.SIG_DFL)
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.exit(os.write(2, f"{command[0]}: {error.strerror}\\n".encode()) and 127)
"""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A `bwrap` that was tried on this machine; `find_bubblewrap` makes one."""

    binary: Path
    home: Path
    """Treadle's home: it holds the lock that placeholders are kept by."""
    prlimit: Path
    setsid: Path
    bounding: tuple[Path, Path] | None = None
    """`setpriv` and `unshare`: they bound root's processes, whom the usual limit does not bind.

    Only for kernels in which `pid_max` belongs to a namespace: before, it is the machine's.
    """
    groups: Path | None = None
    """Where groups that bound root's processes can be made, if `bounding` cannot do it."""
    nested: bool = False
    """Whether commands can still make user namespaces: `bwrap` was too old to stop it."""
    proc: bool = True
    """Whether commands have a `/proc`; some containers forbid making one."""
    root: bool = False
    restoring: tuple[str, ...] = ()
    """What gives signals back that this `bwrap` ignores, and that commands would ignore too."""

    @property
    def bounds_processes(self) -> bool:
        """Return whether the number of processes is really limited for this user."""
        return not self.root or self.bounding is not None or self.groups is not None

    def prepare(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        boundary: Boundary,
        tty: bool = False,
    ) -> Launch:
        """Prepare to start `argv` confined to `boundary`.

        `env` is the command's alone: the programs that launch it start with none of it.
        """
        if not boundary.confined:
            raise ValueError("this boundary asks for no sandbox; launch it with NoSandbox")
        with ExitStack() as stack:
            stack.enter_context(hold_placeholders(boundary, self.home / "sandbox.lock"))
            pipe = stack.enter_context(_open_liveness_pipe())
            seccomp = _open_memory(stack, "seccomp", _filter(boundary))
            entrance = stack.enter_context(_open_entrance()) if boundary.hosts else None
            env = env if entrance is None else {**env, **_PROXY_VARIABLES}
            variables = _open_memory(stack, "variables", _variables(env))
            line = (
                *self._outer_steps(boundary.limits, pipe, stack),
                *(str(self.binary), "--die-with-parent", "--as-pid-1", "--new-session"),
                *self._confinement(boundary),
                *("--seccomp", str(seccomp)),
                *pipe.close_option,
                *("--args", str(variables)),
                *self._mounts(boundary),
                *("--chdir", str(cwd), "--"),
                *self.restoring,
                *pipe.write_step(boundary.limits),
                *((str(self.setsid), "--ctty", "--wait") if tty else ()),
                *self._limits(boundary.limits),
                *(() if entrance is None else entrance.listen_step),
                *argv,
            )
            fds = (seccomp, variables, pipe.descriptor, *(entrance.fds if entrance else ()))
            ours = None if entrance is None else entrance.ours
            return Launch(line, {}, None, fds, ours, True, stack.pop_all())

    def _outer_steps(
        self, limits: Limits, pipe: _LivenessPipe, stack: ExitStack
    ) -> tuple[str, ...]:
        """Return what runs first; for root, a namespace with few numbers that ends with us."""
        if self.bounding is None:
            return _shell(*self._group_steps(limits, stack), _LEAVE, pipe.open_step)
        setpriv, unshare = map(str, self.bounding)
        most = limits.processes + _RESERVED_PIDS
        return (
            *(setpriv, "--pdeathsig", "KILL", "--"),
            *(unshare, "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
            *_shell(f"echo {most} >/proc/sys/kernel/pid_max", _LEAVE, pipe.open_step),
        )

    def _group_steps(self, limits: Limits, stack: ExitStack) -> Iterator[str]:
        """Yield what puts a launch into a group of its own, which ends with `stack`."""
        if self.groups is not None:
            group = stack.enter_context(open_group(self.groups, limits.processes))
            yield f"echo 0 >{shlex.quote(str(group / 'cgroup.procs'))}"

    def _confinement(self, boundary: Boundary) -> tuple[str, ...]:
        return (
            *_NAMESPACES,
            *(() if boundary.network else ("--unshare-net",)),
            *(() if self.nested else ("--disable-userns",)),
            *("--cap-drop", "ALL"),
        )

    def _mounts(self, boundary: Boundary) -> list[str]:
        """Return the options about the file system, parents before children.

        Raises `SandboxUnavailable` for a protected path that no mount can protect.
        """
        top, *rules = (
            rule for rule in boundary.rules if rule.access != "hidden" or rule.path.exists()
        )
        hidden = [rule.path for rule in rules if rule.access == "hidden" and rule.path.is_dir()]
        return [
            *("--bind" if top.access == "write" else "--ro-bind", "/", "/"),
            *(("--ro-bind", "/sys", "/sys") if top.access == "write" else ()),
            *("--dev", "/dev"),
            *(("--proc", "/proc") if self.proc else ("--tmpfs", "/proc")),
            # The kernel's settings belong to user 0, whom no lack of capabilities holds back.
            *(("--remount-ro", "/proc") if self.root else ()),
            *_rule_mounts(boundary, rules),
            *(_resolver_mount(hidden) if boundary.network else ()),
            *_read_only_mounts(hidden),
        ]

    def _limits(self, limits: Limits) -> tuple[str, ...]:
        """Return what limits sizes, where they are limited; shells count them in other units."""
        sizes = {"as": limits.memory_bytes, "fsize": limits.file_bytes}
        given = [f"--{name}={size}" for name, size in sizes.items() if size is not None]
        return (str(self.prlimit), *given, "--") if given else ()


class _LivenessPipe(NamedTuple):
    """A pipe that stops a command whose Treadle is dead when all is tied to it.

    The tools that end a command with its parent ask the kernel for it only after they have
    started, so a parent that died before that is never noticed. Nobody but this process can
    read the pipe; a shell within the sandbox writes to it when the last tie is made, and a
    dead reader stops it. The sandbox inherits the writing end, the command itself no end.
    """

    descriptor: int

    @property
    def open_step(self) -> str:
        """Return the step outside the sandbox that makes the pipe ready for `write_step`."""
        # Some shells know descriptors of one digit only. Opening such a pipe never waits.
        return f"exec 9>/proc/self/fd/{self.descriptor}"

    @property
    def close_option(self) -> tuple[str, ...]:
        """Return what keeps bubblewrap from passing the pipe on under its own number."""
        # It would read there until it may go on; nothing can be read, so it only closes it.
        return ("--block-fd", str(self.descriptor))

    def write_step(self, limits: Limits) -> tuple[str, ...]:
        """Return what goes before the command, as the first process of its namespace.

        Because it is that very process, it comes after every tie, not only probably. It also
        sets the usual limits, because another program would have to be started for that.
        """
        script = _WRITE_AND_RUN.format(processes=limits.processes)
        return ("/bin/sh", "-c", script, "sh")


@contextmanager
def _open_liveness_pipe() -> Iterator[_LivenessPipe]:
    """Open a pipe that holds until the end of the block, or of this process."""
    with ExitStack() as stack:
        ours, theirs = os.pipe()
        stack.callback(os.close, ours)
        theirs = _move_up(theirs)
        stack.callback(os.close, theirs)
        yield _LivenessPipe(theirs)


class _Entrance(NamedTuple):
    """The way to the proxy of a command that reaches some hosts only.

    Whoever makes a socket decides in which network it is, whoever holds it may use it: so the
    last step before the command makes the socket, within the sandbox, and hands it to us.
    """

    ours: socket.socket
    theirs: int

    @property
    def fds(self) -> tuple[int, ...]:
        return (self.theirs,)

    @property
    def listen_step(self) -> tuple[str, ...]:
        """Return what goes before the command."""
        return (sys.executable, "-I", "-S", "-c", _LISTEN, str(self.theirs), str(_PROXY_PORT))


@contextmanager
def _open_entrance() -> Iterator[_Entrance]:
    if not sys.executable:
        raise SandboxUnavailable(
            "a list of hosts needs the Python that runs Treadle, which does not know its own "
            "file; set the network on or off instead"
        )
    with ExitStack() as stack:
        ours, other = socket.socketpair()
        stack.enter_context(ours)
        theirs = _move_up(other.detach())
        stack.callback(os.close, theirs)
        yield _Entrance(ours, theirs)


def _filter(boundary: Boundary) -> bytes:
    return command_filter(local_sockets=boundary.local_sockets)


def _variables(env: Mapping[str, str]) -> bytes:
    """Return the options that set a command's environment, each ended by a null byte.

    They go through memory, because everybody on the machine can read arguments.
    """
    words = [word for name, value in env.items() for word in ("--setenv", name, value)]
    for word in words:
        if "\0" in word:
            raise ValueError("an environment variable has a null byte in it; remove it")
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _open_memory(stack: ExitStack, name: str, data: bytes) -> int:
    """Write `data` to memory and return a descriptor to read it from, open as long as `stack`."""
    descriptor = os.memfd_create(f"treadle-{name}")
    stack.callback(os.close, descriptor := _move_up(descriptor))
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _move_up(descriptor: int) -> int:
    """Move `descriptor` to a number that no shell step uses, and close the old one."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST_DESCRIPTOR)
    finally:
        os.close(descriptor)


def _shell(*steps: str) -> tuple[str, ...]:
    """Return what goes before a command that is to run after `steps`."""
    return ("/bin/sh", "-c", " && ".join((*steps, 'exec "$@"')), "sh")


def _rule_mounts(boundary: Boundary, rules: Iterable[PathRule]) -> Iterator[str]:
    """Yield one mount for each rule, after one for each directory on the way to it."""
    done: set[Path] = set()
    for rule in rules:
        for path in (*_directories_above(boundary, rule.path), rule.path):
            if path not in done and os.path.lexists(path):
                done.add(path)
                yield from _mount(boundary, path)


def _directories_above(boundary: Boundary, path: Path) -> list[Path]:
    """Return the directories between a writable root and `path`, the upper ones first."""
    root = boundary.enclosing_root(path)
    if root is None:
        return []
    return [each for each in reversed(path.parents) if each != root and each.is_relative_to(root)]


def _mount(boundary: Boundary, path: Path) -> Iterator[str]:
    if path.is_symlink():
        raise SandboxUnavailable(
            f"{str(path)!r} is a symbolic link, and a link in a writable directory cannot be "
            "protected; replace it with its target, or use the sandbox mode 'read-only'"
        )
    match boundary.access(path):
        case "hidden" if path.is_dir():
            yield from ("--perms", "0111", "--tmpfs", str(path))
        case "hidden":
            yield from ("--ro-bind", "/dev/null", str(path))
        case "write" if not is_placeholder(path):
            yield from ("--bind", str(path), str(path))
        case _:
            yield from ("--ro-bind", str(path), str(path))


def _resolver_mount(hidden: Iterable[Path]) -> Iterator[str]:
    """Yield a mount for the resolver's file: it often lies among the hidden sockets."""
    resolver = Path(os.path.realpath(_RESOLVER))
    if any(resolver.is_relative_to(each) for each in hidden):
        yield from ("--ro-bind-try", str(resolver), str(resolver))


def _read_only_mounts(directories: Iterable[Path]) -> Iterator[str]:
    """Yield what makes `directories` read-only; last, because deeper mounts need points in them."""
    for directory in directories:
        yield from ("--remount-ro", str(directory))
