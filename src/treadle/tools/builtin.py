"""The built-in tools, chosen for a model.

Owns which tools a model gets and in which order. Invariant: the same profile gives
the same specifications, byte for byte, so a tool list never breaks a prefix by chance.
"""

from __future__ import annotations

from ..core.text import TruncationPolicy
from ..models.profile import ModelProfile
from .contract import Tool
from .exec import ExecCommand, WriteStdin
from .image import ViewImage
from .patching import PatchTool
from .plan import UpdatePlan
from .questions import RequestUserInput
from .readback import ReadOutput
from .sessions import Sessions

__all__ = ["builtin_tools"]


def builtin_tools(
    profile: ModelProfile, *, shell: str = "bash", truncation: TruncationPolicy | None = None
) -> tuple[Tool, ...]:
    """The tools for one thread with the model of `profile`.

    `shell` is the one that runs command lines. `truncation` bounds results in the place
    of the profile's own. Make them once per thread: sessions live in them. Whatever
    still runs ends with the thread's executor.
    """
    policy = truncation or profile.truncation
    return (
        *_commands(profile, policy, shell),
        UpdatePlan(),
        RequestUserInput(),
        *(() if profile.apply_patch == "none" else (PatchTool(profile.apply_patch),)),
        *((ViewImage(original=profile.original_images),) if profile.images else ()),
        ReadOutput(policy),
    )


def _commands(profile: ModelProfile, policy: TruncationPolicy, shell: str) -> tuple[Tool, ...]:
    match profile.shell:
        case "unified_exec":
            sessions = Sessions()
            return (
                ExecCommand(sessions, shell=shell, policy=policy),
                WriteStdin(sessions, policy=policy),
            )
        case "shell_command":
            from .shell import shell_command

            return (shell_command(policy, shell=shell),)
        case "shell":
            from .shell import shell as shell_tool

            return (shell_tool(policy),)
        case "local":
            from .shell import local_shell

            return (local_shell(policy),)
