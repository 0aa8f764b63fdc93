"""Permissions: what the sandbox allows, and when the user is asked.

Owns `<permissions instructions>` and the note about newly approved prefixes.
Invariant: a prefix that is merely added is told as one short note; every other
change tells the whole block again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from msgspec import Struct

from ..core.wire import json_bytes
from .environment import SandboxFacts, sandbox_facts
from .fragment import Fragment, FragmentRole, Markers
from .observation import PromptContext
from .state import Absent, Known, StateFragment, Unrecorded

__all__ = [
    "ApprovedPrefixes",
    "Permissions",
    "PermissionsSnapshot",
    "PermissionsState",
    "prefix_lines",
]

Prefix = tuple[str, ...]

_MAX_PREFIXES = 100
_MAX_PREFIX_CHARS = 5_000
_MORE_PREFIXES = "...\n[Some commands were truncated]"

_SANDBOX = {
    "read-only": """\
Commands run in a sandbox (`sandbox_mode` is `read-only`).
They may read files anywhere and write nowhere.""",
    "workspace-write": """\
Commands run in a sandbox (`sandbox_mode` is `workspace-write`).
They may read files anywhere and write below the working directory and the writable roots only.""",
    "danger-full-access": """\
Commands run without a file sandbox of ours (`sandbox_mode` is `danger-full-access`).
They can change whatever the user can change.""",
}
_NETWORK = {
    "restricted": "They cannot reach the network.",
    "enabled": "They can reach the network.",
}
_APPROVAL = {
    "untrusted": """\
Every command that no rule allows is shown to the user first (`approval_policy` is `untrusted`).
Ask for few, and make each one easy to judge.""",
    "on-failure": """\
Commands run in the sandbox without asking (`approval_policy` is `on-failure`).
When the sandbox stops one, the user may let it run outside.""",
    "on-request": """\
Commands run in the sandbox without asking (`approval_policy` is `on-request`).
When one must run outside it, request that with a reason the user can judge.""",
    "never": """\
Nobody is asked for approval, so request none (`approval_policy` is `never`).
When the sandbox stops a command, find another way or report what is missing.""",
}


class Permissions(Fragment, frozen=True, kw_only=True):
    """The whole of what the model may do."""

    id: ClassVar[str] = "permissions"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers(
        "<permissions instructions>", "</permissions instructions>"
    )
    cap_tokens: ClassVar[int] = 4_000

    approval_policy: str
    sandbox: SandboxFacts
    approved_prefixes: tuple[Prefix, ...] = ()

    def body(self) -> str:
        """One paragraph each for the sandbox, approvals and approved prefixes."""
        sandbox = [
            _SANDBOX.get(self.sandbox.mode, f"`sandbox_mode` is `{self.sandbox.mode}`."),
            _NETWORK.get(self.sandbox.network_access, ""),
        ]
        paragraphs = ["\n".join(filter(None, sandbox))]
        if self.sandbox.writable_roots:
            roots = "\n".join(f"- {root}" for root in self.sandbox.writable_roots)
            paragraphs.append(f"Writable roots:\n{roots}")
        policy = self.approval_policy
        paragraphs.append(_APPROVAL.get(policy, f"`approval_policy` is `{policy}`."))
        if self.approved_prefixes:
            paragraphs.append(
                "Commands that start with one of these prefixes are approved already:\n"
                + prefix_lines(self.approved_prefixes)
            )
        return "\n" + "\n\n".join(paragraphs) + "\n"


class ApprovedPrefixes(Fragment, frozen=True):
    """Prefixes that were approved since the permissions were told."""

    id: ClassVar[str] = "approved_prefixes"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("Approved command prefix saved:", "")
    cap_tokens: ClassVar[int] = 2_000

    prefixes: tuple[Prefix, ...]

    def body(self) -> str:
        """One line a prefix."""
        return "\n" + prefix_lines(self.prefixes)

    @classmethod
    def matches(cls, text: str) -> bool:
        """By its opening phrase; there is nothing at the end to look for."""
        return text.lstrip().lower().startswith("approved command prefix saved:")


class PermissionsSnapshot(Struct, frozen=True, omit_defaults=True):
    """The permissions that were told."""

    approval_policy: str
    sandbox: SandboxFacts
    approved_prefixes: tuple[Prefix, ...] = ()


class PermissionsState(StateFragment[PermissionsSnapshot]):
    """Tells the permissions, and new approved prefixes on their own."""

    id = Permissions.id
    snapshot_type = PermissionsSnapshot
    fragments = (Permissions, ApprovedPrefixes)

    def snapshot(self, ctx: PromptContext) -> PermissionsSnapshot:
        """The permissions of `ctx`."""
        prefixes = tuple(sorted(set(ctx.approved_prefixes), key=_prefix_order))
        return PermissionsSnapshot(ctx.approval_policy, sandbox_facts(ctx), prefixes)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[PermissionsSnapshot | None],
        current: PermissionsSnapshot | None,
    ) -> Sequence[Fragment]:
        """The new prefixes if nothing else changed, otherwise the whole block."""
        if current is None:
            return ()
        if isinstance(previous, Known) and previous.snapshot is not None:
            added = _only_added(previous.snapshot, current)
            if added:
                return (ApprovedPrefixes(added),)
        return (
            Permissions(
                approval_policy=current.approval_policy,
                sandbox=current.sandbox,
                approved_prefixes=current.approved_prefixes,
            ),
        )


def prefix_lines(prefixes: Iterable[Prefix]) -> str:
    """Prefixes as lines such as ``- ["git", "pull"]``, shortest first, visibly bounded."""
    ordered = sorted(prefixes, key=_prefix_order)
    lines = "\n".join(f"- [{', '.join(map(_json, p))}]" for p in ordered[:_MAX_PREFIXES])
    if len(ordered) <= _MAX_PREFIXES and len(lines) <= _MAX_PREFIX_CHARS:
        return lines
    return lines[:_MAX_PREFIX_CHARS] + _MORE_PREFIXES


def _only_added(before: PermissionsSnapshot, now: PermissionsSnapshot) -> tuple[Prefix, ...]:
    same_rules = (before.approval_policy, before.sandbox) == (now.approval_policy, now.sandbox)
    if not same_rules or not set(before.approved_prefixes) <= set(now.approved_prefixes):
        return ()
    return tuple(p for p in now.approved_prefixes if p not in before.approved_prefixes)


def _prefix_order(prefix: Prefix) -> tuple[int, int, Prefix]:
    return len(prefix), sum(map(len, prefix)), prefix


def _json(word: str) -> str:
    return json_bytes(word).decode()
