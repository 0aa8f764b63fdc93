"""The input of a turn, as a host or the inbox gives it.

Owns how what a host says becomes one message. Invariant: files are opened by the thread's own
rule, and not on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from ..core.errors import InvalidOption
from ..core.items import Message
from ..core.provenance import InputProvenance, InternalEvent
from ..prompt.fragment import Fragment
from ..prompt.input import Image, LocalFile, LocalImage, UserPart, user_message
from ..prompt.machine import OpenFile
from ..store.contract import InboxMessage

__all__ = ["Input", "make_message"]


class Input(Struct, frozen=True, kw_only=True):
    """What starts a turn."""

    message: Message
    turn_id: str = ""
    provenance: InputProvenance | None = None
    events: Sequence[InternalEvent] = ()
    mail: Sequence[InboxMessage] = ()
    """What others left and the turn takes in; the first of it is `message`."""
    ahead: Sequence[Fragment] = ()
    """What the runtime says before it."""


async def make_message(said: Sequence[UserPart | Message], open_file: OpenFile) -> Message:
    """Return what a host said as one message. Raises `InvalidOption` for what is none."""
    if len(said) == 1 and isinstance(said[0], Message):
        return said[0]
    parts = list(map(_part, said))
    if len(parts) == 1 and isinstance(parts[0], str):
        return user_message(parts[0])
    return await asyncio.to_thread(user_message, *parts, open_file=open_file, refuse=True)


def _part(said: UserPart | Message) -> UserPart:
    if isinstance(said, str | Image | LocalImage | LocalFile):
        return said
    raise InvalidOption(
        f"{said!r} is no part of an input; give texts, images and files "
        "(`Image`, `LocalImage`, `LocalFile`), or one whole `Message` alone"
    )
