"""The token by which a model says that there is nothing to say."""

from __future__ import annotations

__all__ = ["NO_REPLY"]

NO_REPLY = "NO_REPLY"
"""What a model answers when nobody should hear of its turn."""
