"""How an app-server process is started.

Owns the command line and the environment as one value. Invariant: secrets are in the
environment alone; whatever is shown of a launch, or of what the process says, has none.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from ...engines.words import brief

__all__ = ["ServerCommand"]


class ServerCommand(Struct, frozen=True, kw_only=True):
    """A process to be: `binary` with `arguments`, in `directory`."""

    binary: Path
    arguments: tuple[str, ...] = ("app-server",)
    environment: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None
    secrets: tuple[str, ...] = ()
    """Values of the environment that nobody may see."""

    def scrub(self, text: str) -> str:
        """`text` in one short line, without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "…") if secret else text
        return brief(text)

    def __repr__(self) -> str:
        return f"Launch({str(self.binary)!r}, {len(self.environment)} variables)"
