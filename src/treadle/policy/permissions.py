"""Rights: what a thread's settings tell the model, and what is enforced.

Owns the one step from the one to the other. Invariant: what the model is told about
sandbox and approvals is what holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ..prompt.prompt_context import ApprovalPolicy, PromptContext, SandboxMode

if TYPE_CHECKING:
    from ..sandbox.approvals import ApprovalPolicy as Enforced
    from ..sandbox.policy import SandboxPolicy

__all__ = ["approval_policy", "sandbox_policy", "settings_of"]


def settings_of(
    settings: PromptContext | None,
    sandbox: SandboxMode | None,
    approval: ApprovalPolicy | None,
    network: bool | None,
    writable_roots: Sequence[str] | None,
) -> PromptContext:
    """The settings that fragments tell, with what was asked for put over them."""
    asked = {
        "sandbox_mode": sandbox,
        "approval_policy": approval,
        "network_access": network,
        "writable_roots": None if writable_roots is None else tuple(writable_roots),
    }
    given = {name: value for name, value in asked.items() if value is not None}
    usual = PromptContext(cwd="", sandbox_mode="workspace-write")
    return msgspec.structs.replace(settings or usual, **given)


def sandbox_policy(settings: PromptContext) -> SandboxPolicy:
    """The policy that is enforced: what the settings tell the model."""
    from ..sandbox.policy import SandboxPolicy

    mode = settings.sandbox_mode
    return SandboxPolicy(
        # Inside someone else's sandbox ours would only be in the way.
        mode="danger-full-access" if mode == "external-sandbox" else mode,
        writable_roots=settings.writable_roots,
        network=settings.network_access,
    )


def approval_policy(settings: PromptContext) -> Enforced:
    """The approval policy that is enforced; ``on-failure`` is an old name of ``on-request``."""
    told_policy = settings.approval_policy
    return "on-request" if told_policy == "on-failure" else told_policy
