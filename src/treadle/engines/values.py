"""Values: what a context engine is given, and what it gives back.

Owns every parameter and result of the contract. Invariant: a field added later is
optional on both sides, so an engine that does not know it goes on as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from ..context.tokens import estimate_item
from ..core.items import Item, decode_item, encode_item
from ..core.provenance import InputProvenance, InternalEvent
from ..core.usage import TokenUsage
from ..prompt.engine_fragments import Recall
from ..store.contract import Hits, Search

__all__ = [
    "AfterTurnParams",
    "AssembleParams",
    "AssembleResult",
    "BootstrapParams",
    "BootstrapResult",
    "CitationsMode",
    "CommitParams",
    "CommitResult",
    "CompactParams",
    "CompactResult",
    "CompactionTrigger",
    "Complete",
    "ContextItem",
    "Conversation",
    "ConversationParams",
    "Diagnostics",
    "EndReason",
    "EngineParams",
    "EngineSelection",
    "EntryRange",
    "IngestBatchParams",
    "IngestBatchResult",
    "IngestParams",
    "IngestResult",
    "InterceptParams",
    "InterceptResult",
    "LogReader",
    "MaintainParams",
    "MaintainReason",
    "MaintainResult",
    "ModelFacts",
    "Projection",
    "PromptCacheFacts",
    "Rebase",
    "ResetParams",
    "RuntimeContext",
    "RuntimeSettings",
    "SpawnParams",
    "SubagentEndedParams",
    "ThreadRef",
    "TokenLimits",
    "TurnOutcome",
    "recall_item",
]

CitationsMode: TypeAlias = Literal["auto", "on", "off"]
TurnOutcome: TypeAlias = Literal["accepted", "failed", "aborted"]
"""What became of the turn that an item belongs to; only accepted turns advance an engine."""

MaintainReason: TypeAlias = Literal["bootstrap", "turn", "compaction"]
CompactionTrigger: TypeAlias = Literal["auto", "manual", "overflow"]
EndReason: TypeAlias = Literal["deleted", "completed", "swept", "released"]


class EntryRange(Struct, frozen=True):
    """The entries that a summary stands for, both ends included."""

    first: int
    last: int


class ContextItem(Struct, frozen=True, kw_only=True, gc=False):
    """One item of a conversation.

    What came from the thread has an `id`; give it back to keep it where it is. What an
    engine writes itself has none: `ContextItem.of(item)`.
    """

    body: bytes
    """The item as it stands on the wire."""
    id: str | None = None
    seq: int | None = None
    """Its entry in the thread's log; None for what stands in a recipe."""
    turn: int = 0
    step: int = 0
    tokens: int = 0
    covers: EntryRange | None = None
    """For a summary: what it stands for. It then keeps its place before what changed since."""
    name: str | None = None
    """For a summary: what its engine calls it."""
    recall: bool = False
    """Memory for the present turn: shown until the next epoch, never handed back."""

    @property
    def item(self) -> Item:
        """The decoded item."""
        return decode_item(self.body)

    @classmethod
    def of(
        cls, item: Item, *, tokens: int = 0, covers: EntryRange | None = None, recall: bool = False
    ) -> ContextItem:
        """Return an item that the engine wrote; without `tokens` the host estimates them."""
        return cls(body=encode_item(item), tokens=tokens, covers=covers, recall=recall)


def recall_item(text: str) -> ContextItem:
    """Return recalled `text` as an item that stands until the next epoch.

    Whatever the text holds, the item carries its own markers once and stays within its cap.
    """
    message = Recall(text).message()
    return ContextItem.of(message, tokens=estimate_item(message), recall=True)


class ThreadRef(Struct, frozen=True, kw_only=True):
    """Which thread is meant."""

    id: str
    root: str = ""
    """The first thread of its family; forks share it."""
    parent: str | None = None
    cut: int = 0
    """The last entry shared with `parent`."""
    cwd: str = ""


class LogReader(Protocol):
    """Reads the thread's conversation, for an engine that wants more than the view shows."""

    async def read(self, first: int = 1, last: int | None = None) -> Conversation:
        """Return the visible conversation between two entries, without context."""
        ...

    async def search(self, query: str, *, limit: int = 20) -> Sequence[tuple[int, str]]:
        """Return the entries of this thread that contain the words of `query`, with snippets."""
        ...

    async def spans(self, spans: Sequence[tuple[int, int]]) -> Conversation:
        """Return the visible conversation in several ranges of entries; read nothing else."""
        ...

    async def find(self, query: Search | str, *, limit: int = 20) -> Hits:
        """Return the visible entries that match `query`, in the order that its mode says.

        Plain words are searched in this thread, a search without threads in all that may be
        read. Raises `SearchRefused`.
        """
        ...

    async def end(self) -> int:
        """Return the number of the newest entry that can be read."""
        ...

    async def times(self, entries: Sequence[int]) -> dict[int, int]:
        """Return when entries were stored, in milliseconds since 1970, without unknown ones."""
        ...

    async def of(self, thread: str) -> LogReader | None:
        """Return the log of another thread; None where this one may not read it."""
        ...


