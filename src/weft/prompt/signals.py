"""Signals made readable: the parts that the runtime adds to an input, by fixed rules.

Owns which inputs get runtime parts, and where. Invariants: a pure function of the
message and its signals; done twice it is done once; without a signal that calls for
words the message is the same object.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ..entries import FragmentMark
from ..items import InputText, Message, Part
from ..provenance import InputProvenance, InternalEvent, inter_session, plain_text
from .completion import TaskCompletion
from .fragment import Fragment
from .inter_session import InterSession, InterSessionEnd
from .markers import Vocabulary

__all__ = ["Annotated", "annotate"]

_PRIVILEGED = ("developer", "system")


class Annotated(Struct, frozen=True):
    """A message as the model reads it, and which of its parts the runtime said."""

    message: Message
    marks: tuple[FragmentMark, ...] = ()


def annotate(
    message: Message,
    provenance: InputProvenance | None,
    events: Sequence[InternalEvent],
    vocabulary: Vocabulary,
) -> Annotated:
    """`message` with the words its signals call for around the sender's own parts.

    What another thread sent stands between `<inter_session_message>` and
    `<inter_session_end>`, in the user's role; each event follows as a
    `<task_completion>`. Beside such parts no text of the sender's reads as a marker.
    """
    routed = inter_session(provenance)
    before = [InterSession(provenance)] if routed and provenance else []
    said = _has_content(message.content)
    if not events and not (routed and said):
        return Annotated(message)
    after = [*([InterSessionEnd()] if routed and said else []), *map(TaskCompletion, events)]
    return _around(message, before, after, vocabulary)


def _around(
    message: Message, before: Sequence[Fragment], after: Sequence[Fragment], words: Vocabulary
) -> Annotated:
    head = tuple(fragment.content_item(words) for fragment in before)
    tail = tuple(fragment.content_item(words) for fragment in after)
    own = tuple(_quoted(part, words) for part in _without(message.content, head, tail))
    role = "user" if message.role in _PRIVILEGED else message.role
    first = len(head) + len(own)
    marks = [FragmentMark(id=fragment.id, part=n) for n, fragment in enumerate(before)]
    marks += [FragmentMark(id=fragment.id, part=n) for n, fragment in enumerate(after, first)]
    changed = msgspec.structs.replace(message, role=role, content=(*head, *own, *tail))
    return Annotated(changed, tuple(marks))


def _without(
    content: tuple[Part, ...], head: tuple[Part, ...], tail: tuple[Part, ...]
) -> tuple[Part, ...]:
    """The sender's parts of a message that may have been annotated before."""
    end = len(content) - len(tail)
    if end >= len(head) and content[: len(head)] == head and content[end:] == tail:
        return content[len(head) : end]
    return content


def _quoted(part: Part, words: Vocabulary) -> Part:
    if not isinstance(part, InputText):
        return part
    return msgspec.structs.replace(part, text=words.quote(plain_text(part.text)))


def _has_content(content: tuple[Part, ...]) -> bool:
    return any(not isinstance(part, InputText) or part.text.strip() for part in content)
