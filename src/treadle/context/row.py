"""Rows: the items of a view, each with what the log knows about it.

Owns the small value that view, rules and requests pass around. Invariant: a row
shows its entry's bytes and never interprets more of them than it must.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from ..core.entries import Draft, Entry, Flags, FragmentMark, Inline, Node, Origin
from ..core.items import Item, decode_item
from ..core.provenance import InputProvenance, InternalEvent

__all__ = ["Row", "Shape"]


# Views have thousands of them, and nothing in them leads back: the collector need not look.
class Shape(Struct, frozen=True, gc=False):
    """As much of an item as pairing and rendering need to know."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    execution: str | None = None
    role: str | None = None


_shape = msgspec.json.Decoder(Shape)


class Row(Struct, frozen=True, kw_only=True, gc=False):
    """One item of a view."""

    body: bytes
    shape: Shape
    id: str | None = None
    seq: int | None = None
    """The entry it came from; None for a summary or an inline item."""
    turn: int = 0
    step: int = 0
    tokens: int = 0
    flags: Flags = Flags.NONE
    fragments: tuple[FragmentMark, ...] = ()
    provenance: InputProvenance | None = None
    events: tuple[InternalEvent, ...] = ()
    origin: Origin | None = None
    node: Node | None = None
    """The summary node it shows."""

    @property
    def item(self) -> Item:
        """The decoded item."""
        return decode_item(self.body)

    # Asked of every row several times a step; an operator of flags takes ten times as long.
    @property
    def contextual(self) -> bool:
        """Whether the runtime said it."""
        return int.__and__(self.flags, Flags.CONTEXTUAL) != 0

    @property
    def volatile(self) -> bool:
        """Whether it is for the model alone: never ingested, indexed, summarised or displayed."""
        return int.__and__(self.flags, Flags.VOLATILE) != 0

    @property
    def summary(self) -> bool:
        """Whether it tells what came before it, in words that nobody in the thread said."""
        return self.node is not None or int.__and__(self.flags, Flags.SUMMARY) != 0

    @classmethod
    def of_entry(cls, entry: Entry) -> Row:
        """The row of an item entry."""
        try:
            return cls.of_draft(entry, entry.seq)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise entry.read_error(error) from error

    @classmethod
    def of_draft(cls, draft: Draft, seq: int | None = None) -> Row:
        """The row that a draft would become."""
        return cls(
            body=draft.body,
            shape=shape_of(draft.body),
            id=draft.id,
            seq=seq,
            turn=draft.turn,
            step=draft.step,
            tokens=draft.tokens,
            flags=draft.flags,
            fragments=draft.fragments,
            provenance=draft.provenance,
            events=draft.events,
            origin=draft.origin,
        )

    @classmethod
    def of_inline(cls, part: Inline) -> Row:
        """The row of an inline item."""
        body = bytes(part.body)
        return cls(
            body=body,
            shape=shape_of(body),
            id=part.id,
            tokens=part.tokens,
            flags=Flags(part.flags),
            fragments=part.fragments,
            origin=part.origin,
        )

    @classmethod
    def of_node(cls, node: Node, body: bytes) -> Row:
        """The row of a summary node, shown as `body`."""
        return cls(body=body, shape=shape_of(body), id=node.id, tokens=node.tokens, node=node)

    def as_inline(self) -> Inline:
        """This row as part of a recipe."""
        return Inline(
            body=Raw(self.body),
            id=self.id,
            tokens=self.tokens,
            flags=int(self.flags),
            fragments=self.fragments,
            origin=self.origin,
        )


def shape_of(body: bytes) -> Shape:
    """The shape of an encoded item; of a misshapen one, what can be read of it."""
    try:
        return _shape.decode(body)
    except msgspec.ValidationError:
        members = msgspec.json.decode(body)
    if not isinstance(members, dict):
        return Shape()
    names = Shape.__struct_fields__
    return Shape(**{name: members[name] for name in names if isinstance(members.get(name), str)})
