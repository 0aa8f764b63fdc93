"""What a preview leaves out: it would act, or only the turn itself can know it.

Owns naming it. Invariant: where nothing is named, the preview is the request, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..engines.session import EngineSession
from ..hooks import Hooks
from ..hooks.payloads import BeforePromptBuild

__all__ = ["unforeseen"]


def unforeseen(hooks: Hooks, engine: EngineSession) -> Iterator[str]:
    """Return what the first request of a turn that starts now may have beyond its preview."""
    if hooks.has(BeforePromptBuild):
        yield "what hooks say to the input"
    if engine.assembles:
        yield f"what engine {engine.name!r} adds or compacts"
    elif engine.log.setup.profile.is_filled_by(engine.log.requests.occupied):
        yield "an automatic compaction, for the view is full"