class Complete(Protocol):
    """Asks the thread's model something outside the conversation.

    It is bound to a purpose and to the thread's model; neither can be changed.
    """

    @property
    def purpose(self) -> str:
        """What it may be used for, such as ``context-engine.compaction``."""
        ...

    async def __call__(
        self, prompt: str, *, items: Sequence[Item] = (), instructions: str = ""
    ) -> str:
        """Return the model's answer. Raises `TooLong` when the window is too small."""
        ...


class ModelFacts(Struct, frozen=True, kw_only=True):
    """Which model was asked for, and which answers."""

    requested: str | None = None
    resolved: str | None = None
    provider: str | None = None
    family: str | None = None


class EngineSelection(Struct, frozen=True, kw_only=True):
    """Which engine was chosen, and by whom."""

    id: str | None = None
    source: Literal["configured", "default", "unknown"] = "unknown"


class TokenLimits(Struct, frozen=True, kw_only=True):
    """How many tokens fit."""

    prompt_token_budget: int | None = None
    max_output_tokens: int | None = None
    """How many an answer may have: as requests say it, else what is kept free for it."""


class Diagnostics(Struct, frozen=True, kw_only=True):
    """Why a turn does not run as configured."""

    fallback_reason: str | None = None
    degraded_reason: str | None = None


class RuntimeSettings(Struct, frozen=True, kw_only=True):
    """How the present turn runs. Unknown is None."""

    schema_version: int = 1
    host: str = "treadle"
    mode: Literal["normal", "fallback", "degraded"] = "normal"
    harness: str | None = None
    model: ModelFacts = ModelFacts()
    engine: EngineSelection = EngineSelection()
    limits: TokenLimits = TokenLimits()
    diagnostics: Diagnostics = Diagnostics()


class PromptCacheFacts(Struct, frozen=True, kw_only=True):
    """What is known of the provider's prompt cache; None is unknown."""

    last_usage: TokenUsage | None = None
    broke: bool | None = None
    reason: str | None = None
    """Why the newest request did not start with the bytes of the one before."""


class RuntimeContext(Struct, frozen=True, kw_only=True):
    """What the runtime can tell and do beyond the conversation."""

    cwd: str = ""
    harness: str = ""
    token_budget: int | None = None
    current_tokens: int | None = None
    prompt_cache: PromptCacheFacts | None = None
    complete: Complete | None = None
    """None while the current turn is being prepared."""
    deferred: bool = False
    """The call runs in the background; it may take its time."""


class EngineParams(Struct, frozen=True, kw_only=True):
    """What every call is given."""

    thread: ThreadRef
    log: LogReader
    settings: RuntimeSettings | None = None
    context: RuntimeContext | None = None


class Conversation(Struct, frozen=True, kw_only=True):
    """Items, and what the runtime knows of each. All four have the same length.

    They read like tuples and never change; a value is made when somebody reads it.
    """

    items: Sequence[ContextItem] = ()
    provenance: Sequence[InputProvenance | None] = ()
    """Who wrote it. None is no signal, never "the user"."""
    internal_events: Sequence[tuple[InternalEvent, ...] | None] = ()
    """Which events of the runtime made it."""
    persist: Sequence[bool] = ()
    """Whether an engine should keep it; volatile input is shown and never stored."""


class ConversationParams(Conversation, frozen=True, kw_only=True):
    """What calls about a conversation are given: the items, and what every call is given."""

    thread: ThreadRef
    log: LogReader
    settings: RuntimeSettings | None = None
    context: RuntimeContext | None = None


class BootstrapParams(EngineParams, frozen=True, kw_only=True):
    """A thread with a past is about to run a turn."""

    hidden: tuple[EntryRange, ...] = ()
    """Entries that were rolled back, with whatever engine; what is kept of them should go."""


class BootstrapResult(Struct, frozen=True, kw_only=True):
    """What was taken in."""

    bootstrapped: bool
    imported: int = 0
    reason: str = ""


class IngestParams(EngineParams, frozen=True, kw_only=True):
    """One item of an accepted turn. May come again after a crash: its `id` says so."""

    item: ContextItem
    provenance: InputProvenance | None = None
    internal_events: tuple[InternalEvent, ...] | None = None
    outcome: TurnOutcome = "accepted"


class IngestResult(Struct, frozen=True):
    """Whether the item was kept."""

    ingested: bool


class IngestBatchParams(ConversationParams, frozen=True, kw_only=True):
    """The items of an accepted turn. May come again after a crash."""

    outcomes: tuple[TurnOutcome, ...] = ()


class IngestBatchResult(Struct, frozen=True):
    """How many items were kept."""

    ingested: int


