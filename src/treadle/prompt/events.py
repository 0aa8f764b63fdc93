"""What happened beside the conversation: a skill, a command of the user's, an abort, a hook.

Owns the fragments that are said once and then stand in the log. Invariant: none
of them has a state, so none is ever said again on its own.
"""

from __future__ import annotations

from typing import ClassVar

from ..core.wire import Json
from .fragment import Fragment, FragmentRole, Markers

__all__ = ["HookContext", "Skill", "TurnAborted", "UserShellCommand"]


class Skill(Fragment, frozen=True, kw_only=True):
    """The text of a skill the user asked for."""

    id: ClassVar[str] = "skill"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<skill>", "</skill>")
    cap_tokens: ClassVar[int] = 2_000

    name: str
    path: str
    contents: str
    resource_access: Json | None = None

    def body(self) -> str:
        """Name and path, then the skill as its file has it."""
        access = ""
        if self.resource_access is not None:
            access = f"\n<resource_access>{bytes(self.resource_access).decode()}</resource_access>"
        head = f"<name>{self.name}</name>\n<path>{self.path}</path>{access}"
        return f"\n{head}\n{self.contents}\n"


class UserShellCommand(Fragment, frozen=True, kw_only=True):
    """A command the user ran by hand, and what it printed."""

    id: ClassVar[str] = "user_shell_command"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<user_shell_command>", "</user_shell_command>")
    cap_tokens: ClassVar[int] = 9_500
    inner: ClassVar[tuple[str, ...]] = ("command", "result")

    command: str
    exit_code: int
    seconds: float
    output: str

    def body(self) -> str:
        """The command and its result."""
        return (
            f"\n<command>\n{self.command}\n</command>\n<result>\nExit code: {self.exit_code}\n"
            f"Duration: {self.seconds:.4f} seconds\nOutput:\n{self.output}\n</result>\n"
        )


class TurnAborted(Fragment, frozen=True):
    """The turn before this one did not end by itself."""

    id: ClassVar[str] = "turn_aborted"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<turn_aborted>", "</turn_aborted>")
    cap_tokens: ClassVar[int] = 500

    guidance: str = (
        "The user interrupted the last turn on purpose.\n"
        "Commands that were running may have done part of their work; look before you repeat one."
    )

    def body(self) -> str:
        """What to make of it."""
        return f"\n{self.guidance}\n"


class HookContext(Fragment, frozen=True):
    """What a hook of the user's adds; it carries no markers."""

    id: ClassVar[str] = "hook_context"
    role: ClassVar[FragmentRole] = "developer"
    cap_tokens: ClassVar[int] = 2_500

    text: str

    def body(self) -> str:
        """The hook's text."""
        return self.text
