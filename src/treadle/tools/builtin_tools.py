"""The built-in tools, chosen for a model.

Owns which tools a model gets and in which order. Invariant: the same profile gives the same
specifications, byte for byte. The code of a tool loads with its first call, because many
turns call none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ..core.specs import FunctionTool, ToolSpec
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
    profile: ModelProfile,
    *,
    shell: str = "bash",
    truncation: TruncationPolicy | None = None,
    small: bool = False,
) -> tuple[Tool, ...]:
    """Return the tools for one thread with the model of `profile`.

    `shell` runs command lines. `truncation` bounds results in place of the profile's own
    limit. `small` ones are few and told in few words. Make them once per thread: sessions live
    in them. Whatever still runs ends with the thread's executor.
    """
    policy = truncation or profile.truncation
    if small:
        return _small_tools(profile, policy, shell)
    return (
        *_command_tools(profile, policy, shell),
        BuiltinTool(UPDATE_PLAN, lambda: _load_user_tools().update_plan, replay_safe=True),
        BuiltinTool(
            REQUEST_USER_INPUT, lambda: _load_user_tools().request_user_input, replay_safe=True
        ),
        *_patch_tools(profile),
        *_image_tools(profile),
        _reader_tool(READ_OUTPUT, policy),
    )


def _small_tools(profile: ModelProfile, policy: TruncationPolicy, shell: str) -> tuple[Tool, ...]:
    from . import small_specs  # most models have a wide window

    load_exec = cache(partial(_load_exec_tools, shell, policy))
    return (
        _exec_tool(small_specs.SMALL_EXEC_COMMAND, load_exec),
        _stdin_tool(small_specs.SMALL_WRITE_STDIN, load_exec),
        *_patch_tools(profile, small_specs.SMALL_APPLY_PATCH),
        *_image_tools(profile),
        _reader_tool(small_specs.SMALL_READ_OUTPUT, policy),
    )


def _exec_tool(spec: ToolSpec, load: Callable[[], ExecTools]) -> BuiltinTool:
    return BuiltinTool(
        spec,
        lambda: load().exec_command,
        parallel=True,
        aborted="Wall time: {seconds:.1f} seconds\naborted by user",
    )


def _stdin_tool(spec: ToolSpec, load: Callable[[], ExecTools]) -> BuiltinTool:
    return BuiltinTool(spec, lambda: load().write_stdin, parallel=True)


def _reader_tool(spec: ToolSpec, policy: TruncationPolicy) -> BuiltinTool:
    return BuiltinTool(spec, lambda: _load_reader(policy), parallel=True, replay_safe=True)


def _command_tools(profile: ModelProfile, policy: TruncationPolicy, shell: str) -> tuple[Tool, ...]:
    load_exec = cache(partial(_load_exec_tools, shell, policy))
    match profile.shell:
        case "unified_exec":
            return (
                _exec_tool(EXEC_COMMAND, load_exec),
                _stdin_tool(WRITE_STDIN, load_exec),
            )
        case "shell_command":
            return (
                BuiltinTool(SHELL_COMMAND, lambda: _load_shell_tools(shell, policy).shell_command),
            )
        case "shell":
            return (BuiltinTool(SHELL, lambda: _load_shell_tools(shell, policy).shell),)
        case "local":
            return (BuiltinTool(LOCAL_SHELL, lambda: _load_shell_tools(shell, policy).local_shell),)


def _patch_tools(
    profile: ModelProfile, function: FunctionTool = APPLY_PATCH_FUNCTION
) -> tuple[Tool, ...]:
    match profile.apply_patch:
        case "none":
            return ()
        case "freeform":
            return (
                BuiltinTool(APPLY_PATCH_FREEFORM, lambda: _load_patch_tools().apply_freeform_patch),
            )
        case "function":
            return (BuiltinTool(function, lambda: _load_patch_tools().apply_function_patch),)


def _image_tools(profile: ModelProfile) -> tuple[Tool, ...]:
    if not profile.images:
        return ()
    original = profile.original_images
    spec = VIEW_ORIGINAL_IMAGE if original else VIEW_IMAGE
    return (BuiltinTool(spec, lambda: _load_viewer(original), parallel=True, replay_safe=True),)


def _load_exec_tools(shell: str, policy: TruncationPolicy) -> ExecTools:
    from .exec_command import ExecTools

    return ExecTools(shell, policy)


def _load_shell_tools(shell: str, policy: TruncationPolicy) -> ShellTools:
    from .shell import ShellTools

    return ShellTools(shell, policy)


def _load_user_tools() -> ModuleType:
    from . import user_tools

    return user_tools


def _load_patch_tools() -> ModuleType:
    from . import apply_patch

    return apply_patch


def _load_viewer(original: bool) -> _ToolCode:
    from .view_image import ImageViewer

    return ImageViewer(original=original).view_image


def _load_reader(policy: TruncationPolicy) -> _ToolCode:
    from .stored_output import OutputReader

    return OutputReader(policy).read_output
