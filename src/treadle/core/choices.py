"""Values that must be one of a few.

Owns the words of the refusal. Invariant: whoever is refused reads what is accepted, and what
they probably meant.
"""

from __future__ import annotations

from collections.abc import Iterable

from .errors import InvalidOption

__all__ = ["check_choice", "near_hint", "nearest"]


def check_choice(what: str, value: object, accepted: Iterable[str]) -> None:
    """Raise `InvalidOption` where `value` is not one of the accepted ones."""
    known = tuple(accepted)
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise InvalidOption(
            f"{value!r} is no {what}; {near_hint(str(value), known)}accepted are {listed}"
        )


def near_hint(value: str, known: Iterable[str]) -> str:
    """Return a question about what was probably meant; empty where nothing is near."""
    close = nearest(value.lower(), known)
    return f"did you mean {close!r}? " if close else ""


def nearest(value: str, known: Iterable[str], *, alike: float = 0.6) -> str:
    """Return which of the known values was probably meant; empty where none is near."""
    import difflib  # only for a wrong value: a cold start does not wait for it

    return next(iter(difflib.get_close_matches(value, list(known), n=1, cutoff=alike)), "")
