"""Entries: the rows of a thread's log. The shape on disk; `docs/log-format.md` explains it.

Owns the fields of an entry and of each control entry. Invariant: an entry
never changes once it is stored; rollback, compaction and settings are entries
that hide or re-base what came before.
"""

# No postponed annotations: decoders read them, and reading them from text takes time.

import enum
from collections.abc import Iterable
from typing import Literal, Self, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from .errors import StoreCorrupt, StoreError, StoreTooNew
from .former_name import SCHEMA_NAME, renamed_harness
from .items import Item, Part, decode_item
from .provenance import InputProvenance, InternalEvent
from .typed import decode_json
from .usage import TokenUsage
from .wire import NULL, Json, json_bytes

__all__ = [
    "BREAKING",
    "CompletionMark",
    "Control",
    "Draft",
    "Entry",
    "Epoch",
    "Flags",
    "FragmentMark",
    "Head",
    "Inline",
    "Kind",
    "Node",
    "Notice",
    "Origin",
    "ProjectionMark",
    "Range",
    "Reason",
    "Recipe",
    "RecipePart",
    "RequestMark",
    "ResponseMark",
    "Rollback",
    "SettingsChange",
    "Snapshots",
    "control_draft",
    "own_parts",
]

Kind: TypeAlias = Literal[
    "item", "epoch", "rollback", "settings", "notice", "request", "response", "completion"
]

BREAKING: frozenset[Kind] = frozenset({"epoch", "rollback"})
"""Kinds that end the life of a prefix."""


class Flags(enum.IntFlag):
    """What may be done with an entry besides showing it to the model."""

    NONE = 0
    CONTEXTUAL = 1
    """From the runtime, not from a person or a model: no turn of its own, never summarised."""
    VOLATILE = 2
    """Not ingested, not indexed, not summarised, not displayed; still in the view."""
    HIDDEN = 4
    """Not displayed to people."""
    SUMMARY = 8
    """What a model wrote of the conversation before it: nobody's own words."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where a model-made item came from; its opaque parts go back only there."""

    provider: str = ""
    api: str = ""
    model: str = ""
    account: str = ""
    harness: str = ""
    comp_hash: str = ""
    """Of a compaction: a model with another hash cannot read it."""

    def __post_init__(self) -> None:
        if (name := renamed_harness(self.harness)) != self.harness:
            msgspec.structs.force_setattr(self, "harness", name)

    def is_compatible(self, other: "Self | Head") -> bool:
        """Return whether the other can read opaque parts made by this one."""
        return (self.provider, self.api, self.account) == (
            other.provider,
            other.api,
            other.account,
        )

    def is_readable_by(self, head: "Head") -> bool:
        """Return whether the model of `head` may read a compaction that this one sealed."""
        differs = self.comp_hash and head.comp_hash and self.comp_hash != head.comp_hash
        return self.is_compatible(head) and not differs


class FragmentMark(Struct, frozen=True, omit_defaults=True):
    """Names the fragment in an entry, and the state that the fragment shows; null means removed.

    `part` is the content part that holds the text, None for a state that was
    recorded without text.
    """

    id: str
    snapshot: Json = NULL
    part: int | None = None


class Draft(Struct, frozen=True, kw_only=True, gc=False):
    """An entry before the store gives it a place and a time.

    `time` is when it happened, for what happened elsewhere; None means now.
    """

    kind: Kind = "item"
    body: bytes
    id: str | None = None
    turn: int = 0
    step: int = 0
    tokens: int = 0
    flags: Flags = Flags.NONE
    fragments: tuple[FragmentMark, ...] = ()
    provenance: InputProvenance | None = None
    events: tuple[InternalEvent, ...] = ()
    origin: Origin | None = None
    source_id: str | None = None
    time: int | None = None


