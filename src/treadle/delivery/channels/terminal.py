"""The terminal as a channel.

Invariant: a model's text cannot control the terminal, and a reply is written in one piece.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TextIO

from ...core.provenance import plain_text
from ..channel import Delivery, Receipt, Reply

__all__ = ["TerminalChannel"]


@dataclass(slots=True)
class TerminalChannel:
    """Writes replies to a stream, standard output by default."""

    stream: TextIO | None = None
    _lock: asyncio.Lock = field(init=False, default_factory=asyncio.Lock, repr=False)

    @property
    def kind(self) -> str:
        """Return ``terminal``."""
        return "terminal"

    @property
    def deduplicates(self) -> bool:
        """Return False: a text that comes twice is written twice."""
        return False

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        """Write one reply; refuse it without a terminal."""
        try:
            async with self._lock:
                await asyncio.to_thread(self._write, _lines(delivery.reply))
        except (OSError, ValueError):
            return Receipt("refused", "the terminal is gone; read the reply in its thread")
        return Receipt("delivered")

    def _write(self, text: str) -> None:
        stream = sys.stdout if self.stream is None else self.stream
        stream.write(text)
        stream.flush()


def _lines(reply: Reply) -> str:
    text = plain_text(reply.text).strip("\n")
    lines = [text] if text else []
    return "".join(f"{line}\n" for line in (*lines, *map(plain_text, reply.media)))
