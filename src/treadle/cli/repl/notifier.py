"""The notifier: tells a user who looks elsewhere that a turn has ended, or asks.

Invariant: a short turn is silent, and the terminal is sent no text of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from ...config.settings import Settings

__all__ = ["Notifier"]

_BELL = "\a"
_ABLE = ("iTerm.app", "WezTerm", "ghostty", "kitty")
"""Terminals that show a notification of the desktop, by what they call themselves."""


class Notifier(Struct, frozen=True):
    """Rings the bell, or sends a notification."""

    settings: Settings
    environ: Mapping[str, str]
    send: Callable[[str], None]

    def notify(self, text: str, seconds: float) -> None:
        """Tell the user something about a turn that has run for `seconds`."""
        if self.settings.notify == "off" or seconds < self.settings.notify_after:
            return
        wanted = self.settings.notify == "desktop"
        if wanted or (self.settings.notify == "auto" and self._is_able):
            self.send(f"\x1b]9;Treadle: {text}\a")
        else:
            self.send(_BELL)

    @property
    def _is_able(self) -> bool:
        # A multiplexer would swallow the sequence; it passes a bell on.
        name = self.environ.get("TERM_PROGRAM", "")
        return name in _ABLE and "TMUX" not in self.environ
