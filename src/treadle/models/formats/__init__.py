"""The wire formats that Treadle can write."""

from __future__ import annotations

from ...core.errors import ConfigError
from ..contract import WireFormat

__all__ = ["format_named"]


def format_named(api: str) -> WireFormat:
    """Return the format of an API, by the name that heads carry."""
    match api:  # a first request loads one format only
        case "responses":
            from .responses import ResponsesFormat

            return ResponsesFormat()
        case "chat":
            from .chat import ChatFormat

            return ChatFormat()
        case "messages":
            from .messages import MessagesFormat

            return MessagesFormat()
    raise ConfigError(f"no wire format {api!r}; use 'responses', 'chat' or 'messages'")
