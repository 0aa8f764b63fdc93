"""The fragment seam: one typed unit of text that the runtime tells the model.

Owns how a fragment becomes text, a content part, a message and an entry.
Invariant: whatever a fragment's fields hold, its text carries exactly its own
markers, stays within its cap, and reads as no other fragment.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from ..core.entries import Draft, Flags, FragmentMark
from ..core.errors import FragmentError
from ..core.items import InputText, Message, encode_item
from ..core.text import TruncationPolicy, truncate_text
from .markers import Markers, Vocabulary

__all__ = ["MAX_CAP_TOKENS", "Fragment", "FragmentRole", "Markers", "Rendering", "Vocabulary"]

FragmentRole = Literal["developer", "user"]

MAX_CAP_TOKENS = 10_000
"""No fragment may ask for more."""


class Rendering(Struct, frozen=True):
    """A fragment's text, and whether its cap cut it."""

    text: str
    cut: bool = False


class Fragment(Struct, frozen=True):
    """Base of fragments: frozen values whose fields are their data.

    A subclass sets `id` and `role` and writes `body`. Text in fields is foreign and
    gets quoted before `body` sees it; text in the code of `body` is ours. `body` is
    pure: no clock, no environment, no files. A `user` fragment must be recognisable,
    by `markers` or by its own `matches`.
    """

    id: ClassVar[str]
    role: ClassVar[FragmentRole]
    markers: ClassVar[Markers | None] = None
    cap_tokens: ClassVar[int] = 1_000
    separate: ClassVar[bool] = False
    """Stands in a message of its own, even between neighbours that share one."""
    inner: ClassVar[tuple[str, ...]] = ()
    """Tags of the body that data may not close."""

    def body(self) -> str:
        """What stands between the markers."""
        raise FragmentError(f"{type(self).__name__} must define body()")

    def wrapper(self) -> Markers | None:
        """The markers of this very value; `markers` unless they depend on its data."""
        return self.markers

    @classmethod
    def matches(cls, text: str) -> bool:
        """Whether `text` is a fragment of this class."""
        return cls.markers is not None and cls.markers.matches(text)

    def rendering(self, vocabulary: Vocabulary | None = None) -> Rendering:
        """The text as the model reads it, and whether it was cut.

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
        """The text as the model reads it."""
        return self.rendering(vocabulary).text

    def content_item(self, vocabulary: Vocabulary | None = None) -> InputText:
        """The text as a content part."""
        return InputText(text=self.render(vocabulary))

    def message(self, vocabulary: Vocabulary | None = None) -> Message:
        """The text as a message of its own."""
        return Message(role=self.role, content=(self.content_item(vocabulary),))

    def input_item(self, vocabulary: Vocabulary | None = None) -> Draft:
        """The message as an entry to append, marked as the runtime's words."""
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
                f"fragment {self.id!r} cannot be told as {wrapper.start!r}: "
                "that marker belongs to another fragment; use another key"
            )


def _builtin_vocabulary() -> Vocabulary:
    from .registry import builtin_vocabulary

    return builtin_vocabulary()