class Entry(Draft, frozen=True, kw_only=True, gc=False):
    """One row of the log.

    `seq` counts from 1 within a thread and continues in its forks. `body` is the item's
    wire bytes without Treadle's own id, or a control entry as JSON; it is empty if what is
    stored is not what was written.
    """

    thread: str
    seq: int
    time: int
    """Milliseconds since 1970."""

    @property
    def item(self) -> Item:
        """The item in `body`; only for entries of kind ``item``.

        Raises `StoreCorrupt` when the body is no JSON.
        """
        try:
            return decode_item(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.read_error(error) from error

    @property
    def control(self) -> "Control":
        """The value of a control entry.

        Raises `StoreTooNew` for what this version does not know, `StoreCorrupt` for
        what is no JSON.
        """
        try:
            return decode_json(self.body, CONTROLS[self.kind])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.read_error(error) from error

    def read_error(self, error: Exception) -> StoreError:
        """Return the error to raise when `body` cannot be read."""
        name = f"entry {self.seq} of thread {self.thread!r} ({self.kind})"
        before = "go on from an earlier step with `treadle fork --at`"
        if not self.body:
            return StoreCorrupt(f"{name} is damaged: its checksum does not fit; {before}")
        if isinstance(error, KeyError | msgspec.ValidationError):
            return StoreTooNew(
                f"{name} says what this Treadle does not know: {error}; upgrade, or {before}"
            )
        return StoreCorrupt(f"{name} is damaged: {error}; {before}")

    def has_flag(self, flag: Flags) -> bool:
        """Return whether `flag` is set."""
        return bool(self.flags & flag)


class Range(Struct, frozen=True, tag="range"):
    """The visible items from `first` to `last`, both included."""

    first: int
    last: int


class Node(Struct, frozen=True, tag="node", omit_defaults=True):
    """A summary that replaces the entries `first` to `last`.

    `blob` is the digest of its item as rendered, so that the view needs no engine.
    """

    id: str
    blob: str
    first: int
    last: int
    tokens: int = 0


class Inline(Struct, frozen=True, tag="inline", omit_defaults=True):
    """An item that stands in the recipe itself."""

    body: Json
    id: str | None = None
    tokens: int = 0
    flags: int = 0
    fragments: tuple[FragmentMark, ...] = ()
    origin: Origin | None = None


class Snapshots(Struct, frozen=True, tag="snapshots"):
    """States that count as shown although their text is not in the view."""

    marks: tuple[FragmentMark, ...]


RecipePart: TypeAlias = Range | Node | Inline | Snapshots


class Recipe(Struct, frozen=True):
    """What an epoch starts from, in order."""

    parts: tuple[RecipePart, ...] = ()


class Reason(enum.StrEnum):
    """Why a prefix ended."""

    START = "start"
    COMPACTION = "compaction"
    PUBLISH = "publish"
    ROLLBACK = "rollback"
    MODEL = "model"
    PARAMS = "params"
    TOOLS = "tools"
    INSTRUCTIONS = "instructions"
    RESET = "reset"
    IMPORT = "import"
    IMAGES = "images"
    """A provider refused images; sentences stand for them from now on."""
    OTHER = "other"
    """One that only a newer version knows by name."""

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        return cls.OTHER


class Head(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """All of a request but its items and its cache key.

    Stored as a blob that threads share, named by epochs.
    """

    provider: str = "openai"
    api: str = "responses"
    account: str = ""
    model: str
    instructions: str = ""
    tools: tuple[Json, ...] = ()
    """Tool specifications, encoded."""
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    effort: str | None = None
    summary: str | None = None
    verbosity: str | None = None
    output_schema: Json | UnsetType = UNSET
    service_tier: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    cache_retention: str | None = None
    """How long the provider may keep a prefix at most."""
    cache_ttl: str | None = None
    """How long the provider should keep a prefix at least."""
    cache_breakpoints: bool = False
    """Whether requests tell the provider where to cache, if it would choose by itself."""
    include: tuple[str, ...] = ()
    images: bool = True
    audio: bool = False
    repairs: tuple[str, ...] = ()
    """What is repaired in items that the provider could not read otherwise."""
    schema_name: str = SCHEMA_NAME
    """What `output_schema` is called; old heads do not say it, and stay what they were."""
    comp_hash: str = ""
    """Which compactions the model can read; requests do not tell it."""
    cache_key: bool = True
    """Whether the API takes a cache key."""
    family: str = ""
    """``small`` where the model got the short instructions and tools; requests do not tell it."""
    text_calls: tuple[str, ...] = ()
    """The forms of calls that are read from the text of answers; requests do not tell them."""
    refused_images: tuple[str, ...] = ()
    """Digests of images that a provider refused; sentences stand for them."""


class ProjectionMark(Struct, frozen=True, omit_defaults=True):
    """The engine plan that a recipe shows; the plan holds while its epoch is the same."""

    engine: str
    epoch: str
    fingerprint: str = ""


class Epoch(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A prefix ended here, and why.

    `head` is the blob of the new request head, None while it stays the same.
    `recipe` is the new base, None while the base stays and only the head changed.
    An epoch with a recipe always names its head, so that reading backwards can stop there.
    """

    reason: Reason
    head: str | None = None
    recipe: Recipe | None = None
    settings: dict[str, Json] = {}
    """With a recipe: the thread's settings so far, for the same purpose."""
    by: str = ""
    note: str = ""
    projection: ProjectionMark | None = None


class Rollback(Struct, frozen=True, omit_defaults=True):
    """Hides every entry from `cut` up to this one."""

    cut: int
    turns: int | None = None


class SettingsChange(Struct, frozen=True):
    """Thread settings that changed; a null value removes one."""

    changes: dict[str, Json]


class Notice(Struct, frozen=True, omit_defaults=True):
    """A message to the user; the model never sees it."""

    level: Literal["info", "warning", "error"]
    text: str
    source: str = ""


class RequestMark(Struct, frozen=True, omit_defaults=True):
    """A request is about to be sent: its digest, and the log it was made from."""

    upto: int
    epoch: int
    digest: str
    size: int
    items: int


class ResponseMark(Struct, frozen=True, omit_defaults=True):
    """How a request ended."""

    request: int
    """Its entry; 0 for one that nobody noted."""
    status: Literal["completed", "failed", "interrupted"]
    response_id: str | None = None
    usage: TokenUsage | None = None
    error: str | None = None
    purpose: str = ""
    """What it was for, of a request outside the conversation."""


class CompletionMark(Struct, frozen=True, omit_defaults=True):
    """A request outside the conversation is about to be sent, such as one for a summary."""

    upto: int
    epoch: int
    digest: str
    size: int
    items: int
    purpose: str = ""


Control: TypeAlias = (
    Epoch | Rollback | SettingsChange | Notice | RequestMark | ResponseMark | CompletionMark
)

CONTROLS: dict[str, type[Control]] = {
    "epoch": Epoch,
    "rollback": Rollback,
    "settings": SettingsChange,
    "notice": Notice,
    "request": RequestMark,
    "response": ResponseMark,
    "completion": CompletionMark,
}

_KINDS = {struct: kind for kind, struct in CONTROLS.items()}


def control_draft(control: Control, *, turn: int = 0, step: int = 0) -> Draft:
    """Return the draft of a control entry."""
    kind: Kind = _KINDS[type(control)]  # type: ignore[assignment]
    return Draft(kind=kind, body=json_bytes(control), turn=turn, step=step)


def own_parts(content: tuple[Part, ...], marks: Iterable[FragmentMark]) -> tuple[Part, ...]:
    """Return the parts of a message that its sender wrote, without those the runtime added."""
    marked = {mark.part for mark in marks}
    return tuple(part for number, part in enumerate(content) if number not in marked)
