"""Base instructions: what every request tells the model about its work.

Owns our own texts, one Markdown file per section, and which sections make up
the instructions of each family. Invariant: where the user imported a Codex's
own text for a model, that text is used, byte for byte.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Protocol

from ...core.errors import ConfigError
from ..imported import ImportedPrompts

__all__ = ["FAMILIES", "Instructed", "base_instructions", "compaction_prompt", "summary_prefix"]

_COMMON = ("commands", "permissions", "verifying", "answering")

FAMILIES: dict[str, tuple[str, ...]] = {
    "general": ("role", "working", "planning", "editing", "patches", *_COMMON),
    "reasoning": ("role", "judgement", "planning", "editing", "patches", *_COMMON),
    "codex": ("role", "judgement", "planning", "editing", *_COMMON),
}
"""Sections of each family: models that need a procedure, those that need judgement, and
those that also know the patch format by training."""


class Instructed(Protocol):
    """The part of a model's profile that decides its instructions."""

    @property
    def slug(self) -> str:
        """The model's name as it was asked for."""
        ...

    @property
    def entry(self) -> str:
        """The catalog entry that applies to it."""
        ...

    @property
    def instructions(self) -> str:
        """The family of instructions."""
        ...


def base_instructions(profile: Instructed, home: Path | None = None) -> str:
    """The instructions for a model: imported ones if `home` holds any, else our own."""
    if home is not None:
        imported = ImportedPrompts(home)
        for name in (profile.slug, profile.entry):
            if (text := imported.instructions(name)) is not None:
                return text
    return _family(profile.instructions)


def compaction_prompt(home: Path | None = None) -> str:
    """What asks a model for a summary of the conversation."""
    imported = ImportedPrompts(home).text("compact.md") if home is not None else None
    return _section("compact") if imported is None else imported


def summary_prefix(home: Path | None = None) -> str:
    """What stands before such a summary, a newline between them."""
    imported = ImportedPrompts(home).text("summary_prefix.md") if home is not None else None
    return _section("summary_prefix") if imported is None else imported


@cache
def _family(name: str) -> str:
    if name not in FAMILIES:
        import difflib

        close = difflib.get_close_matches(name, FAMILIES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        accepted = ", ".join(map(repr, FAMILIES))
        raise ConfigError(f"no instructions {name!r}{hint} (accepted: {accepted})")
    return "\n\n".join(map(_section, FAMILIES[name]))


@cache
def _section(name: str) -> str:
    file = Path(__file__).with_name(f"{name}.md")
    return file.read_text(encoding="utf-8").rstrip("\n")
