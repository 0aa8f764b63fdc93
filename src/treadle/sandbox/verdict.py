"""Verdicts: whether a command or a patch runs, is shown to the user, or is refused.

Owns that decision, as pure functions. Invariant: a command leaves the sandbox only if the
user said so, for it or for its prefix.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from .approvals import (
    ApprovalPolicy,
    Argv,
    Ask,
    Command,
    PastApprovals,
    PrefixRule,
    is_banned,
    matching_rule,
)
from .commands import segments
from .policy import SandboxMode
from .safety import is_dangerous, is_safe_read_only

__all__ = [
    "Refuse",
    "Run",
    "Verdict",
    "can_offer_outside",
    "judge_command",
    "judge_patch",
    "was_denied",
]

_DENIALS = (
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "seccomp",
    "sandbox",
    "landlock",
    "failed to write file",
)
_BAD_SYSTEM_CALL = 128 + 31
_NO_APPROVALS = PastApprovals()


class Run(Struct, frozen=True, tag="run"):
    """Run it, in the sandbox or outside."""

    sandboxed: bool = True


class Refuse(Struct, frozen=True, tag="refuse"):
    """Do not run it; `reason` is for the model."""

    reason: str


Verdict: TypeAlias = Run | Ask | Refuse


def judge_command(
    command: Command,
    *,
    mode: SandboxMode,
    approval: ApprovalPolicy,
    approved: PastApprovals = _NO_APPROVALS,
) -> Verdict:
    """Decide what happens with `command`."""
    confined = mode != "danger-full-access"
    outside = confined and command.escalation is not None
    parts = segments(command.argv)
    rules = [matching_rule(approved.prefixes, part) for part in parts]
    if (command.argv, command.cwd, outside) in approved.commands:
        return Run(sandboxed=confined and not outside)
    if all(rule is not None and rule.outside for rule in rules):
        return Run(sandboxed=False)
    unknown = [part for part, rule in zip(parts, rules, strict=True) if rule is None]
    if not outside and not _needs_approval(unknown, approval):
        return Run(sandboxed=confined)
    if approval == "never":
        return Refuse(_rejection(command, unknown))
    return Ask(
        argv=command.argv,
        cwd=command.cwd,
        reason=_reason(command),
        outside=outside,
        prefix=_proposed_prefix(command, parts, unknown, outside=outside),
    )


def judge_patch(
    *, paths: Sequence[str], writable: bool, approval: ApprovalPolicy, confined: bool = True
) -> Verdict:
    """Decide what happens with a patch of `paths`; `writable` says whether all of them are."""
    if not paths:
        return Refuse("patch rejected: it changes nothing")
    if approval == "untrusted" or (confined and not writable and approval == "on-request"):
        reason = "the patch requires approval" + ("" if writable else ": it leaves the roots")
        return Ask(argv=("apply_patch", *paths), cwd="", reason=reason, outside=not writable)
    if confined and not writable:
        return Refuse("patch rejected: it writes outside the writable roots")
    return Run(sandboxed=confined)


def can_offer_outside(approval: ApprovalPolicy, *, patch: bool = False) -> bool:
    """Return whether the user is asked to run outside what the sandbox has just stopped."""
    return approval == "untrusted" or (patch and approval == "on-request")


def was_denied(exit_code: int, *outputs: str) -> bool:
    """Return whether a failure looks like the sandbox's doing and not the command's own."""
    if exit_code == 0:
        return False
    text = "\n".join(outputs).lower()
    return exit_code == _BAD_SYSTEM_CALL or any(sign in text for sign in _DENIALS)


def _needs_approval(unknown: Sequence[Argv], approval: ApprovalPolicy) -> bool:
    if any(map(is_dangerous, unknown)):
        return True
    return approval == "untrusted" and not all(map(is_safe_read_only, unknown))


def _reason(command: Command) -> str:
    request = f"`{shlex.join(command.argv)}` requires approval"
    why = command.escalation.justification if command.escalation else ""
    return f"{request}: {why}" if why else f"{request} by policy"


def _rejection(command: Command, unknown: Sequence[Argv]) -> str:
    if any(map(is_dangerous, unknown)):
        why = "it removes files by force, and nobody is asked for approval"
    else:
        why = "it asks to leave the sandbox, and nobody is asked for approval; run it inside"
    return f"`{shlex.join(command.argv)}` rejected: {why}"


def _proposed_prefix(
    command: Command, parts: Sequence[Argv], unknown: Sequence[Argv], *, outside: bool
) -> Argv | None:
    """Return the prefix to offer: the model's own, else a single command as it stands."""
    requested = command.escalation.prefix if command.escalation else ()
    prefix = requested or (parts[0] if len(parts) == 1 else ())
    if is_banned(prefix) or any(map(is_dangerous, parts)):
        return None
    rule = PrefixRule(prefix, outside=outside)
    return prefix if all(matching_rule((rule,), part) for part in unknown or parts) else None
