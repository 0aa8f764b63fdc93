"""Approvals: whether a command runs, is shown to the user, or is refused.

Owns the decision as a pure function, and the answers a host may give. Invariant:
a command leaves the sandbox only if the user said so, for it or for its prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from .policy import SandboxMode
from .prefixes import Argv, PrefixRule, is_banned, matching

__all__ = [
    "ApprovalPolicy",
    "Ask",
    "Command",
    "Decision",
    "Escalation",
    "ForPrefix",
    "ForThread",
    "No",
    "NoAndStop",
    "Once",
    "Refuse",
    "Remembered",
    "Run",
    "Verdict",
    "decide",
    "decide_patch",
    "may_offer_outside",
    "was_denied",
]

ApprovalPolicy: TypeAlias = Literal["never", "on-request", "untrusted"]

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


class Escalation(Struct, frozen=True):
    """A model's wish to run a command outside the sandbox."""

    justification: str = ""
    prefix: Argv = ()


class Command(Struct, frozen=True):
    """A command somebody wants to run."""

    argv: Argv
    cwd: str
    escalation: Escalation | None = None


class Remembered(Struct, frozen=True):
    """What the user has approved before."""

    prefixes: tuple[PrefixRule, ...] = ()
    commands: frozenset[tuple[Argv, str, bool]] = frozenset()
    """Whole commands of this thread: arguments, directory, and whether outside."""


_NOTHING = Remembered()


class Run(Struct, frozen=True, tag="run"):
    """Run it, in the sandbox or outside."""

    sandboxed: bool = True


class Ask(Struct, frozen=True, kw_only=True, tag="ask"):
    """Show it to the user first. `prefix` is what could be approved for good."""

    argv: Argv
    cwd: str
    reason: str
    outside: bool = False
    prefix: Argv | None = None


class Refuse(Struct, frozen=True, tag="refuse"):
    """Do not run it; `reason` is for the model."""

    reason: str


Verdict: TypeAlias = Run | Ask | Refuse


class Once(Struct, frozen=True, tag="once"):
    """Yes, this time."""


class ForThread(Struct, frozen=True, tag="thread"):
    """Yes, and the same command again while this thread lives in memory."""


class ForPrefix(Struct, frozen=True, tag="prefix"):
    """Yes, and every command that begins so, from now on."""

    prefix: Argv


class No(Struct, frozen=True, tag="no"):
    """No; the turn goes on, and the model reads `note`."""

    note: str = ""


class NoAndStop(Struct, frozen=True, tag="stop"):
    """No, and the turn ends here."""


Decision: TypeAlias = Once | ForThread | ForPrefix | No | NoAndStop
"""What a host may answer to an `Ask`."""


def decide(
    command: Command,
    *,
    mode: SandboxMode,
    approval: ApprovalPolicy,
    remembered: Remembered = _NOTHING,
) -> Verdict:
    """What is to happen with `command`."""
    from .commands import segments

    confined = mode != "danger-full-access"
    outside = confined and command.escalation is not None
    parts = segments(command.argv)
    rules = [matching(remembered.prefixes, part) for part in parts]
    if (command.argv, command.cwd, outside) in remembered.commands:
        return Run(sandboxed=confined and not outside)
    if all(rule is not None and rule.outside for rule in rules):
        return Run(sandboxed=False)
    unknown = [part for part, rule in zip(parts, rules, strict=True) if rule is None]
    if not outside and not _needs_asking(unknown, approval):
        return Run(sandboxed=confined)
    if approval == "never":
        return Refuse(_rejection(command, unknown))
    return Ask(
        argv=command.argv,
        cwd=command.cwd,
        reason=_reason(command),
        outside=outside,
        prefix=_proposal(command, parts, unknown, outside=outside),
    )


def decide_patch(
    *, paths: Sequence[str], writable: bool, approval: ApprovalPolicy, confined: bool = True
) -> Verdict:
    """What is to happen with a patch of `paths`; `writable` says whether all of them are."""
    if not paths:
        return Refuse("patch rejected: it changes nothing")
    if approval == "untrusted" or (confined and not writable and approval == "on-request"):
        reason = "the patch requires approval" + ("" if writable else ": it leaves the roots")
        return Ask(argv=("apply_patch", *paths), cwd="", reason=reason, outside=not writable)
    if confined and not writable:
        return Refuse("patch rejected: it writes outside the writable roots")
    return Run(sandboxed=confined)


def may_offer_outside(approval: ApprovalPolicy, *, patch: bool = False) -> bool:
    """Whether the user is asked to let out what the sandbox has just stopped."""
    return approval == "untrusted" or (patch and approval == "on-request")


def was_denied(exit_code: int, *outputs: str) -> bool:
    """Whether a failure looks like the sandbox's doing rather than the command's own."""
    if exit_code == 0:
        return False
    said = "\n".join(outputs).lower()
    return exit_code == _BAD_SYSTEM_CALL or any(sign in said for sign in _DENIALS)


def _needs_asking(unknown: Sequence[Argv], approval: ApprovalPolicy) -> bool:
    from .safety import is_dangerous, is_safe_read_only

    if any(map(is_dangerous, unknown)):
        return True
    return approval == "untrusted" and not all(map(is_safe_read_only, unknown))


def _reason(command: Command) -> str:
    import shlex

    asked = f"`{shlex.join(command.argv)}` requires approval"
    why = command.escalation.justification if command.escalation else ""
    return f"{asked}: {why}" if why else f"{asked} by policy"


def _rejection(command: Command, unknown: Sequence[Argv]) -> str:
    import shlex

    from .safety import is_dangerous

    if any(map(is_dangerous, unknown)):
        why = "it removes files by force, and nobody is asked for approval"
    else:
        why = "it asks to leave the sandbox, and nobody is asked for approval; run it inside"
    return f"`{shlex.join(command.argv)}` rejected: {why}"


def _proposal(
    command: Command, parts: Sequence[Argv], unknown: Sequence[Argv], *, outside: bool
) -> Argv | None:
    """The prefix to offer: the model's own, else a lone command as it stands."""
    from .safety import is_dangerous

    wished = command.escalation.prefix if command.escalation else ()
    prefix = wished or (parts[0] if len(parts) == 1 else ())
    if is_banned(prefix) or any(map(is_dangerous, parts)):
        return None
    rule = PrefixRule(prefix, outside=outside)
    return prefix if all(matching((rule,), part) for part in unknown or parts) else None
