"""Efforts: how hard a model is asked to think, from one wish for every harness.

Owns the way from a level that a user names to an effort that a model knows. Invariant:
a level is never lowered while a higher one would do; None leaves it to the model.
"""

from __future__ import annotations

import re

from ..core.choices import check_choice
from ..models.profile import ModelProfile
from .target import OPENAI_FAMILY

__all__ = ["check_effort", "declared_efforts", "turn_effort", "wire_effort"]

_LADDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
_PRO = ("medium", "high", "xhigh")
_IMPLICIT = {"gpt-5.4-pro": _PRO, "gpt-5.5-pro": _PRO}
"""What models take that are listed under the name of a smaller sibling."""
_VERSION = r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])"


def check_effort(profile: ModelProfile, wanted: str | None) -> None:
    """Raise `InvalidOption` for a word that neither is a level nor one that the model lists."""
    if wanted:
        known = (*_LADDER, "off", "adaptive", *declared_efforts(profile))
        check_choice("effort", wanted, dict.fromkeys(known))


def declared_efforts(profile: ModelProfile) -> tuple[str, ...]:
    """The efforts that a model is known to take; none for one of which nobody said."""
    for name, efforts in _IMPLICIT.items():
        if profile.slug.startswith(name) and not profile.entry.startswith(name):
            return efforts
    return profile.efforts


def turn_effort(profile: ModelProfile, wanted: str | None) -> str | None:
    """The effort that stands for a wanted level, as a harness with defaults of its own is told.

    Levels are those of the wire, and `off` and `adaptive`. A word that is no level is
    passed on: a provider may know it.
    """
    declared = declared_efforts(profile)
    match wanted:
        case None | "" | "adaptive":
            return None
        case "off":
            return "none" if "none" in declared else None
        case "none" | "ultra":
            return wanted
    if declared:
        return _nearest(wanted, declared)
    if wanted == "minimal" and _version(profile.slug) >= (5, 3):
        return "low"
    # Others have a level of that name without listing it.
    return None if wanted == "max" and profile.provider in OPENAI_FAMILY else wanted


def wire_effort(profile: ModelProfile, wanted: str | None) -> str | None:
    """The effort in a request of ours: what was wanted, else what the model brings."""
    leaves_it = wanted in (None, "", "adaptive")
    effort = (profile.default_effort or None) if leaves_it else turn_effort(profile, wanted)
    return "max" if effort == "ultra" else effort


def _nearest(wanted: str, declared: tuple[str, ...]) -> str:
    """The level itself, else the next higher one, else the highest there is."""
    if wanted in declared or wanted not in _LADDER:
        return wanted
    known = sorted((each for each in declared if each in _LADDER), key=_LADDER.index)
    higher = [each for each in known if _LADDER.index(each) > _LADDER.index(wanted)]
    return next(iter(higher), known[-1] if known else wanted)


def _version(slug: str) -> tuple[int, int]:
    found = re.match(_VERSION, slug)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)
