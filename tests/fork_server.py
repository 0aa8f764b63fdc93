"""Python processes that start at once: forked from one that has imported Treadle already.

Most of the time of a test that starts ``treadle`` goes into importing it. A server beside
each test process imports everything once and forks a real process for each request, with
arguments, environment, directory and standard streams of its own. Invariant: what a fork
cannot have (other switches of the interpreter, other options of `Popen`) starts as usual.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import pickle
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple, Self, TypeAlias

__all__ = ["Process", "run"]

Argv: TypeAlias = Sequence[str | bytes | Path]

_SCRIPT = str(Path(sys.executable).with_name("treadle"))
_LARGEST = 1 << 20
_SWITCHES = ("PYTHON", "LC_", "LANG")
"""Variables that an interpreter reads when it starts."""
_SAME = {("PYTHONWARNINGS", "error"), ("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8")}
"""Those that the server was started with, or that change nothing."""
_PATH = "PYTHONPATH"
_NOT_FOR_USERS = ("treadle.testing.contracts", "treadle.testing.matrix")


class _Request(NamedTuple):
    argv: list[str]
    env: dict[str, str]
    cwd: str


def run(
    argv: Argv,
    *,
    input: bytes = b"",  # noqa: A002 - as `subprocess.run` calls it
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Run ``treadle …`` or ``python -c CODE|-m MODULE|SCRIPT.py …``, as `subprocess.run` would."""
    if options or not _can_fork(argv, env):
        return subprocess.run(
            argv, input=input, cwd=cwd, env=env, check=False, capture_output=True, **options
        )
    with Process(argv, cwd=cwd, env=env, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(input)
        return subprocess.CompletedProcess(list(argv), process.wait(), out, err)


class Process:
    """A forked process, much like `subprocess.Popen`.

    It has pipes for its input and its output, unless it is given a terminal for all of them.
    """

    def __init__(
        self,
        argv: Argv,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stderr: int | None = None,
        terminal: int | None = None,
    ) -> None:
        words = [os.fsdecode(each) for each in argv]
        request = _Request(words, dict(os.environ if env is None else env), str(cwd or Path.cwd()))
        stdin, ours = os.pipe()
        out, stdout = os.pipe()
        err, errors = os.pipe() if stderr == subprocess.PIPE else (None, os.dup(2))
        reports, report = os.pipe()
        theirs = [stdin, stdout, errors, report]
        given = theirs if terminal is None else [terminal, terminal, terminal, report]
        socket.send_fds(_server(), [pickle.dumps(request)], given)
        for descriptor in theirs:
            os.close(descriptor)
        self.stdin: IO[bytes] = os.fdopen(ours, "wb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(out, "rb")
        self.stderr: IO[bytes] | None = None if err is None else os.fdopen(err, "rb")
        self._reports = os.fdopen(reports, "rb")
        self.pid = int(self._reports.readline())
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr, self._reports):
            if stream is not None:
                stream.close()

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the end; return the exit code, or minus the signal."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(int(self._reports.readline()))
        return self.returncode

    def communicate(self, given: bytes = b"") -> tuple[bytes, bytes]:
        """Write all of the input and read all of the output."""
        printed = {}

        def write() -> None:
            with suppress(BrokenPipeError):
                self.stdin.write(given)
            self.stdin.close()

        def read(stream: IO[bytes]) -> None:
            printed[stream] = stream.read()

        streams = [stream for stream in (self.stdout, self.stderr) if stream is not None]
        work = [threading.Thread(target=read, args=(stream,)) for stream in streams]
        work.append(threading.Thread(target=write))
        for each in work:
            each.start()
        for each in work:
            each.join()
        return printed[self.stdout], printed[self.stderr] if self.stderr else b""


def _can_fork(argv: Argv, env: Mapping[str, str] | None) -> bool:
    program = os.fsdecode(argv[0])
    is_python = program == sys.executable and (argv[1] in ("-c", "-m") or _is_script(argv[1]))
    switches = {
        (name, value)
        for name, value in (env or {}).items()
        if name.startswith(_SWITCHES) and name != _PATH
    }
    return (is_python or program == _SCRIPT) and switches <= _SAME


def _is_script(word: str | bytes | Path) -> bool:
    return os.fsdecode(word).endswith(".py")


@cache
def _server() -> socket.socket:
    """Start the server of this test process, once; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONWARNINGS": "error"},
        cwd=Path(__file__).parents[1],
    )
    theirs.close()

    def stop() -> None:
        ours.close()
        server.wait()

    atexit.register(stop)
    return ours


def _serve(descriptor: int) -> _Request:
    """Fork a process for each request; return its request in the process that was forked."""
    requests = socket.socket(fileno=descriptor)
    wakeful, awake = os.pipe()
    os.set_blocking(awake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(awake)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([descriptor, wakeful], [], [])
        if wakeful in ready:
            os.read(wakeful, _LARGEST)
            _report_ends(reports)
        if descriptor not in ready:
            continue
        message, streams, _, _ = socket.recv_fds(requests, _LARGEST, 4)
        if not message:
            os._exit(0)
        *standard, report = streams
        process = os.fork()
        if process == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            for each in (wakeful, awake, report, *reports.values()):
                os.close(each)
            return _take_streams(pickle.loads(message), standard)
        reports[process] = report
        _tell(report, process)
        for each in standard:
            os.close(each)


def _report_ends(reports: dict[int, int]) -> None:
    """Tell of each process that has ended how it did."""
    while reports:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        _tell(reports[process], status)
        os.close(reports.pop(process))


def _tell(report: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for the process any more
        os.write(report, b"%d\n" % number)


def _take_streams(request: _Request, standard: Sequence[int]) -> _Request:
    for number, each in enumerate(standard):
        os.dup2(each, number)
        os.close(each)
    return request


def _preload() -> None:
    treadle = importlib.import_module("treadle")
    for module in pkgutil.walk_packages(treadle.__path__, "treadle."):
        if not module.name.startswith(_NOT_FOR_USERS) and not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _open_standard_streams() -> None:
    """Open them anew: those of the server know whether *its* descriptors could seek."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        old = getattr(sys, name)
        new = open(  # noqa: SIM115 - it lasts as long as the process
            old.fileno(),
            mode,
            buffering=1 if name == "stderr" else -1,
            encoding=old.encoding,
            errors=old.errors,
            closefd=False,
        )
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _become(request: _Request) -> None:
    program, *arguments = request.argv
    _open_standard_streams()
    os.environ.clear()
    os.environ.update(request.env)
    time.tzset()
    os.chdir(request.cwd)
    sys.path[1:1] = filter(None, request.env.get(_PATH, "").split(os.pathsep))
    if program == _SCRIPT:
        sys.path[0], sys.argv = str(Path(program).parent), request.argv
        sys.exit(importlib.import_module("treadle.cli").main())
    if _is_script(arguments[0]):
        sys.path[0], sys.argv = str(Path(arguments[0]).parent), arguments
        runpy.run_path(arguments[0], run_name="__main__")
        return
    switch, code, *rest = arguments
    if switch == "-m":
        sys.path[0], sys.argv = request.cwd, [code, *rest]
        runpy.run_module(code, run_name="__main__", alter_sys=True)
    else:
        sys.path[0], sys.argv = "", ["-c", *rest]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(main))


def _leave(code: object) -> None:
    """End without taking the interpreter apart, which lasts longer than most commands."""
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    _preload()
    try:
        _become(_serve(int(sys.argv[1])))
    except SystemExit as end:
        _leave(end.code)
    _leave(0)
