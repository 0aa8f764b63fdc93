"""Rights on Codex: our settings in Codex's words.

Owns the one step from what a thread is told to what Codex enforces. Invariant: Codex is
never given more than the settings say.
"""

from __future__ import annotations

from typing import Any

from ...prompt.observation import PromptContext
from .protocol.base import CodexApprovalPolicy, CodexSandboxMode

__all__ = ["approval_of", "collaboration_of", "sandbox_config", "sandbox_of", "sandbox_policy_of"]

_TYPES: dict[CodexSandboxMode, str] = {
    "read-only": "readOnly",
    "workspace-write": "workspaceWrite",
    "danger-full-access": "dangerFullAccess",
}


def approval_of(settings: PromptContext) -> CodexApprovalPolicy:
    """When Codex asks; ``on-failure`` is an old name of ``on-request``."""
    told = settings.approval_policy
    return "on-request" if told == "on-failure" else told


def sandbox_of(settings: PromptContext) -> CodexSandboxMode:
    """What Codex's commands run in; inside someone else's sandbox its own is in the way."""
    mode = settings.sandbox_mode
    return "danger-full-access" if mode == "external-sandbox" else mode


def collaboration_of(settings: PromptContext, model: str, effort: str | None) -> dict[str, Any]:
    """How Codex and the user share the work; a mode that Codex does not know is the usual one."""
    mode = settings.collaboration_mode
    planning = mode is not None and mode.name == "plan"
    return {
        "mode": "plan" if planning else "default",
        "settings": {
            "model": model,
            "reasoning_effort": effort,
            "developer_instructions": mode.instructions or None if mode else None,
        },
    }


def sandbox_config(settings: PromptContext) -> dict[str, Any]:
    """What a thread's `config` says of its sandbox, so that no file of Codex's says more."""
    if sandbox_of(settings) != "workspace-write":
        return {}
    return {
        "sandbox_workspace_write.writable_roots": list(settings.writable_roots),
        "sandbox_workspace_write.network_access": settings.network_access,
    }


def sandbox_policy_of(settings: PromptContext) -> dict[str, Any]:
    """The sandbox of a turn whose settings are not those its thread was started with."""
    mode = sandbox_of(settings)
    policy: dict[str, Any] = {"type": _TYPES[mode]}
    if mode == "workspace-write":
        policy["writableRoots"] = list(settings.writable_roots)
    if mode != "danger-full-access":
        policy["networkAccess"] = settings.network_access
    return policy
