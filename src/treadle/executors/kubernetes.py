"""Executors in Kubernetes, as the agent-sandbox project makes them, through ``kubectl``.

Owns the two custom resources of a thread: a ``Sandbox`` of an image, or a ``SandboxClaim`` on a
warm pool, whose template the cluster's owner has written. Invariants: the resource is named
after its thread; whoever may do what is the cluster's matter (its login, its network policies,
its runtime class), and no credential of ours goes there.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

from ..core.errors import InvalidOption
from ..core.ids import derived_id
from ..tools.executor_life import ExecutorGone, ExecutorRecord
from ..tools.pipe import PipeExecutor
from .choice import ExecutorChoice
from .program import ProgramFailed, command_here, run_program
from .remote_executor import ContainerExecutor, enter

__all__ = ["KubernetesSource"]

_SANDBOX = ("agents.x-k8s.io/v1beta1", "Sandbox", "sandboxes.agents.x-k8s.io")
_CLAIM = (
    "extensions.agents.x-k8s.io/v1beta1",
    "SandboxClaim",
    "sandboxclaims.extensions.agents.x-k8s.io",
)
_LABEL = "treadle.dev/thread"
_READY_SECONDS = 300.0
_LOOK_SECONDS = 0.5
_HOPELESS = frozenset(
    (
        *("TemplateNotFound", "WarmPoolNotFound", "ClaimExpired", "SandboxExpired", "PodFailed"),
        *("InvalidMetadata", "InvalidConfiguration", "PodSucceeded", "VolumeClaimTemplatesError"),
    )
)
"""Why something will never be ready."""


class KubernetesSource:
    """Makes a sandbox of an image, or claims one of a pool, for each thread."""

    contains = True

    def __init__(self, what: str, choice: ExecutorChoice, *, program: str = "kubectl") -> None:
        pool = what.removeprefix("pool/") if what.startswith("pool/") else ""
        if what.startswith("-") or any(each.isspace() for each in what) or what == "pool/":
            raise InvalidOption(f"{what!r} is no image; write kubernetes:IMAGE or :pool/NAME")
        self._image, self._pool, self._choice = "" if pool else what, pool, choice
        self._api, self._kind, self._resource = _CLAIM if pool else _SANDBOX
        self._program = program
        named = f"the pool {pool!r}" if pool else f"the image {what!r}"
        self.description = f"a Kubernetes sandbox of {named}"
        self.plan = ExecutorRecord(
            kind="kubernetes",
            where=choice.where,
            image=self._image,
            workspace=choice.workspace or "/tmp/workspace",  # noqa: S108 - its own
        )

    async def start(self, thread: str) -> ContainerExecutor:
        """Make the resource of a thread, or find the one that was made for it."""
        name = _name(thread, self._image or self._pool)
        if await self._get(self._resource, name) is None:
            manifest = json.dumps(self._manifest(name, thread)).encode()
            await self._run("create", "-f", "-", data=manifest)
        return await self._connect(name, thread, number=1)

    async def connect(self, record: ExecutorRecord) -> ContainerExecutor:
        """Find the resource of a record, and wake it."""
        return await self._connect(record.id, record.owner, number=record.number)

    async def stop(self, record: ExecutorRecord) -> None:
        """Delete the resource of a record."""
        found = await self._get(self._resource, record.id)
        if found is not None:
            _check_owner(found, record.id, record.owner)
            await self._run("delete", self._resource, record.id, "--wait=false")

    async def _connect(self, name: str, thread: str, *, number: int) -> ContainerExecutor:
        found = await self._get(self._resource, name)
        if found is None:
            raise ExecutorGone(f"there is no {self._kind} {name!r} any more")
        _check_owner(found, name, thread)
        sandbox = await self._sandbox_of(name)
        await self._set_mode(sandbox, "Running")
        await self._wait_until_ready(name)
        command = await command_here(*self._command("exec"), "-i", sandbox, "--")
        pipe = await PipeExecutor.connect(command, name=self.description)
        workspace = await enter(pipe, self.plan.workspace)
        record = ExecutorRecord(
            kind="kubernetes",
            where=self._choice.where,
            id=name,
            image=self._image,
            workspace=workspace,
            owner=thread,
            number=number,
        )
        return ContainerExecutor(
            pipe,
            record,
            env=self._choice.env,
            pause=lambda: self._set_mode(sandbox, "Suspended"),
            stop=lambda: self.stop(record),
            address=f"kubernetes://{sandbox}",
        )

    def _manifest(self, name: str, thread: str) -> dict[str, Any]:
        spec: dict[str, Any]
        if self._pool:
            spec = {"warmPoolRef": {"name": self._pool}}
        else:
            container = {
                "name": "workspace",
                "image": self._image,
                "command": ["sh", "-c", "while :; do sleep 86400; done"],
            }
            pod = {"containers": [container], "automountServiceAccountToken": False}
            spec = {"podTemplate": {"spec": pod}}
        if self._choice.ttl is not None:
            end = time.gmtime(time.time() + self._choice.ttl)
            lifecycle = {
                "shutdownTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", end),
                "shutdownPolicy": "Delete",
            }
            spec |= {"lifecycle": lifecycle} if self._pool else lifecycle
        labels = {_LABEL: thread}
        metadata = {"name": name, "labels": labels}
        return {"apiVersion": self._api, "kind": self._kind, "metadata": metadata, "spec": spec}

    async def _sandbox_of(self, name: str) -> str:
        """Return the sandbox behind the resource, which is also the name of its pod."""
        if not self._pool:
            return name
        async with asyncio.timeout(_READY_SECONDS):
            while True:
                claim = await self._get(self._resource, name) or {}
                _check_hope(claim, name)
                given = ((claim.get("status") or {}).get("sandbox") or {}).get("name")
                if isinstance(given, str) and given and not given.startswith("-"):
                    return given
                await asyncio.sleep(_LOOK_SECONDS)

    async def _set_mode(self, sandbox: str, mode: str) -> None:
        change = json.dumps({"spec": {"operatingMode": mode}})
        await self._run("patch", _SANDBOX[2], sandbox, "--type=merge", "-p", change)

    async def _wait_until_ready(self, name: str) -> None:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while not _is_ready(found := await self._get(self._resource, name) or {}):
                    _check_hope(found, name)
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError as error:
            raise OSError(
                f"{self._kind} {name!r} was not ready in {_READY_SECONDS:.0f} seconds"
            ) from error

    async def _get(self, resource: str, name: str) -> dict[str, Any] | None:
        try:
            said = await self._run("get", resource, name, "-o", "json")
        except ProgramFailed as error:
            if "(notfound)" in error.said.lower():
                return None
            raise
        found: dict[str, Any] = json.loads(said)
        return found

    async def _run(self, verb: str, *argv: str, data: bytes = b"") -> bytes:
        return await run_program(*self._command(verb), *argv, data=data)

    def _command(self, verb: str) -> tuple[str, ...]:
        space = self._choice.namespace
        return (self._program, verb, *(("-n", space) if space else ()))


def _name(thread: str, what: str) -> str:
    """Return a name that Kubernetes takes: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9-]+", "-", f"{thread}-{derived_id('', what)[1:9]}".lower())[:63].strip(
        "-"
    )


def _conditions(found: dict[str, Any]) -> list[dict[str, Any]]:
    return (found.get("status") or {}).get("conditions") or []


def _is_ready(found: dict[str, Any]) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in _conditions(found))


def _check_hope(found: dict[str, Any], name: str) -> None:
    for each in _conditions(found):
        if each.get("status") == "False" and each.get("reason") in _HOPELESS:
            told = f"{each.get('reason')}: {each.get('message') or ''}"[:300]
            raise OSError(f"{name!r} will not be ready: {told}")


def _check_owner(found: dict[str, Any], name: str, thread: str) -> None:
    if ((found.get("metadata") or {}).get("labels") or {}).get(_LABEL) != thread:
        raise ExecutorGone(f"{name!r} was not made for the thread {thread!r}")
