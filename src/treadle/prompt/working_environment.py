"""The working environment: where the model works, what it may touch, when the user is asked.

Owns `<environment_context>` (its tags, their order, indentation and omissions),
`<permissions instructions>` and the note about newly approved prefixes. Invariants: a
difference of the environment names only the groups that changed, and always the shell; a
prefix that is only added is sent as one short note, every other change of the permissions
sends the whole block again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from msgspec import Struct

from ..core.wire import json_bytes
from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import PromptContext
from .state_fragment import Absent, Known, StateFragment, Unrecorded

__all__ = [
    "ApprovedPrefixes",
    "EnvironmentFragment",
    "EnvironmentSnapshot",
    "EnvironmentState",
    "Permissions",
    "PermissionsSnapshot",
    "PermissionsState",
    "SandboxFacts",
    "prefix_lines",
    "sandbox_facts",
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
_HOSTS = """\
They can reach these hosts only, over HTTP and HTTPS, through the proxy that the usual variables \
(`HTTPS_PROXY` and so on) name: {hosts}
Names do not resolve by themselves. Whatever else is tried is refused, and the output says so."""
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


class SandboxFacts(Struct, frozen=True, omit_defaults=True):
    """The sandbox as the model sees it; sent as one group."""

    mode: str
    network_access: str
    writable_roots: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """The only hosts that are reached while the network is restricted."""


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
        "network_hosts",
        "host",
        "writable_roots",
        "root",
        "shell",
        "current_date",
        "timezone",
    )

    cwd: str | None = None
    approval_policy: str | None = None
    sandbox: SandboxFacts | None = None
    shell: str
    date: str | None = None
    timezone: str | None = None

    def body(self) -> str:
        """Return one element a line, two spaces deep."""
        lines = [
            *_element("cwd", self.cwd),
            *_element("approval_policy", self.approval_policy),
            *_sandbox_lines(self.sandbox),
            *_element("shell", self.shell),
            *_element("current_date", self.date),
            *_element("timezone", self.timezone),
        ]
        return "\n" + "".join(f"  {line}\n" for line in lines)


class EnvironmentSnapshot(Struct, frozen=True, omit_defaults=True):
    """The environment that was sent."""

    cwd: str
    approval_policy: str
    sandbox: SandboxFacts
    shell: str
    date: str = ""
    timezone: str = ""


class EnvironmentState(StateFragment[EnvironmentSnapshot]):
    """Sends the environment, then the groups that changed. A new shell alone is not sent."""

    id = EnvironmentFragment.id
    snapshot_type = EnvironmentSnapshot
    fragments = (EnvironmentFragment,)

    def snapshot(self, ctx: PromptContext) -> EnvironmentSnapshot:
        """Return the environment of `ctx`."""
        return EnvironmentSnapshot(
            ctx.cwd, ctx.approval_policy, sandbox_facts(ctx), ctx.shell, ctx.date, ctx.timezone
        )

    def difference(
        self,
        previous: Absent | Unrecorded | Known[EnvironmentSnapshot | None],
        current: EnvironmentSnapshot | None,
    ) -> Sequence[Fragment]:
        """Return all of it at first, later the changed groups."""
        if current is None:
            return ()
        known = previous.snapshot if isinstance(previous, Known) else None
        fragment = _all_groups(current) if known is None else _changed_groups(known, current)
        return () if fragment == EnvironmentFragment(shell=current.shell) else (fragment,)


def sandbox_facts(ctx: PromptContext) -> SandboxFacts:
    """Return what `ctx` says about the sandbox, with what its mode implies."""
    flag = "enabled" if ctx.network_access else "restricted"
    hosts = () if ctx.network_access else ctx.network_hosts
    match ctx.sandbox_mode:
        case "danger-full-access":
            return SandboxFacts("danger-full-access", "enabled")
        case "external-sandbox":
            return SandboxFacts("danger-full-access", flag)
        case "workspace-write":
            return SandboxFacts("workspace-write", flag, ctx.writable_roots, hosts)
        case _:
            return SandboxFacts("read-only", flag, hosts=hosts)


def _all_groups(now: EnvironmentSnapshot) -> EnvironmentFragment:
    return EnvironmentFragment(
        cwd=now.cwd,
        approval_policy=now.approval_policy,
        sandbox=now.sandbox,
        shell=now.shell,
        date=now.date or None,
        timezone=now.timezone or None,
    )


def _changed_groups(before: EnvironmentSnapshot, now: EnvironmentSnapshot) -> EnvironmentFragment:
    is_another_day = (now.date, now.timezone) != (before.date, before.timezone)
    return EnvironmentFragment(
        cwd=None if now.cwd == before.cwd else now.cwd,
        approval_policy=(
            None if now.approval_policy == before.approval_policy else now.approval_policy
        ),
        sandbox=None if now.sandbox == before.sandbox else now.sandbox,
        shell=now.shell,
        date=now.date or None if is_another_day else None,
        timezone=now.timezone or None if is_another_day else None,
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
    if sandbox.hosts:
        hosts = [f"  <host>{host}</host>" for host in sandbox.hosts]
        lines += ["<network_hosts>", *hosts, "</network_hosts>"]
    if sandbox.writable_roots:
        roots = [f"  <root>{root}</root>" for root in sandbox.writable_roots]
        lines += ["<writable_roots>", *roots, "</writable_roots>"]
    return lines


class Permissions(Fragment, frozen=True, kw_only=True):
    """All that the model may do."""

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
        """Return one paragraph each for the sandbox, approvals and approved prefixes."""
        sandbox = [
            _SANDBOX.get(self.sandbox.mode, f"`sandbox_mode` is `{self.sandbox.mode}`."),
            _network_text(self.sandbox),
        ]
        paragraphs = ["\n".join(filter(None, sandbox))]
        if self.sandbox.writable_roots:
            roots = "\n".join(f"- {root}" for root in self.sandbox.writable_roots)
            paragraphs.append(f"Writable roots:\n{roots}")
        policy = self.approval_policy
        paragraphs.append(_APPROVAL.get(policy, f"`approval_policy` is `{policy}`."))
        if self.approved_prefixes:
            paragraphs.append(
                "In this directory the user has approved commands that start with one of these "
                "prefixes\nand go on with plain arguments; in doubt they are shown again:\n"
                + prefix_lines(self.approved_prefixes)
            )
        return "\n" + "\n\n".join(paragraphs) + "\n"


def _network_text(sandbox: SandboxFacts) -> str:
    if sandbox.hosts:
        return _HOSTS.format(hosts=", ".join(sandbox.hosts))
    return _NETWORK.get(sandbox.network_access, "")


class ApprovedPrefixes(Fragment, frozen=True):
    """Prefixes that were approved since the permissions were sent."""

    id: ClassVar[str] = "approved_prefixes"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("Approved command prefix saved:", "")
    cap_tokens: ClassVar[int] = 2_000

    prefixes: tuple[Prefix, ...]

    def body(self) -> str:
        """Return one line a prefix."""
        return "\n" + prefix_lines(self.prefixes)

    @classmethod
    def matches(cls, text: str) -> bool:
        """Return whether `text` has the opening phrase; there is no end marker."""
        return text.lstrip().lower().startswith("approved command prefix saved:")


class PermissionsSnapshot(Struct, frozen=True, omit_defaults=True):
    """The permissions that were sent."""

    approval_policy: str
    sandbox: SandboxFacts
    approved_prefixes: tuple[Prefix, ...] = ()


class PermissionsState(StateFragment[PermissionsSnapshot]):
    """Sends the permissions, and new approved prefixes on their own."""

    id = Permissions.id
    snapshot_type = PermissionsSnapshot
    fragments = (Permissions, ApprovedPrefixes)

    def snapshot(self, ctx: PromptContext) -> PermissionsSnapshot:
        """Return the permissions of `ctx`."""
        prefixes = tuple(sorted(set(ctx.approved_prefixes), key=_prefix_order))
        return PermissionsSnapshot(ctx.approval_policy, sandbox_facts(ctx), prefixes)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[PermissionsSnapshot | None],
        current: PermissionsSnapshot | None,
    ) -> Sequence[Fragment]:
        """Return the new prefixes if nothing else changed, otherwise the whole block."""
        if current is None:
            return ()
        if isinstance(previous, Known) and previous.snapshot is not None:
            added = _added_prefixes(previous.snapshot, current)
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
    """Return prefixes as lines such as ``- ["git", "pull"]``, shortest first, visibly bounded."""
    ordered = sorted(prefixes, key=_prefix_order)
    lines = "\n".join(f"- [{', '.join(map(_json, p))}]" for p in ordered[:_MAX_PREFIXES])
    if len(ordered) <= _MAX_PREFIXES and len(lines) <= _MAX_PREFIX_CHARS:
        return lines
    return lines[:_MAX_PREFIX_CHARS] + _MORE_PREFIXES


def _added_prefixes(before: PermissionsSnapshot, now: PermissionsSnapshot) -> tuple[Prefix, ...]:
    same_rules = (before.approval_policy, before.sandbox) == (now.approval_policy, now.sandbox)
    if not same_rules or not set(before.approved_prefixes) <= set(now.approved_prefixes):
        return ()
    return tuple(p for p in now.approved_prefixes if p not in before.approved_prefixes)


def _prefix_order(prefix: Prefix) -> tuple[int, int, Prefix]:
    return len(prefix), sum(map(len, prefix)), prefix


def _json(word: str) -> str:
    return json_bytes(word).decode()
