"""Executors in sandboxes of E2B, over its HTTP API.

Owns the requests to the control plane and to the daemon in a sandbox (``envd``). Invariants: the
key of the API goes to the control plane only, and never into a sandbox; a sandbox that is in
use does not run out of time; one that rests keeps its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from ..core.errors import InvalidOption
from ..core.redact import add_secrets, one_line
from ..core.typed import decode_json
from ..models.transport.client import AsyncTransport
from ..models.transport.errors import TransportError
from ..tools.executor_life import ExecutorGone, ExecutorRecord
from ..tools.pipe import PipeExecutor
from .choice import ExecutorChoice, Surroundings
from .envd import EnvdChannel
from .remote_executor import ContainerExecutor, enter

__all__ = ["E2BSource"]

_USUAL_SECONDS = 3600
_MOST_BYTES = 1 << 20
_PORT = 49983
_GONE = 404


class _Sandbox(msgspec.Struct, frozen=True, rename="camel"):
    """What the control plane says of a sandbox."""

    sandbox_id: str = msgspec.field(name="sandboxID")
    envd_access_token: str | None = None
    domain: str | None = None


class E2BSource:
    """Makes a sandbox of a template for each thread.

    `environ` has ``E2B_API_KEY``, and ``E2B_DOMAIN`` or ``E2B_API_URL`` for an installation of
    your own; ``E2B_SANDBOX_URL`` leads to the daemons where names do not.
    """

    contains = True

    def __init__(
        self,
        template: str,
        choice: ExecutorChoice,
        around: Surroundings,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        if not re.fullmatch(r"[\w./:-]+", template):
            raise InvalidOption(f"{template!r} is no template; write e2b:TEMPLATE, e2b:base")
        known = os.environ if environ is None else environ
        self._key = known.get("E2B_API_KEY", "")
        if not self._key:
            raise InvalidOption("E2B wants a key; set E2B_API_KEY")
        add_secrets(self._key)
        self._domain = known.get("E2B_DOMAIN") or "e2b.app"
        self._api = (known.get("E2B_API_URL") or f"https://api.{self._domain}").rstrip("/")
        self._envd = known.get("E2B_SANDBOX_URL", "").rstrip("/")
        self._environ = known
        self._template, self._choice, self._network = template, choice, around.network
        self.description = f"a sandbox of E2B's template {template!r}"
        self.plan = ExecutorRecord(
            kind="e2b",
            where=choice.where,
            image=template,
            workspace=choice.workspace or "/home/user/workspace",
        )

    async def start(self, thread: str) -> ContainerExecutor:
        """Make a sandbox for a thread."""
        ttl = self._choice.ttl
        wanted = {
            "templateID": self._template,
            "timeout": self._seconds,
            # Without a limit of the user's, it rests when its time is over, and loses nothing.
            "autoPause": ttl is None,
            "allow_internet_access": self._network,
            "metadata": {"treadle.thread": thread},
        }
        return await self._enter(await self._call("POST", "/sandboxes", wanted), thread)

    async def connect(self, record: ExecutorRecord) -> ContainerExecutor:
        """Find the sandbox of a record, and wake it."""
        path = f"/v2/sandboxes/{quote(record.id, safe='')}/connect"
        found = await self._call("POST", path, {"timeout": self._seconds})
        return await self._enter(found, record.owner)

    async def stop(self, record: ExecutorRecord) -> None:
        """Kill the sandbox of a record."""
        try:
            await self._call("DELETE", f"/sandboxes/{quote(record.id, safe='')}")
        except ExecutorGone:
            return

    @property
    def _seconds(self) -> int:
        return _USUAL_SECONDS if self._choice.ttl is None else max(int(self._choice.ttl), 1)

    async def _enter(self, body: bytes, thread: str) -> ContainerExecutor:
        try:
            sandbox = decode_json(body, _Sandbox)
        except msgspec.DecodeError as error:
            raise OSError(f"E2B gave no sandbox: {error}") from error
        record = ExecutorRecord(
            kind="e2b",
            where=self._choice.where,
            id=sandbox.sandbox_id,
            image=self._template,
            workspace=self.plan.workspace,
            owner=thread,
        )
        channel = EnvdChannel(
            AsyncTransport.from_environment(self._environ),
            self._address(sandbox),
            self._headers(sandbox),
            keep_alive=None if self._choice.ttl else lambda: self._extend(record.id),
            every=self._seconds / 3,
        )
        await channel.open()
        pipe = await PipeExecutor.over(channel, name=self.description)
        workspace = await enter(pipe, record.workspace)
        return ContainerExecutor(
            pipe,
            msgspec.structs.replace(record, workspace=workspace),
            env=self._choice.env,
            pause=lambda: self._pause(record.id),
            stop=lambda: self.stop(record),
            address=f"e2b://{record.id}",
        )

    def _address(self, sandbox: _Sandbox) -> str:
        domain = sandbox.domain or self._domain
        return self._envd or f"https://{_PORT}-{sandbox.sandbox_id}.{domain}"

    def _headers(self, sandbox: _Sandbox) -> dict[str, str]:
        headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(_PORT)}
        if sandbox.envd_access_token:
            add_secrets(sandbox.envd_access_token)
            headers["X-Access-Token"] = sandbox.envd_access_token
        return headers

    async def _pause(self, sandbox: str) -> None:
        await self._call("POST", f"/sandboxes/{quote(sandbox, safe='')}/pause", {})

    async def _extend(self, sandbox: str) -> None:
        path = f"/sandboxes/{quote(sandbox, safe='')}/timeout"
        await self._call("POST", path, {"timeout": self._seconds})

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        """Ask the control plane. Raises `ExecutorGone` for what is not there, else `OSError`."""
        headers = {"X-API-KEY": self._key, "content-type": "application/json"}
        url = f"{self._api}{path}"
        try:
            async with AsyncTransport.from_environment(self._environ) as transport:
                if method == "POST":
                    response = await transport.post(url, msgspec.json.encode(body), headers)
                else:
                    response = await transport.delete(url, headers)
                said = await response.read(_MOST_BYTES)
        except TransportError as error:
            raise OSError(f"E2B cannot be reached: {one_line(str(error))}") from error
        if response.status == _GONE:
            raise ExecutorGone(f"there is no such sandbox at E2B any more: {path}")
        if response.status >= 300:
            raise OSError(
                f"E2B refused {method} {path} ({response.status}): "
                f"{one_line(said.decode(errors='replace'))}"
            )
        return said
