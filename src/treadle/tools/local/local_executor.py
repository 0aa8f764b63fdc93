"""The executor of this machine.

Owns every process it has started. Invariant: the sandbox is found once, when the first
confined command needs it; without one such commands are refused. What commands and files need
loads with the first of them, because many turns have neither.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ... import sandbox as sandboxes
from .. import patch as patches
from ..executor import Bounds, ProcessSpec

if TYPE_CHECKING:
    from ...sandbox import Boundary, Launch, Sandbox
    from ...sandbox.network_proxy import Network
    from ...sandbox.place import CommandPlace
    from .process import LocalProcess

__all__ = ["LocalExecutor"]


class LocalExecutor:
    """Runs commands and changes files on this machine.

    `home` is Treadle's own directory, which no command may see. `environ` is what commands
    inherit, without its secrets but for the `allowed` names. `sandbox` and `network` are for
    hosts that bring their own; through `network`, commands that may reach some hosts reach
    them.
    """

    def __init__(
        self,
        *,
        home: Path,
        environ: Mapping[str, str] | None = None,
        allowed: Sequence[str] = (),
        sandbox: Sandbox | None = None,
        network: Network | None = None,
    ) -> None:
        self._home = home
        self._environ = os.environ if environ is None else dict(environ)
        self._allowed = tuple(allowed)
        self._sandbox = sandbox
        self._network = network
        self._processes: set[LocalProcess] = set()
        self._orphans_killed = False
        self._shells: dict[tuple[str, Path, Bounds], str] = {}

    async def start(self, spec: ProcessSpec) -> LocalProcess:
        """Start a process in a session of its own."""
        from .process import LocalProcess, spawn

        launch, boundary = await self._prepare_in_thread(spec)
        try:
            # From the loop's own thread: the sandbox ends with the thread that started it.
            spawned = spawn(launch, tty=spec.tty, confined=boundary.confined)
        except BaseException:
            launch.close()
            raise
        process = LocalProcess(
            spawned,
            launch,
            tty=spec.tty,
            on_gone=self._processes.discard,
            hosts=boundary.hosts,
            network=self._network,
        )
        self._processes.add(process)
        return process

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a regular file."""
        from .local_files import read_file

        return await asyncio.to_thread(lambda: read_file(path, self._boundary(bounds), limit))

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file, whole or not at all."""
        from .local_files import replace_file

        await asyncio.to_thread(lambda: replace_file(path, data, self._boundary(bounds)))

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch, whole or not at all."""

        def apply() -> str:
            allowed = self._boundary(bounds).is_writable
            return patches.apply_patch(text, cwd, allowed=allowed).summary

        return await asyncio.to_thread(apply)

    def find_place(self, cwd: Path, *, bounds: Bounds) -> CommandPlace:
        """Return what the directory and the search path of a command lead to."""
        from ...sandbox.place import resolve_place

        return resolve_place(
            cwd, bounds.policy, bounds.workspace, home=self._home, environ=self._environ
        )

    async def close(self) -> None:
        """Kill every process that is still running."""
        await asyncio.gather(*(process.kill() for process in tuple(self._processes)))

    async def _prepare_in_thread(self, spec: ProcessSpec) -> tuple[Launch, Boundary]:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, self._prepare, spec)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_close_launch)
            raise

    def _prepare(self, spec: ProcessSpec) -> tuple[Launch, Boundary]:
        from .process import MARK, kill_orphans, new_mark

        if not spec.cwd.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is no directory", str(spec.cwd))
        if not self._orphans_killed:
            # Nothing ends unconfined commands when their program is killed; the next one does.
            kill_orphans()
            self._orphans_killed = True
        boundary = self._boundary(spec.bounds)
        environment = sandboxes.command_environment(
            self._environ,
            allowed=self._allowed,
            thread=spec.thread,
            network=boundary.network or bool(boundary.hosts),
        )
        mark = new_mark()
        launch = self._sandbox_for(boundary).prepare(
            self._argv(spec),
            cwd=spec.cwd,
            env={**environment, **spec.env, MARK: mark},
            boundary=boundary,
            tty=spec.tty,
        )
        # All that launches a command is ours to end, too.
        launch.env[MARK] = mark
        return launch, boundary

    def _argv(self, spec: ProcessSpec) -> tuple[str, ...]:
        """Return the command; a shell by its full path where the search could be led astray."""
        if not spec.argv or "/" in spec.argv[0]:
            return spec.argv
        # Commands cannot change the answer, so it is looked for once.
        asked = (spec.argv[0], spec.cwd, spec.bounds)
        if asked not in self._shells:
            place = self.find_place(spec.cwd, bounds=spec.bounds)
            self._shells[asked] = place.shell_to_run(spec.argv[0])
        return (self._shells[asked], *spec.argv[1:])

    def _boundary(self, bounds: Bounds) -> Boundary:
        return sandboxes.resolve_boundary(
            bounds.policy, bounds.workspace, home=self._home, environ=self._environ
        )

    def _sandbox_for(self, boundary: Boundary) -> Sandbox:
        if not boundary.confined:
            return sandboxes.NoSandbox()
        if self._sandbox is None:
            self._sandbox = sandboxes.find_bubblewrap(self._home, self._environ)
        return self._sandbox


def _close_launch(work: asyncio.Future[tuple[Launch, Boundary]]) -> None:
    if not work.cancelled() and work.exception() is None:
        work.result()[0].close()
