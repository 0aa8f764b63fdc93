"""The environment: where the model works and what it may touch.

Owns `<environment_context>`: its tags, their order, indentation and omissions.
Invariant: a difference names only the groups that changed, and always the shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from .fragment import Fragment, FragmentRole, Markers
from .observation import PromptContext
from .state import Absent, Known, StateFragment, Unrecorded

__all__ = [
    "EnvironmentFragment",
    "EnvironmentSnapshot",
    "EnvironmentState",
    "SandboxFacts",
    "sandbox_facts",
]


class SandboxFacts(Struct, frozen=True, omit_defaults=True):
    """The sandbox as the model is told of it; told as one group."""

    mode: str
    network_access: str
    writable_roots: tuple[str, ...] = ()


class EnvironmentFragment(Fragment, frozen=True, kw_only=True):
    """Where the model works; a group that is None is left out."""

    id: ClassVar[str] = "environment"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<environment_context>", "</environment_context>")
    cap_tokens: ClassVar[int] = 2_000
    inner: ClassVar[tuple[str, ...]] = (
        "cwd",
        "approval_policy",
        "sandbox_mode",
        "network_access",
        "writable_roots",
        "root",
        "shell",
    )

    cwd: str | None = None
    approval_policy: str | None = None
    sandbox: SandboxFacts | None = None
    shell: str

    def body(self) -> str:
        """One element a line, two spaces deep."""
        lines = [
            *_element("cwd", self.cwd),
            *_element("approval_policy", self.approval_policy),
            *_sandbox_lines(self.sandbox),
            *_element("shell", self.shell),
        ]
        return "\n" + "".join(f"  {line}\n" for line in lines)


class EnvironmentSnapshot(Struct, frozen=True):
    """The environment that was told."""

    cwd: str
    approval_policy: str
    sandbox: SandboxFacts
    shell: str


class EnvironmentState(StateFragment[EnvironmentSnapshot]):
    """Tells the environment, then the groups that changed. A new shell alone is not told."""

    id = EnvironmentFragment.id
    snapshot_type = EnvironmentSnapshot
    fragments = (EnvironmentFragment,)

    def snapshot(self, ctx: PromptContext) -> EnvironmentSnapshot:
        """The environment of `ctx`."""
        return EnvironmentSnapshot(ctx.cwd, ctx.approval_policy, sandbox_facts(ctx), ctx.shell)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[EnvironmentSnapshot | None],
        current: EnvironmentSnapshot | None,
    ) -> Sequence[Fragment]:
        """All of it at first, later the changed groups."""
        if current is None:
            return ()
        known = previous.snapshot if isinstance(previous, Known) else None
        told = _whole(current) if known is None else _changed(known, current)
        return () if told == EnvironmentFragment(shell=current.shell) else (told,)


def sandbox_facts(ctx: PromptContext) -> SandboxFacts:
    """What `ctx` says of the sandbox, with what its mode implies filled in."""
    flag = "enabled" if ctx.network_access else "restricted"
    match ctx.sandbox_mode:
        case "danger-full-access":
            return SandboxFacts("danger-full-access", "enabled")
        case "external-sandbox":
            return SandboxFacts("danger-full-access", flag)
        case "workspace-write":
            return SandboxFacts("workspace-write", flag, ctx.writable_roots)
        case _:
            return SandboxFacts("read-only", "restricted")


def _whole(now: EnvironmentSnapshot) -> EnvironmentFragment:
    return EnvironmentFragment(
        cwd=now.cwd, approval_policy=now.approval_policy, sandbox=now.sandbox, shell=now.shell
    )


def _changed(before: EnvironmentSnapshot, now: EnvironmentSnapshot) -> EnvironmentFragment:
    return EnvironmentFragment(
        cwd=None if now.cwd == before.cwd else now.cwd,
        approval_policy=(
            None if now.approval_policy == before.approval_policy else now.approval_policy
        ),
        sandbox=None if now.sandbox == before.sandbox else now.sandbox,
        shell=now.shell,
    )


def _element(tag: str, value: str | None) -> list[str]:
    return [] if value is None else [f"<{tag}>{value}</{tag}>"]


def _sandbox_lines(sandbox: SandboxFacts | None) -> list[str]:
    if sandbox is None:
        return []
    lines = [
        f"<sandbox_mode>{sandbox.mode}</sandbox_mode>",
        f"<network_access>{sandbox.network_access}</network_access>",
    ]
    if sandbox.writable_roots:
        roots = [f"  <root>{root}</root>" for root in sandbox.writable_roots]
        lines += ["<writable_roots>", *roots, "</writable_roots>"]
    return lines
