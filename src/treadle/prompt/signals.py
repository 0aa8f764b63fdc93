"""Signals made readable: the parts that the runtime adds to an input, by fixed rules.

Owns which inputs get runtime parts, and where. Invariants: a pure function of the
message and its signals; done twice it is done once; without a signal that calls for
words the message is the same object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec import Struct

from ..core import former_name
from ..core.entries import FragmentMark
from ..core.items import InputText, Message, Part
from ..core.provenance import InputProvenance, InternalEvent, is_inter_session, plain_text
from .completion import REPORTED, TaskCompletion
from .fragment import Fragment
from .inter_session import ROUTED, InterSession, InterSessionEnd
from .markers import Vocabulary

__all__ = ["AnnotatedMessage", "annotate"]


class AnnotatedMessage(Struct, frozen=True):
    """A message as the model reads it, and which of its parts the runtime said."""

    message: Message
    marks: tuple[FragmentMark, ...] = ()


def annotate(
    message: Message,
    provenance: InputProvenance | None,
    events: Sequence[InternalEvent],
    vocabulary: Vocabulary,
) -> AnnotatedMessage:
    """`message` with the words its signals call for around the sender's own parts.

    What another thread sent stands between `<inter_session_message>` and
    `<inter_session_end>`, in the user's role; each event follows as a
    `<task_completion>`. Beside such parts no text of the sender's reads as a marker.
    """
    routed = is_inter_session(provenance)
    if not events and not (routed and _has_content(message.content)):
        return AnnotatedMessage(message)
    before = [InterSession(provenance)] if routed and provenance else []
    end, reports = [InterSessionEnd()] if routed else [], list(map(TaskCompletion, events))
    own = _without(message.content, before, [*end, *reports], vocabulary)
    own = _without(own, before, reports, vocabulary)
    after = [*end, *reports] if _has_content(own) else reports
    return _around(message, before, own, after, vocabulary)


def _around(
    message: Message,
    before: Sequence[Fragment],
    own: Sequence[Part],
    after: Sequence[Fragment],
    words: Vocabulary,
) -> AnnotatedMessage:
    said = tuple(_quoted(own, words))
    content = (*_parts(before, words), *said, *_parts(after, words))
    told = (*enumerate(before), *enumerate(after, len(before) + len(said)))
    marks = tuple(FragmentMark(id=fragment.id, part=number) for number, fragment in told)
    return AnnotatedMessage(msgspec.structs.replace(message, role="user", content=content), marks)


def _without(
    content: tuple[Part, ...],
    before: Sequence[Fragment],
    after: Sequence[Fragment],
    words: Vocabulary,
) -> tuple[Part, ...]:
    """The sender's parts of a message that was annotated before; else all of it."""
    first, last = len(before), len(content) - len(after)
    told = _parts(before, words), _parts(after, words)
    found = content[:first], content[last:]
    annotated = first <= last and found in (told, tuple(map(_formerly, told)))
    return content[first:last] if annotated else content


def _formerly(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Runtime parts in the words they had under the former name."""
    texts = [_text(part) or "" for part in parts]
    routed = [text.replace(ROUTED, former_name.ROUTED) for text in texts]
    return tuple(InputText(text.replace(REPORTED, former_name.REPORTED)) for text in routed)


def _parts(fragments: Sequence[Fragment], words: Vocabulary) -> tuple[Part, ...]:
    return tuple(fragment.content_item(words) for fragment in fragments)


def _quoted(parts: Sequence[Part], words: Vocabulary) -> Iterator[Part]:
    """The sender's parts; neighbouring texts become one, lest a marker hide across two."""
    for is_text, group in groupby(parts, lambda part: _text(part) is not None):
        if not is_text:
            yield from group
            continue
        texts = [_text(part) or "" for part in group]
        said = texts[0] if len(texts) == 1 else "\n".join(filter(str.strip, texts))
        yield InputText(text=words.quote(plain_text(said)))


def _has_content(content: Sequence[Part]) -> bool:
    texts = map(_text, content)
    return any(text is None or text.strip() for text in texts)


def _text(part: Part) -> str | None:
    text = getattr(part, "text", None)
    return text if isinstance(text, str) else None
