"""Another machine for tests: an ssh server on loopback, with a host key and a user's key."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncssh

OURS = (sys.executable, "-m", "treadle.executors.ssh_client")


class SshMachine:
    """A server that lets one key in, and runs commands as they come."""

    def __init__(self, place: Path, environ: dict[str, str]) -> None:
        self.place, self._environ = place, environ
        self.config = place / "config"
        self.commands: list[str] = []
        self._server: asyncssh.SSHAcceptor | None = None

    async def open(self) -> None:
        host, user = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        key = self.place / "key"
        user.write_private_key(key)
        key.chmod(0o600)
        allowed = self.place / "allowed"
        allowed.write_bytes(user.export_public_key())
        self._server = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[host],
            authorized_client_keys=str(allowed),
            process_factory=self._run,
            encoding=None,
        )
        port = self._server.get_port()
        known = self.place / "known"
        public = host.export_public_key().decode()
        known.write_text(f"[127.0.0.1]:{port} {public}")
        self.config.write_text(
            f"Host box\n  HostName 127.0.0.1\n  Port {port}\n  User tester\n"
            f"  IdentityFile {key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n"
            "  StrictHostKeyChecking yes\n"
        )

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def client(self) -> tuple[str, ...]:
        """The command of the ssh client that is at hand."""
        program = ("ssh",) if shutil.which("ssh") else OURS
        return (*program, "-F", str(self.config))

    @property
    def our_client(self) -> tuple[str, ...]:
        return (*OURS, "-F", str(self.config))

    async def _run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self.commands.append(process.command or "")
        child = await asyncio.create_subprocess_exec(
            *("sh", "-c", process.command or "true"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environ,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        typing = asyncio.create_task(_pump(process.stdin, child.stdin))
        await asyncio.gather(
            _pump(child.stdout, process.stdout), _pump(child.stderr, process.stderr)
        )
        code = await child.wait()
        typing.cancel()
        await asyncio.wait({typing})
        process.exit(code)


async def _pump(source: Any, sink: Any) -> None:
    """Pass bytes on as they come; the writer waits for its reader."""
    with suppress(OSError, asyncssh.Error):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    if isinstance(sink, asyncio.StreamWriter):
        sink.close()


@asynccontextmanager
async def ssh_machine(place: Path, environ: dict[str, str]) -> AsyncIterator[SshMachine]:
    machine = SshMachine(place, environ)
    await machine.open()
    try:
        yield machine
    finally:
        await machine.close()
