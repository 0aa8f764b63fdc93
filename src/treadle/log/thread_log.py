"""The thread log: the writing side of one thread.

Owns the one path by which entries are written, and the view that follows from them. Its
parts write what belongs together: `turns`, `requests` and `epochs`. Invariant: nothing is
acted upon before the entry that says so is durable, and after every write the view is what
the log says, also when a writer was cancelled in the middle of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw

from ..context.compose import inbox_draft, is_recordable, item_draft, state_drafts
from ..context.cuts import step_boundary
from ..context.view import View, advance
from ..core.aio import finish_uncancelled
from ..core.entries import (
    Control,
    Draft,
    Entry,
    Notice,
    Origin,
    SettingsChange,
    control_draft,
)
from ..core.errors import NotFound
from ..core.items import Item
from ..core.known_secrets import KnownSecrets
from ..core.redact import blank_value, known_secrets
from ..core.text import approx_tokens
from ..core.wire import Json, json_bytes
from ..prompt.context_changes import take_snapshots
from ..prompt.fragment import Fragment
from ..prompt.prompt_context import PromptContext
from ..prompt.registry import Registry
from ..store.contract import (
    Change,
    ChangeResult,
    InboxMessage,
    Index,
    Lease,
    OutboxDraft,
    Store,
    TurnEnd,
)
from .done_rows import DoneRows
from .epochs import Epochs
from .requests import Requests
from .setup import RequestSetup
from .staging import ToolOutput, staged_numbers, staged_outputs, staged_row
from .turn_input import Follower
from .turns import Turns

__all__ = ["ThreadLog"]

_TakenOf: TypeAlias = tuple[PromptContext, KnownSecrets | None]


class ThreadLog:
    """The right to write one thread, and what it shows.

    `turns.admit` an input, `requests.render` the request it makes, `requests.record` that it
    goes out, `requests.record_answer`, `append` what tools put out, and `turns.finish`.
    """

    def __init__(
        self,
        thread: str,
        *,
        store: Store,
        index: Index,
        registry: Registry,
        lease: Lease,
        view: View,
        setup: RequestSetup,
        turn: int = 0,
        step: int = 0,
    ) -> None:
        self.id = thread
        self.store = store
        self.index = index
        self.registry = registry
        self.lease = lease
        self.view = view
        self.setup = setup
        self.turn = turn
        self.step = step
        self.followers: list[Follower] = []
        """Those who must not miss a turn."""
        self.has_mail = False
        """Whether others had left messages when something was last written."""
        self.writing = asyncio.Lock()
        """Held from looking at the view to the entry that was decided on it."""
        self._staged = 0
        self._snapshots: tuple[_TakenOf, dict[str, Json | None]] | None = None
        """The newest snapshots, and what they were taken of."""
        self.done = DoneRows(self)
        self.epochs = Epochs(self)
        self.requests = Requests(self)
        self.turns = Turns(self)

    @property
    def origin(self) -> Origin:
        """Where the answers to its requests come from."""
        head = self.view.head or self.setup.head_with("")
        return Origin(head.provider, head.api, head.model, head.account, "treadle")

    @property
    def asked_model(self) -> str:
        """Who answers its requests: ``provider:model``."""
        origin = self.origin
        return f"{origin.provider}:{origin.model}"

    @property
    def sealing_origin(self) -> Origin:
        """The same for a compaction that the provider seals."""
        head = self.view.head
        return msgspec.structs.replace(self.origin, comp_hash=head.comp_hash if head else "")

    async def append(
        self, *items: Item, origin: Origin | None = None, light: bool = False
    ) -> tuple[Entry, ...]:
        """Record items of the present step, such as the outputs of tools.

        They are `light` where only a request is made of them before the next change.
        """
        drafts = self.drafts(items, origin)
        done: tuple[int, ...] = ()
        if self._staged:
            waiting = await staged_outputs(self.store, self.id)
            done = staged_numbers(items, self.turn, self.step, waiting)
        committed = await self.commit(Change(entries=drafts, settle=done, light=light))
        self._staged -= len(done)
        return committed.entries

    async def add(self, *drafts: Draft) -> None:
        """Append drafts that others made."""
        if drafts:
            await self.commit(Change(entries=drafts))

    async def say(self, fragment: Fragment) -> tuple[Entry, ...]:
        """Tell the model something once, as the runtime."""
        draft = self.fragment_draft(fragment, turn=self.turn, step=self.step)
        return (await self.commit(Change(entries=(draft,)))).entries

    async def retell(self, context: PromptContext, *names: str) -> None:
        """Tell the model what changed of some states since the turn began."""
        async with self.writing:
            seen = self.snapshots(context)
            states = {name: seen[name] for name in names if name in seen}
            drafts = state_drafts(self.view, self.registry, states, self.turn, self.step)
            if drafts:
                await self.write(Change(entries=drafts))

    async def note(
        self,
        text: str,
        *,
        level: Literal["info", "warning", "error"] = "info",
        source: str = "",
    ) -> None:
        """Record something that the user was told and the model should not see."""
        await self.commit(self.control_change(Notice(level, text, source)))

    async def configure(self, **changes: object) -> None:
        """Change thread settings, such as ``goal``; None removes one."""
        values = {name: Raw(json_bytes(value)) for name, value in changes.items()}
        await self.commit(self.control_change(SettingsChange(values)))

    async def queue(
        self, *rows: OutboxDraft, settle: Sequence[int] = (), light: bool = False
    ) -> None:
        """Put rows into the outbox, or give them a new state; those to `settle` leave it."""
        await self.commit(Change(outbox=rows, settle=tuple(settle), light=light))

    async def fork(self, at: int | None = None, *, title: str = "") -> str:
        """Create a thread that shares this one up to entry `at`; return its id.

        Inside a step, the cut moves to the step's start.
        """
        last = self.view.upto if at is None else at
        cut = await step_boundary(self.store, self.id, self.registry, last)
        return (await self.store.fork(self.id, cut, title=title)).id

    async def inbox(self) -> list[InboxMessage]:
        """Return the messages that others have left for the model, oldest first."""
        return [message for message in await self.store.inbox(self.id) if message.kind == "input"]

    async def take_inbox(self, *numbers: int) -> int:
        """Append what others have left, in order; return how many messages that were.

        With `numbers`, only those.
        """
        mail = await self.inbox()
        messages = [each for each in mail if not numbers or each.number in numbers]
        where = self.registry, self.turn, self.step
        drafts = tuple(inbox_draft(message, *where) for message in messages)
        if drafts:
            taken = tuple(message.number for message in messages)
            await self.commit(Change(entries=drafts, take=taken))
        return len(drafts)

    async def withdraw(self, key: str) -> bool:
        """Take an input back that the model has not read yet; return whether it was."""
        waiting = {message.key: message.number for message in await self.inbox()}
        if key not in waiting:
            return False
        try:
            await self.commit(Change(take=(waiting[key],)))
        except NotFound:  # a step took it in the meantime
            return False
        return True

    async def stage_output(self, output: ToolOutput) -> None:
        """Make the output of a tool durable before its place in the log is free."""
        await self.commit(Change(outbox=(staged_row(output, self.turn, self.step),)))
        self._staged += 1

    async def unstage_output(self, output: ToolOutput) -> None:
        """Take back an output that was staged for the present step."""
        waiting = await staged_outputs(self.store, self.id)
        done = staged_numbers((output,), self.turn, self.step, waiting)
        await self.commit(Change(settle=done))
        self._staged -= len(done)

    def forget_staged(self) -> None:
        """Know that no output is staged any more: all of them went into the log."""
        self._staged = 0

    def snapshots(self, context: PromptContext) -> dict[str, Json | None]:
        """Return the snapshot of every state; taken anew when the context is another one.

        Known secrets are out before they are compared with what the view knows.
        """
        taken_of = context, known_secrets()
        if self._snapshots is None or self._snapshots[0] != taken_of:
            self._snapshots = taken_of, blank_value(take_snapshots(self.registry, context))
        return self._snapshots[1]

    def drafts(self, items: Sequence[Item], origin: Origin | None = None) -> tuple[Draft, ...]:
        """Return the drafts of those items that belong into a log, for the present step."""
        limit = self.setup.truncation
        return tuple(
            item_draft(item, turn=self.turn, step=self.step, origin=origin, limit=limit)
            for item in items
            if is_recordable(item)
        )

    def fragment_draft(self, fragment: Fragment, *, turn: int, step: int = 0) -> Draft:
        """Return the draft of what the runtime says. Raises `FragmentError`."""
        self.registry.check(fragment)
        draft = fragment.input_item(self.registry.vocabulary)
        tokens = approx_tokens(len(draft.body))
        return msgspec.structs.replace(draft, turn=turn, step=step, tokens=tokens)

    def control_change(self, control: Control) -> Change:
        """Return the change that writes one control entry."""
        return Change(entries=(control_draft(control, turn=self.turn, step=self.step),))

    def end_rows(self, end: TurnEnd | None) -> tuple[OutboxDraft, ...]:
        """Return what followers queue with the end of a turn."""
        rows = (each.rows_on_end(end) for each in self.followers) if end is not None else ()
        return tuple(row for each in rows for row in each)

    async def commit(self, change: Change) -> ChangeResult:
        """Write a change, and let the view follow."""
        async with self.writing:
            return await self.write(change)

    async def write(self, change: Change) -> ChangeResult:
        """Write a change whose writer already holds `writing`.

        A cancellation waits for it: half a write would leave the view behind the log.
        """
        return await finish_uncancelled(self._write_and_follow(change))

    async def _write_and_follow(self, change: Change) -> ChangeResult:
        done = self.done.take_all() if self.done.rows else ()
        if done:
            change = msgspec.structs.replace(change, done=(*change.done, *done))
        try:
            committed = await self.store.commit(self.lease, change)
        except BaseException:
            self.done.keep(done)
            raise
        if committed.repeated or committed.held_back:
            self.done.keep(done)
        self.has_mail = committed.mail
        self.view = await advance(self.view, self.store, committed.entries, self.registry)
        return committed
