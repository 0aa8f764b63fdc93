"""Fragments: typed units of text that the runtime sends to the model.

Owns how a fragment becomes text, a content part, a message and an entry, and what a fragment
class must satisfy before it is registered. Invariant: whatever a fragment's fields hold, its
text carries exactly its own markers, stays within its cap, and reads as no other fragment.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from msgspec import Struct

from ..core.entries import Draft, Flags, FragmentMark
from ..core.errors import FragmentError
from ..core.items import InputText, Message, encode_item
from ..core.text import TruncationPolicy, truncate_text
from .markers import Markers, Vocabulary

__all__ = [
    "MAX_CAP_TOKENS",
    "Fragment",
    "FragmentRole",
    "Markers",
    "Rendering",
    "Vocabulary",
    "check_apart",
    "check_fragment",
    "has_own_matcher",
]

FragmentRole = Literal["developer", "user"]

MAX_CAP_TOKENS = 10_000
"""The highest cap that a fragment may have."""

_START = r"<[A-Za-z][\w .:-]*>?|[^<\s].{7,}"
_END = r"</[A-Za-z][\w .:-]*>?"


class Rendering(Struct, frozen=True):
    """A fragment's text, and whether its cap cut it."""

    text: str
    cut: bool = False


class Fragment(Struct, frozen=True):
    """Base of fragments: frozen values whose fields are their data.

    A subclass sets `id` and `role` and defines `body`. Text in fields is untrusted and
    is quoted before `body` reads it; text in the code of `body` is trusted. `body` is
    pure: no clock, no environment, no files. A `user` fragment must be recognisable,
    by `markers` or by its own `matches`.
    """

    id: ClassVar[str]
    role: ClassVar[FragmentRole]
    markers: ClassVar[Markers | None] = None
    cap_tokens: ClassVar[int] = 1_000
    separate: ClassVar[bool] = False
    """Whether it has a message of its own, even between neighbours that share one."""
    inner: ClassVar[tuple[str, ...]] = ()
    """Tags of the body that data may not close."""

    def body(self) -> str:
        """Return the text between the markers."""
        raise FragmentError(f"{type(self).__name__} must define body()")

    def wrapper(self) -> Markers | None:
        """Return the markers of this value; `markers` unless they depend on its data."""
        return self.markers

    @classmethod
    def matches(cls, text: str) -> bool:
        """Return whether `text` is a fragment of this class."""
        return cls.markers is not None and cls.markers.matches(text)

    def rendering(self, vocabulary: Vocabulary | None = None) -> Rendering:
        """Return the text as the model reads it, and whether it was cut.

        `vocabulary` holds the markers to guard; a registry passes its own, None means
        those of the built-in fragments.
        """
        words = _builtin_vocabulary() if vocabulary is None else vocabulary
        wrapper = self.wrapper()
        self._check_wrapper(wrapper, words)
        body = words.with_own(wrapper, self.inner).quote_all(self).body()
        kept = truncate_text(body, TruncationPolicy("tokens", self.cap_tokens))
        return Rendering(wrapper.wrap(kept) if wrapper else kept, cut=kept != body)

    def render(self, vocabulary: Vocabulary | None = None) -> str:
        """Return the text as the model reads it."""
        return self.rendering(vocabulary).text

    def content_item(self, vocabulary: Vocabulary | None = None) -> InputText:
        """Return the text as a content part."""
        return InputText(text=self.render(vocabulary))

    def message(self, vocabulary: Vocabulary | None = None) -> Message:
        """Return the text as a message of its own."""
        return Message(role=self.role, content=(self.content_item(vocabulary),))

    def input_item(self, vocabulary: Vocabulary | None = None) -> Draft:
        """Return the message as an entry to append, marked as the runtime's."""
        return Draft(
            body=encode_item(self.message(vocabulary)),
            flags=Flags.CONTEXTUAL,
            fragments=(FragmentMark(id=self.id, part=0),),
        )

    def _check_wrapper(self, wrapper: Markers | None, words: Vocabulary) -> None:
        if wrapper is None or wrapper == self.markers:
            return
        family = Vocabulary.of([self.markers] if self.markers else [])
        if words.knows(wrapper) and not family.knows(wrapper):
            raise FragmentError(
                f"fragment {self.id!r} cannot be sent as {wrapper.start!r}: "
                "that marker belongs to another fragment; use another key"
            )


def _builtin_vocabulary() -> Vocabulary:
    from .registry import builtin_vocabulary

    return builtin_vocabulary()


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
    if cls.role == "user" and cls.markers is None and not has_own_matcher(cls):
        raise FragmentError(
            f"user-role fragment {cls.id!r} cannot be distinguished from what a person typed; "
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
                    f"markers of fragments {cls.id!r} and {other.id!r} cannot be distinguished: "
                    f"{mine.markers.start!r} and {taken.start!r}; choose others for {cls.id!r}"
                )


def has_own_matcher(cls: type[Fragment]) -> bool:
    """Return whether a class recognises its texts by more than its markers."""
    # A class method is bound anew at each access; the function behind it is not.
    return cls.matches.__func__ is not Fragment.matches.__func__  # type: ignore[attr-defined]


def _check_markers(cls: type[Fragment], markers: Markers) -> None:
    if not re.fullmatch(_START, markers.start) or markers.start != markers.start.strip():
        raise FragmentError(
            f"start marker {markers.start!r} of fragment {cls.id!r} is neither a tag nor a phrase "
            "of eight characters or more; use one such as '<name>'"
        )
    if not markers.end and has_own_matcher(cls):
        return
    if not re.fullmatch(_END, markers.end):
        raise FragmentError(
            f"end marker {markers.end!r} of fragment {cls.id!r} is not a closing tag; "
            "use one such as '</name>'"
        )
