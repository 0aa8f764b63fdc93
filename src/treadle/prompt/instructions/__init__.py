"""Base instructions, and the texts around a compaction.

Owns our own texts, one Markdown file per section, which sections make up the instructions
of each family, and the message that shows a summary to the model. Invariants: a text that the
user chose is used, byte for byte, then one imported for the model; the fixed first sentence
distinguishes a summary from a user's message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from ...core.choices import nearest
from ...core.errors import ConfigError
from ...core.files import read_bounded
from ...core.items import InputText, Message, text_of
from ..imported_prompts import ImportedPrompts
from ..markers import Vocabulary
from ..registry import builtin_vocabulary

__all__ = [
    "FAMILIES",
    "Instructed",
    "base_instructions",
    "compaction_prompt",
    "is_summary",
    "retained_message",
    "shorter_prompt",
    "summary_message",
    "summary_prefix",
    "summary_with_details",
]

MOST_BYTES = 256 << 10
"""The largest file with instructions that is read."""

_NO_SUMMARY = "(no summary available)"

_WISHES = "The user also said, word for word:"
_FINDINGS = "Also found, word for word, without a model:"
_NAMES = "Also named:"
_SHORTER = (
    "An answer before this one could not be used: it was cut off, or said the same again and "
    "again. Write half as much as you would, in short lines, and say everything once."
)

_COMMON = ("commands", "permissions", "verifying", "answering")

FAMILIES: dict[str, tuple[str, ...]] = {
    "general": ("role", "working", "planning", "editing", "patches", *_COMMON),
    "reasoning": ("role", "judgement", "planning", "editing", "patches", *_COMMON),
    "codex": ("role", "judgement", "planning", "editing", *_COMMON),
    "small": ("small",),
}
"""Sections of each family: models that need a procedure, those that need judgement, those that
also know the patch format by training, and those whose window is small."""


class Instructed(Protocol):
    """The part of a model's profile that decides its instructions."""

    @property
    def slug(self) -> str:
        """The model's name in the request."""
        ...

    @property
    def entry(self) -> str:
        """The catalog entry that applies to it."""
        ...

    @property
    def family(self) -> str:
        """The family of instructions."""
        ...


def base_instructions(profile: Instructed, home: Path | None = None, chosen: str = "auto") -> str:
    """Return the instructions for a model: imported ones if `home` holds any, else our own.

    `chosen` is ``auto``, or overrides both: a family, or the path of a file with a text of the
    user's. Raises `ConfigError`.
    """
    if chosen != "auto":
        return _own_text(chosen) if _is_path(chosen) else _family(chosen)
    if home is not None:
        imported = ImportedPrompts(home)
        for name in dict.fromkeys((profile.slug, profile.entry)):
            if (text := imported.instructions(name)) is not None:
                return text
    return _family(profile.family)


def compaction_prompt(home: Path | None = None) -> str:
    """Return the text that asks a model for a summary of the conversation."""
    imported = ImportedPrompts(home).text("compact.md") if home is not None else None
    return _section("compact") if imported is None else imported


def summary_prefix(home: Path | None = None) -> str:
    """Return the text before such a summary, a newline between them."""
    imported = ImportedPrompts(home).text("summary_prefix.md") if home is not None else None
    return _section("summary_prefix") if imported is None else imported


def summary_message(
    summary: str, home: Path | None = None, vocabulary: Vocabulary | None = None
) -> Message:
    """Return a summary as the message that the next model reads; nothing in it is a marker.

    `home` is the directory of imported prompts; None means our own words. `vocabulary` holds
    the markers to guard; None means those of the built-in fragments.
    """
    words = builtin_vocabulary() if vocabulary is None else vocabulary
    text = f"{summary_prefix(home)}\n{words.quote(summary.strip()) or _NO_SUMMARY}"
    return Message(role="user", content=(InputText(text),))


def summary_with_details(
    summary: str, *, wishes: Sequence[str], findings: Sequence[str], names: Sequence[str]
) -> str:
    """Return a summary with what it lost below it: sentences as they stood, then bare names."""
    parts = [summary]
    if wishes:
        parts.append("\n".join((_WISHES, *(f"- {wish}" for wish in wishes))))
    if findings:
        parts.append("\n".join((_FINDINGS, *(f"- {line}" for line in findings))))
    if names:
        parts.append(f"{_NAMES} {'; '.join(names)}")
    return "\n\n".join(parts)


def shorter_prompt(prompt: Message) -> Message:
    """Return the request for a summary once more, after an answer that could not be used."""
    return Message(role="user", content=(InputText(f"{text_of(prompt.content)}\n\n{_SHORTER}"),))


def retained_message(text: str) -> Message:
    """Return a user's text, kept word for word beside a summary."""
    return Message(role="user", content=(InputText(text),))


def is_summary(text: str, home: Path | None = None) -> bool:
    """Return whether `text` begins as a summary does, with our own words or imported ones."""
    return text.startswith((f"{summary_prefix(home)}\n", f"{summary_prefix()}\n"))


def _is_path(chosen: str) -> bool:
    return "/" in chosen or chosen.endswith(".md")


def _own_text(place: str) -> str:
    try:
        text = read_bounded(Path(place).expanduser(), MOST_BYTES).decode().rstrip()
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the instructions in {place!r} cannot be read ({error}); name a Markdown file of at "
            f"most {MOST_BYTES >> 10} kB, or a family: {', '.join(map(repr, FAMILIES))}"
        ) from error
    if not text:
        raise ConfigError(f"the instructions in {place!r} are empty; write some, or say 'auto'")
    return text


@cache
def _family(name: str) -> str:
    if name not in FAMILIES:
        close = nearest(name, FAMILIES)
        hint = f"; did you mean {close!r}?" if close else ""
        accepted = ", ".join(map(repr, FAMILIES))
        raise ConfigError(f"no instructions {name!r}{hint} (accepted: {accepted})")
    return "\n\n".join(map(_section, FAMILIES[name]))


@cache
def _section(name: str) -> str:
    file = Path(__file__).with_name(f"{name}.md")
    return file.read_text(encoding="utf-8").rstrip("\n")
