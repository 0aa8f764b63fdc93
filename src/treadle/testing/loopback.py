"""The loopback server, for tests that need a real HTTP endpoint.

Owns nothing of its own: `treadle.core.loopback` does the work, because importing prompts
needs it too.
"""

from __future__ import annotations

from ..core.loopback import (
    LoopbackRequest,
    LoopbackResponse,
    LoopbackScript,
    LoopbackServer,
    stream_response,
    text_response,
)

__all__ = [
    "LoopbackRequest",
    "LoopbackResponse",
    "LoopbackScript",
    "LoopbackServer",
    "stream_response",
    "text_response",
]
