"""What a thread was told last of its rights, for whoever goes on with it unasked.

Owns the way from the newest permissions in a log back to settings. Invariant: what the log does
not say stays as it was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..core.typed import decode_json
from ..prompt.state_fragment import Known
from ..prompt.working_environment import PermissionsSnapshot, PermissionsState

if TYPE_CHECKING:
    from ..context.view import View
    from ..prompt.prompt_context import PromptContext

__all__ = ["recorded_rights"]


def recorded_rights(view: View, settings: PromptContext) -> PromptContext:
    """Return `settings` with the rights that the model of a thread was told last."""
    told = view.baselines.get(PermissionsState.id)
    if not isinstance(told, Known):
        return settings
    known = decode_json(told.snapshot, PermissionsSnapshot | None)
    if known is None:
        return settings
    sandbox = known.sandbox
    return msgspec.structs.replace(
        settings,
        approval_policy=known.approval_policy,
        sandbox_mode=sandbox.mode,
        network_access=sandbox.network_access == "enabled",
        network_hosts=sandbox.hosts,
        writable_roots=sandbox.writable_roots,
    )
