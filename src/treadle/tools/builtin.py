"""The built-in tools, chosen for a model.

Owns which tools a model gets and in which order. Invariant: the same profile gives the same
specifications, byte for byte. The code of a tool loads with its first call, because many
turns call none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ..core.specs import ToolSpec
from ..core.text import TruncationPolicy
from ..models.profile import ModelProfile
from .builtin_specs import (
    APPLY_PATCH_FREEFORM,
    APPLY_PATCH_FUNCTION,
    EXEC_COMMAND,
    LOCAL_SHELL,
    READ_OUTPUT,
    REQUEST_USER_INPUT,
    SHELL,
    SHELL_COMMAND,
    UPDATE_PLAN,
    VIEW_IMAGE,
    VIEW_ORIGINAL_IMAGE,
    WRITE_STDIN,
)
from .contract import ABORTED, Tool, ToolCall, ToolContext, ToolResult

if TYPE_CHECKING:
    from .exec_command import ExecTools
    from .shell import ShellTools

__all__ = ["BuiltinTool", "builtin_tools"]

_ToolCode: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[ToolResult]]


class BuiltinTool(Struct, frozen=True, eq=False):
    """A built-in tool: its specification, and how to load its code."""

    spec: ToolSpec
    load: Callable[[], _ToolCode]
    parallel: bool = False
    replay_safe: bool = False
    """Whether a call changes nothing."""
    aborted: str = ABORTED
    """The output of a call that was aborted after some `seconds`."""

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call."""
        return await self.load()(call, context)

    def abort_text(self, call: ToolCall, seconds: float) -> str:
        """Return the output of a call that was aborted after `seconds`."""
        del call
        return self.aborted.format(seconds=seconds)


def builtin_tools(
    profile: ModelProfile, *, shell: str = "bash", truncation: TruncationPolicy | None = None
) -> tuple[Tool, ...]:
    """Return the tools for one thread with the model of `profile`.

    `shell` runs command lines. `truncation` bounds results in place of the profile's own
    limit. Make them once per thread: sessions live in them. Whatever still runs ends with
    the thread's executor.
    """
    policy = truncation or profile.truncation
    return (
        *_command_tools(profile, policy, shell),
        *_user_tools(),
        *_patch_tools(profile),
        *_image_tools(profile),
        _read_output_tool(policy),
    )


def _command_tools(profile: ModelProfile, policy: TruncationPolicy, shell: str) -> tuple[Tool, ...]:
    if profile.shell == "unified_exec":
        return _exec_tools(policy, shell)

    @cache
    def load() -> ShellTools:
        from .shell import ShellTools

        return ShellTools(shell, policy)

    match profile.shell:
        case "shell_command":
            return (BuiltinTool(SHELL_COMMAND, lambda: load().shell_command),)
        case "shell":
            return (BuiltinTool(SHELL, lambda: load().shell),)
        case "local":
            return (BuiltinTool(LOCAL_SHELL, lambda: load().local_shell),)


def _exec_tools(policy: TruncationPolicy, shell: str) -> tuple[Tool, ...]:
    @cache
    def load() -> ExecTools:
        from .exec_command import ExecTools

        return ExecTools(shell, policy)

    return (
        BuiltinTool(
            EXEC_COMMAND,
            lambda: load().exec_command,
            parallel=True,
            aborted="Wall time: {seconds:.1f} seconds\naborted by user",
        ),
        BuiltinTool(WRITE_STDIN, lambda: load().write_stdin, parallel=True),
    )


def _user_tools() -> tuple[Tool, ...]:
    def load_plan() -> _ToolCode:
        from .user_tools import update_plan

        return update_plan

    def load_questions() -> _ToolCode:
        from .user_tools import request_user_input

        return request_user_input

    return (
        BuiltinTool(UPDATE_PLAN, load_plan, replay_safe=True),
        BuiltinTool(REQUEST_USER_INPUT, load_questions, replay_safe=True),
    )


def _patch_tools(profile: ModelProfile) -> tuple[Tool, ...]:
    freeform = profile.apply_patch == "freeform"

    def load() -> _ToolCode:
        from .apply_patch import apply_freeform_patch, apply_function_patch

        return apply_freeform_patch if freeform else apply_function_patch

    if profile.apply_patch == "none":
        return ()
    return (BuiltinTool(APPLY_PATCH_FREEFORM if freeform else APPLY_PATCH_FUNCTION, load),)


def _image_tools(profile: ModelProfile) -> tuple[Tool, ...]:
    if not profile.images:
        return ()
    original = profile.original_images

    def load() -> _ToolCode:
        from .view_image import ImageViewer

        return ImageViewer(original=original).view_image

    spec = VIEW_ORIGINAL_IMAGE if original else VIEW_IMAGE
    return (BuiltinTool(spec, load, parallel=True, replay_safe=True),)


def _read_output_tool(policy: TruncationPolicy) -> Tool:
    def load() -> _ToolCode:
        from .stored_output import OutputReader

        return OutputReader(policy).read_output

    return BuiltinTool(READ_OUTPUT, load, parallel=True, replay_safe=True)
