"""Where a provider is asked for an answer, and in which voice it gives it."""

from __future__ import annotations

from typing import Final

from ..script import Api
from .chat import ChatVoice
from .messages import MessagesVoice
from .responses import ResponsesVoice
from .voice import Voice

__all__ = ["ANSWERS", "VOICES"]

ANSWERS: Final[dict[str, Api]] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
VOICES: Final[dict[Api, Voice]] = {
    "responses": ResponsesVoice(),
    "chat": ChatVoice(),
    "messages": MessagesVoice(),
}
