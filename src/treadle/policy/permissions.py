"""Rights: what a thread's settings tell the model, and what is enforced.

Owns the one step from the one to the other. Invariant: what the model is told about
sandbox and approvals is what holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from ..core.addresses import HOST_PATTERN
from ..core.choices import check_choice
from ..core.errors import ConfigError
from ..prompt.prompt_context import ApprovalPolicy, PromptContext, SandboxMode
from ..sandbox.policy import SandboxPolicy

if TYPE_CHECKING:
    from ..sandbox.approvals import ApprovalPolicy as Enforced

__all__ = ["approval_policy", "sandbox_policy", "settings_of"]


def settings_of(
    settings: PromptContext | None,
    sandbox: SandboxMode | None,
    approval: ApprovalPolicy | None,
    network: bool | Sequence[str] | None,
    writable_roots: Sequence[str] | None,
) -> PromptContext:
    """The settings that fragments tell, with what was asked for put over them."""
    asked = {
        "sandbox_mode": sandbox,
        "approval_policy": approval,
        **_network_settings(network),
        "writable_roots": None if writable_roots is None else tuple(writable_roots),
    }
    given = {name: value for name, value in asked.items() if value is not None}
    usual = PromptContext(cwd="", sandbox_mode="workspace-write")
    made = msgspec.structs.replace(settings or usual, **given)
    check_choice("sandbox", made.sandbox_mode, get_args(SandboxMode))
    check_choice("approval", made.approval_policy, get_args(ApprovalPolicy))
    return made


def _network_settings(network: bool | Sequence[str] | None) -> dict[str, Any]:
    """The settings that a choice of the network makes: all of it, some hosts, or nothing."""
    if network is None or isinstance(network, bool):
        return {"network_access": network, "network_hosts": None if network is None else ()}
    for host in (hosts := (network,) if isinstance(network, str) else tuple(network)):
        if not re.match(HOST_PATTERN, host):
            raise ConfigError(
                f"{host!r} is no host that commands could reach; write a name with a dot in it, "
                "such as 'docs.example.org', or '*.example.com' for all names below one"
            )
    return {"network_access": False, "network_hosts": hosts}


def sandbox_policy(settings: PromptContext) -> SandboxPolicy:
    """The policy that is enforced: what the settings tell the model."""
    mode = settings.sandbox_mode
    return SandboxPolicy(
        # Inside someone else's sandbox ours would only be in the way.
        mode="danger-full-access" if mode == "external-sandbox" else mode,
        writable_roots=settings.writable_roots,
        network=settings.network_access,
        hosts=settings.network_hosts,
    )


def approval_policy(settings: PromptContext) -> Enforced:
    """The approval policy that is enforced; ``on-failure`` is an old name of ``on-request``."""
    told_policy = settings.approval_policy
    return "on-request" if told_policy == "on-failure" else told_policy
