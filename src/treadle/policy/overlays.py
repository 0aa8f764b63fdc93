"""Prompt overlays: what is said to the models of some providers and not to others.

Owns how contributions are joined and where they stand. Treadle brings none of its own.
Invariants: a stable prefix stands first in the first developer text, before anything
that changes; and an overlay that fails adds nothing, rather than something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

import msgspec
from msgspec import Struct

from ..core.errors import FragmentError
from ..core.redact import redact
from ..core.text import approx_tokens
from ..prompt.contributions import Audience, Contribution, Overlay, Section
from ..prompt.prompt_context import PromptContext

__all__ = ["MOST_TOKENS", "Overlaid", "Overlays", "add_contribution"]

MOST_TOKENS = 4_000
"""What one contribution may say, so that others, and the user, are heard."""

_SECTIONS: tuple[Section, ...] = get_args(Section)
_IN_PLACE = {
    "interaction_style": "In place of what your instructions say about talking with the user:",
    "tool_call_style": "In place of what your instructions say about calling tools:",
    "execution_bias": "In place of what your instructions say about when to act and when to ask:",
}
_BLANK_LINE = "\n\n"


class Overlaid(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all overlays add for one audience."""

    contribution: Contribution | None = None
    """None where nothing is added."""
    sources: tuple[str, ...] = ()
    """The overlays it is from."""
    problems: tuple[str, ...] = ()
    """Overlays that were left out, and why."""


class Overlays:
    """The overlays of one runtime, in the order in which they speak."""

    def __init__(self, overlays: Iterable[Overlay] = ()) -> None:
        self._overlays: dict[str, Overlay] = {}
        for overlay in overlays:
            self.register(overlay)

    def register(self, overlay: Overlay) -> None:
        """Add one. Raises `FragmentError` for an id that is taken."""
        if overlay.id in self._overlays:
            raise FragmentError(f"overlay id {overlay.id!r} is taken; choose another")
        self._overlays[overlay.id] = overlay

    def resolve(self, audience: Audience, settings: PromptContext) -> Overlaid:
        """What is added for `audience`; where two override a section, the later one does."""
        said: dict[str, Contribution] = {}
        problems: list[str] = []
        for name, overlay in self._overlays.items():
            try:
                added = _check(overlay.contribute(audience, settings))
            except Exception as error:  # noqa: BLE001 - others wrote it, and a turn goes on
                problems.append(redact(f"the overlay {name!r} adds nothing: {error}"))
                continue
            if added is not None:
                said[name] = added
        return Overlaid(
            contribution=_join(list(said.values())) if said else None,
            sources=tuple(said),
            problems=tuple(problems),
        )


def add_contribution(settings: PromptContext, contribution: Contribution | None) -> PromptContext:
    """`settings` with a contribution: prefix and sections in front, the suffix for itself."""
    if contribution is None:
        return settings
    leading = (contribution.stable_prefix, *_sections(contribution))
    texts = [*leading, settings.developer_instructions or ""]
    return msgspec.structs.replace(
        settings,
        developer_instructions=_BLANK_LINE.join(filter(None, texts)) or None,
        overlay_suffix=contribution.dynamic_suffix or None,
    )


def _sections(contribution: Contribution) -> Iterator[str]:
    overrides = contribution.section_overrides
    for section in _SECTIONS:
        if text := overrides.get(section):
            yield f"{_IN_PLACE[section]}\n{text}"


def _check(added: Contribution | None) -> Contribution | None:
    """`added` without blanks; None where nothing is left. Raises for what cannot be told."""
    if added is None:
        return None
    overrides = {name: text.strip() for name, text in added.section_overrides.items()}
    if strange := sorted(set(overrides) - set(_SECTIONS)):
        raise FragmentError(f"there is no section {strange[0]!r}; use {', '.join(_SECTIONS)}")
    kept = Contribution(
        stable_prefix=added.stable_prefix.strip(),
        dynamic_suffix=added.dynamic_suffix.strip(),
        section_overrides={name: text for name, text in overrides.items() if text},
    )
    tokens = approx_tokens(len(msgspec.json.encode(kept)))
    if tokens > MOST_TOKENS:
        raise FragmentError(f"it has {tokens} tokens; use at most {MOST_TOKENS}")
    return None if kept == Contribution() else kept


def _join(contributions: list[Contribution]) -> Contribution:
    overrides: dict[Section, str] = {}
    for each in contributions:
        overrides |= each.section_overrides
    return Contribution(
        stable_prefix=_BLANK_LINE.join(filter(None, (c.stable_prefix for c in contributions))),
        dynamic_suffix=_BLANK_LINE.join(filter(None, (c.dynamic_suffix for c in contributions))),
        section_overrides={name: overrides[name] for name in _SECTIONS if name in overrides},
    )
