"""Verdicts: whether a command or a patch runs, is shown to the user, or is refused.

Owns that decision, as pure functions. Invariant: a command leaves the sandbox only if the
user said so, for it or for its prefix.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from .approvals import (
    ApprovalPolicy,
    Argv,
    Ask,
    Command,
    PastApprovals,
    PrefixRule,
    is_sound,
    matching_rule,
)
from .commands import segments
from .place import CommandPlace, is_system_shell
from .policy import SandboxMode
from .repository import Repository
from .safety import RUN_PROJECTS, is_dangerous, is_safe_read_only

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
    place: CommandPlace | None = None,
) -> Verdict:
    """Decide what happens with `command`.

    `place` tells which words are shells and whose programs are meant; without one nothing
    leaves the sandbox by a rule.
    """
    confined = mode != "danger-full-access"
    outside = confined and command.escalation is not None
    sight = _Sight(command, place)
    parts = segments(command.argv, sight.is_shell)
    rules = [sight.find_rule(approved.prefixes, part, confined=confined) for part in parts]
    if (command.argv, command.cwd, outside) in approved.commands:
        return Run(sandboxed=confined and not outside)
    if all(rule is not None and rule.outside for rule in rules):
        return Run(sandboxed=False)
    unknown = [part for part, rule in zip(parts, rules, strict=True) if rule is None]
    # One part may be the script of another, so danger is looked for in the whole.
    dangerous = bool(unknown) and is_dangerous(command.argv)
    if not outside and not dangerous:
        readers = (sight.is_reader(part, confined=confined) for part in unknown)
        if approval != "untrusted" or all(readers):
            return Run(sandboxed=confined)
    if approval == "never":
        return Refuse(_rejection(command, dangerous=dangerous))
    return Ask(
        argv=command.argv,
        cwd=command.cwd,
        reason=_reason(command, dangerous=dangerous),
        outside=outside,
        # Where nothing is confined, a rule would cover more than the question says.
        prefix=_proposed_prefix(command, parts, unknown, sight, outside) if confined else None,
    )


class _Sight:
    """What the words of one command mean where it runs."""

    def __init__(self, command: Command, place: CommandPlace | None) -> None:
        self._command, self._place = command, place
        self._repository: Repository | None = None
        self._looked = False

    def is_shell(self, word: str) -> bool:
        if self._place is None:
            return is_system_shell(word)
        return self._place.is_shell(word, self._command.shell)

    def is_reader(self, part: Argv, *, confined: bool) -> bool:
        """Return whether `part` only looks; unconfined, nothing does that runs a project's code."""
        if not confined and part[0] in RUN_PROJECTS:
            return False
        return is_safe_read_only(part, self.is_shell) and self._is_fixed(part, always=False)

    def find_rule(
        self, rules: Iterable[PrefixRule], part: Argv, *, confined: bool
    ) -> PrefixRule | None:
        """Return the rule that covers `part`; where nothing is confined, one for outside only."""
        begun = [rule for rule in rules if part[: len(rule.prefix)] == rule.prefix]
        if not begun:
            return None
        usable = [
            rule
            for rule in begun
            if (rule.outside or confined) and self._is_fixed(part, always=rule.outside)
        ]
        return matching_rule(usable, part, self._find_repository())

    def _is_fixed(self, part: Argv, *, always: bool) -> bool:
        if self._place is None:
            return not always
        return self._place.is_fixed(part[0], always=always)

    def _find_repository(self) -> Repository | None:
        if not self._looked and self._place is not None:
            self._repository, self._looked = self._place.repository(), True
        return self._repository


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


def _reason(command: Command, *, dangerous: bool) -> str:
    """Return why the user is asked; the command stands beside it wherever that is shown."""
    known = ["it removes files by force"] if dangerous else []
    if command.escalation is not None:
        why = command.escalation.justification
        known.append(f"the model says: {why}" if why else "the model gives no reason")
    return "; ".join(known) or "it may do more than read"


def _rejection(command: Command, *, dangerous: bool) -> str:
    if dangerous:
        why = "it removes files by force, and nobody is asked for approval"
    else:
        why = "it asks to leave the sandbox, and nobody is asked for approval; run it inside"
    return f"`{shlex.join(command.argv)}` rejected: {why}"


def _proposed_prefix(
    command: Command,
    parts: Sequence[Argv],
    unknown: Sequence[Argv],
    sight: _Sight,
    outside: bool,
) -> Argv | None:
    """Return the prefix to offer: the model's own, else a single command as it stands."""
    requested = command.escalation.prefix if command.escalation else ()
    prefix = requested or (parts[0] if len(parts) == 1 else ())
    if not prefix or is_dangerous(command.argv):
        return None
    rule = PrefixRule(prefix, outside=outside)
    if not is_sound(rule):
        return None
    settles = all(sight.find_rule((rule,), part, confined=True) for part in unknown or parts)
    return prefix if settles else None
