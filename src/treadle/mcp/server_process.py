"""Processes of stdio servers: started with few variables, and never outliving us.

Owns the process group of a server and the pipe that it lives by. Invariants: a server inherits
three descriptors and the variables it was given, nothing else of ours; when this process ends,
also by SIGKILL, the kernel closes the pipe and the watcher beside the server kills its group.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from ..core.marked_processes import kill_marked
from ..core.words import word_set
from ..tools.local.process import MARK, new_mark
from ..tools.local.streams import Stream, wait_readable

__all__ = ["ServerProcess", "server_environment"]

_PASSED_ON = word_set(
    "HOME LOGNAME PATH SHELL TERM USER LANG LANGUAGE LC_ALL LC_CTYPE TZ TMPDIR "
    "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR SSL_CERT_FILE SSL_CERT_DIR"
)
"""What a program needs to find its files; proxies and keys are the user's to name."""
_LIVE_AND_RUN = (
    "( read -r _ <&3; kill -KILL 0 ) </dev/null >/dev/null 2>&1 & "
    'exec 3<&-; cd -- "$1" && shift && exec "$@"'
)
"""The watcher waits for the end of a pipe that only we hold open."""
_RAISED = re.compile(r"(\w+\.)*\w*(Error|Exception)\b")
"""An error of Python or of Node, behind which Node names its version."""
_REPORTED = re.compile(r"npm (error|ERR!) (?!code|errno|syscall|path)")
"""Why npx could not start a program; behind it come hints, and the file of its log."""
_GRACE = 2.0
_TAIL = 4096
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM)


def server_environment(
    environ: Mapping[str, str], names: tuple[str, ...], own: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a server: a few of ours, those that `names` lists, and its own."""
    kept = {name: environ[name] for name in (*_PASSED_ON, *names) if name in environ}
    # Python must not look for modules where a repository could have put them.
    return {**kept, "PYTHONSAFEPATH": "1", **own}


class ServerProcess:
    """A running server. Make it with `ServerProcess.start`."""

    def __init__(
        self, pid: int, watch: int, life: int, streams: tuple[Stream, Stream, Stream], mark: str
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self._stderr = streams
        self.code: int | None = None
        """How it ended; None while it runs."""
        self.has_spoken = False
        """Whether it has answered anything yet."""
        self._watch, self._life, self._mark = watch, life, mark
        self._said: deque[bytes] = deque(maxlen=64)
        self._reader = asyncio.create_task(self._read_errors())
        self._end = asyncio.create_task(self._wait())

    @classmethod
    def start(cls, argv: tuple[str, ...], *, cwd: Path, env: Mapping[str, str]) -> ServerProcess:
        """Start `argv` in `cwd` with exactly `env`. Raises `OSError`."""
        mark = new_mark()
        with ExitStack() as theirs, ExitStack() as unless_started:

            def pipe(*, ours: int) -> tuple[int, int]:
                """Return the end that we keep, then the one of the server."""
                ends = os.pipe()
                unless_started.callback(os.close, ends[ours])
                theirs.callback(os.close, ends[1 - ours])
                return ends[ours], ends[1 - ours]

            (into, stdin), (out, stdout), (err, stderr) = pipe(ours=1), pipe(ours=0), pipe(ours=0)
            life, lives_by = pipe(ours=1)
            pid = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", _LIVE_AND_RUN, "sh", str(cwd), *argv],
                {**env, MARK: mark},
                file_actions=_file_actions(stdin, stdout, stderr, lives_by),
                setsid=True,
                setsigmask=(),
                setsigdef=_SIGNALS,
            )
            try:
                watch = os.pidfd_open(pid)
            except OSError:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise
            unless_started.pop_all()
        return cls(pid, watch, life, (Stream(into), Stream(out), Stream(err)), mark)

    @property
    def last_words(self) -> str:
        """Return the line of its standard error that says most likely why it ended."""
        lines = b"".join(self._said)[-_TAIL:].decode(errors="replace").split("\n")
        raised = [line for line in lines if _RAISED.match(line)]
        reported = [line for line in lines if _REPORTED.match(line)]
        said = [line for line in lines if line.strip()]
        return next(iter((*raised[-1:], *reported[:1], *said[-1:])), "").strip()

    async def wait(self) -> int:
        """Wait for its end, and for that of all it started."""
        return await asyncio.shield(self._end)

    async def has_ended(self) -> bool:
        """Return whether it has ended, or is about to; then its last words are known."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE / 2):
                await self.wait()
                await asyncio.shield(self._reader)
        return self.code is not None

    async def stop(self) -> None:
        """Close its input, give it a moment, and kill what is left. Harmless when it has ended.

        One that has not spoken yet has begun nothing, and gets no moment.
        """
        self.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE if self.has_spoken else 0):
                await self.wait()
        self._kill()
        await self.wait()
        self.stdout.close()
        await self._reader
        self._stderr.close()

    async def _read_errors(self) -> None:
        while data := await self._stderr.read():
            self._said.append(data)

    async def _wait(self) -> int:
        try:
            await wait_readable(self._watch)
        finally:
            self._kill()
            self._reap()
            self.stdout.end()
            self._stderr.end()
        await kill_marked(MARK, self._mark)
        assert self.code is not None, "it was reaped"
        return self.code

    def _reap(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        os.close(self._watch)
        os.close(self._life)
        self.code = os.waitstatus_to_exitcode(status)

    def _kill(self) -> None:
        """Kill the group, the watcher too, while its leader is not reaped."""
        if self.code is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def _file_actions(stdin: int, stdout: int, stderr: int, life: int) -> list[tuple[int, ...]]:
    # Numbers below four could be overwritten before they are copied.
    given = (stdin, stdout, stderr, life)
    assert min(given) > 3, "the standard descriptors are open"
    actions: list[tuple[int, ...]] = [
        (os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(given)
    ]
    others = (int(entry.name) for entry in os.scandir("/proc/self/fd"))
    return actions + [(os.POSIX_SPAWN_CLOSE, number) for number in others if number > 3]
