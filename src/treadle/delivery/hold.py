"""The hold on a stream: what a model says is shown when it can no longer be silent.

Owns the text between a model's deltas and a channel that shows them at once. Invariant:
of a silent reply nothing is let through; all else is, unchanged, in order, and once.
"""

from __future__ import annotations

from msgspec import Struct

from .silent import NO_REPLY, could_become_silent, is_artifact, is_silent_text

__all__ = ["Hold"]

_SHARE = 64


class Hold(Struct):
    """Holds the beginning of one reply back for as long as it may turn out to be silent."""

    token: str = NO_REPLY
    _held: str = ""
    _open: bool = False
    _look_at: int = 0
    """How long the text must be to be looked at again: a long one not for each letter."""

    @property
    def held(self) -> str:
        """What waits for a decision."""
        return self._held

    def feed(self, delta: str) -> str:
        """What may be shown now that `delta` came."""
        if self._open:
            return delta
        self._held += delta
        if len(self._held) < self._look_at:
            return ""
        if could_become_silent(self._held, self.token):
            self._look_at = len(self._held) * (_SHARE + 1) // _SHARE
            return ""
        self._open = True
        return self._taken()

    def end(self) -> str:
        """What is left to show when the reply is over; the next one begins closed again."""
        text, self._open = self._taken(), False
        return "" if is_silent_text(text, self.token) or is_artifact(text) else text

    def _taken(self) -> str:
        held, self._held, self._look_at = self._held, "", 0
        return held