class AfterTurnParams(ConversationParams, frozen=True, kw_only=True):
    """The conversation after an accepted turn. May come again after a crash."""

    turn: str = ""
    pre_prompt_count: int = 0
    """How many items stood before the turn's input."""
    outcomes: tuple[TurnOutcome, ...] = ()
    token_budget: int | None = None


class CommitParams(ConversationParams, frozen=True, kw_only=True):
    """An accepted turn, and before it the items of turns that failed or were aborted.

    `key` names the turn for ever: the second commit of a key must change nothing.
    """

    key: str
    turn: str
    number: int
    first: int
    """The entry of the turn's input."""
    last: int
    """Its last entry."""
    outcomes: tuple[TurnOutcome, ...] = ()


class CommitResult(Struct, frozen=True):
    """Whether the turn was new."""

    status: Literal["committed", "duplicate"]


class AssembleParams(ConversationParams, frozen=True, kw_only=True):
    """What the model would see next, fragments left out."""

    token_budget: int | None = None
    """Tokens for `items`: the window without the reserve, the head and the fragments."""
    available_tools: frozenset[str] = frozenset()
    citations: CitationsMode = "auto"
    model: str = ""
    prompt: str | None = None
    """The words of the present input."""
    pre_prompt_count: int | None = None
    """How many items stand before the current turn."""
    current_tokens: int | None = None
    """Tokens of the whole request, as far as they are known."""


class Projection(Struct, frozen=True, kw_only=True):
    """How long an assembled view holds: for a turn, or for as long as `epoch` stays the same."""

    mode: Literal["per_turn", "per_epoch"] = "per_turn"
    epoch: str = ""
    fingerprint: str = ""


class AssembleResult(Struct, frozen=True, kw_only=True):
    """What the model should see: the items given, or others.

    Items added at the end, around the present input, extend the view. Anything else
    becomes a new epoch, with the engine as its reason. Who changes nothing hands on the
    very `items` that were given: that costs the same however long they are.
    """

    items: Sequence[ContextItem]
    estimated_tokens: int = 0
    system_prompt_addition: str | None = None
    prompt_authority: Literal["assembled", "preassembly_may_overflow"] = "assembled"
    projection: Projection = Projection()
    covers_current_turn: bool = False
    """The items stand for the present input too, although it is not among them."""


class Rebase(Struct, frozen=True, kw_only=True):
    """A conversation that should take the place of the one given."""

    items: Sequence[ContextItem]


class MaintainParams(ConversationParams, frozen=True, kw_only=True):
    """Time to put things in order."""

    reason: MaintainReason = "turn"
    cancelled: asyncio.Event | None = None


class MaintainResult(Struct, frozen=True, kw_only=True):
    """What maintenance did, and the view it asks for."""

    changed: bool = False
    reason: str = ""
    rebase: Rebase | None = None


class CompactParams(ConversationParams, frozen=True, kw_only=True):
    """The view should become smaller."""

    token_budget: int | None = None
    current_tokens: int | None = None
    trigger: CompactionTrigger = "manual"
    target: Literal["budget", "threshold"] = "budget"
    force: bool = False
    live: bool = False
    """A turn is under way: its newest items must stay."""
    instructions: str = ""
    cancelled: asyncio.Event | None = None
    """Set when nobody waits for the result any more."""
    delegate: Callable[[], Awaitable[CompactResult]] | None = None
    """The runtime's own compaction, for engines that have none."""


class CompactResult(Struct, frozen=True, kw_only=True):
    """What a compaction came to."""

    ok: bool = True
    compacted: bool = False
    reason: str = ""
    rebase: Rebase | None = None
    """The smaller view; None where the runtime's compaction has published one."""
    tokens_before: int | None = None
    tokens_after: int | None = None
    details: dict[str, Any] = {}


class InterceptParams(ConversationParams, frozen=True, kw_only=True):
    """The runtime is about to compact these items into a summary."""

    trigger: CompactionTrigger = "auto"
    current_tokens: int | None = None
    cancelled: asyncio.Event | None = None


class InterceptResult(Struct, frozen=True, kw_only=True):
    """The engine's own summary of them; None lets the runtime go on."""

    summary: str | None = None


class SpawnParams(Struct, frozen=True, kw_only=True):
    """A child thread is about to start."""

    parent: ThreadRef
    child: ThreadRef
    mode: Literal["isolated", "fork"] = "isolated"
    ttl: float | None = None


class SubagentEndedParams(Struct, frozen=True, kw_only=True):
    """A child thread is over."""

    child: str
    reason: EndReason = "completed"


class ResetParams(EngineParams, frozen=True, kw_only=True):
    """Entries were hidden or are being deleted; what an engine keeps of them should be gone."""

    reason: Literal["reset", "rollback", "delete"] = "reset"
    """``delete``: the thread is being deleted; entries before `first` belong to forks too."""
    first: int = 1
    """The first of these entries."""
    last: int = 0
    """The last of these entries."""
