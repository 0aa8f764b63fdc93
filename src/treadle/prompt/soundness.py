"""Soundness: what a fragment class must satisfy before it may speak.

Owns the rules about role, cap, markers and detection. Invariant: a class that
passes can be recognised, bounded and kept apart from every other.
"""

from __future__ import annotations

from ..core.errors import FragmentError
from ..core.patterns import regex
from .fragment import MAX_CAP_TOKENS, Fragment
from .markers import Markers

__all__ = ["check_apart", "check_fragment"]

_START = regex(r"<[A-Za-z][\w .:-]*>?|[^<\s].{7,}")
_END = regex(r"</[A-Za-z][\w .:-]*>?")


def check_fragment(cls: type[Fragment]) -> None:
    """Raise `FragmentError` unless `cls` is complete and recognisable."""
    for name in ("id", "role"):
        if not hasattr(cls, name):
            raise FragmentError(f"fragment class {cls.__name__!r} has no {name!r}; set it")
    if cls.role not in ("developer", "user"):
        raise FragmentError(f"fragment {cls.id!r} has role {cls.role!r}; use 'developer' or 'user'")
    if not 0 < cls.cap_tokens <= MAX_CAP_TOKENS:
        raise FragmentError(
            f"fragment {cls.id!r} has a cap of {cls.cap_tokens} tokens; "
            f"set one from 1 to {MAX_CAP_TOKENS}"
        )
    if cls.role == "user" and cls.markers is None and not _has_own_matcher(cls):
        raise FragmentError(
            f"user-role fragment {cls.id!r} cannot be told from what a person typed; "
            "give it markers or its own matches()"
        )
    if cls.markers is not None:
        _check_markers(cls, cls.markers)


def check_apart(cls: type[Fragment], other: type[Fragment]) -> None:
    """Raise `FragmentError` if the markers of one could be taken for the other's."""
    for mine, theirs in ((cls, other), (other, cls)):
        if mine.markers is None:
            continue
        inner = [Markers(f"<{tag}>", f"</{tag}>") for tag in theirs.inner]
        for taken in filter(None, (theirs.markers, *inner)):
            if mine.markers.clashes_with(taken):
                raise FragmentError(
                    f"markers of fragments {cls.id!r} and {other.id!r} cannot be told apart: "
                    f"{mine.markers.start!r} and {taken.start!r}; choose others for {cls.id!r}"
                )


def _check_markers(cls: type[Fragment], markers: Markers) -> None:
    if not _START.fullmatch(markers.start) or markers.start != markers.start.strip():
        raise FragmentError(
            f"start marker {markers.start!r} of fragment {cls.id!r} is neither a tag nor a phrase "
            "of eight characters or more; use one such as '<name>'"
        )
    if not markers.end and _has_own_matcher(cls):
        return
    if not _END.fullmatch(markers.end):
        raise FragmentError(
            f"end marker {markers.end!r} of fragment {cls.id!r} is not a closing tag; "
            "use one such as '</name>'"
        )


def _has_own_matcher(cls: type[Fragment]) -> bool:
    return cls.matches.__func__ is not Fragment.matches.__func__  # type: ignore[attr-defined]
