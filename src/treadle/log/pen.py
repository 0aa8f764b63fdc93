"""The pen: a thread's lease and its view, and everything that moves the view's base.

Owns the one path by which entries are written, heads, recipes, rollbacks and settings.
Invariant: the view is what the log says after every write, also when a writer was
cancelled in the middle of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Raw, field

from ..context.compose import change_of_head, item_draft
from ..context.head import Choices, build_head
from ..context.recipe import ranges, rebase
from ..context.view import View, advance
from ..core.aio import finish_uncancelled
from ..core.entries import (
    Control,
    Draft,
    Epoch,
    Head,
    Notice,
    Origin,
    Projected,
    Reason,
    Recipe,
    RecipePart,
    Rollback,
    Settings,
    control_draft,
)
from ..core.errors import StaleEpoch
from ..core.items import Item
from ..core.service import Service
from ..core.specs import ToolSpec
from ..core.text import approx_tokens
from ..core.wire import json_bytes
from ..models.catalog import Catalog
from ..models.profile import ModelProfile
from ..prompt.discovery import DocsRules
from ..prompt.instructions import base_instructions
from ..prompt.machine import observe_machine
from ..prompt.observation import PromptContext
from ..prompt.registry import Registry
from ..store.contract import THIS_TURN, Change, Committed, Index, Lease, OutboxDraft, Store
from .turn_input import Follower

__all__ = ["Pen"]


class Pen(Service):
    """The right to write one thread, and what it shows."""

    id: str
    store: Store
    index: Index
    registry: Registry
    catalog: Catalog
    lease: Lease
    view: View
    model: str
    cwd: Path
    home: Path | None = None
    tools: tuple[ToolSpec, ...] = ()
    api: str = ""
    """The API that the model's connection speaks; empty for the provider's usual one."""
    choices: Choices = field(default_factory=Choices)
    planned: Callable[[Head], Head] | None = None
    """What the plan of the present attempt makes of a head."""
    settings: PromptContext | None = None
    """What fragments should say beyond what the machine shows."""
    docs: DocsRules | None = None
    """How AGENTS.md files are found."""
    followers: list[Follower] = field(default_factory=list)
    """Those who must not miss a turn."""
    turn: int = 0
    step: int = 0
    has_mail: bool = False
    """Whether others had left messages when something was last written."""
    _profiled: tuple[str, ModelProfile] | None = None
    _counted: tuple[int, int] | None = None
    """Tokens that the provider counted, and the rows they cover."""
    _head_size: int = 0
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from looking at the view to the entry that was decided on it."""

    @property
    def profile(self) -> ModelProfile:
        """The facts about its model."""
        if self._profiled is None or self._profiled[0] != self.model:
            self._profiled = self.model, self.catalog.profile(self.model)
        return self._profiled[1]

    @property
    def occupied(self) -> int:
        """Tokens of the window in use: as counted by the provider, and estimated since."""
        if self._counted is None:
            return self.head_tokens + self.view.tokens
        counted, rows = self._counted
        return counted + sum(row.tokens for row in self.view.rows[rows:])

    @property
    def head_tokens(self) -> int:
        """Tokens of everything but items, as the newest request had them."""
        return approx_tokens(self._head_size)

    @property
    def origin(self) -> Origin:
        """Where the answers to its requests come from."""
        head = self.view.head or self._head("")
        return Origin(head.provider, head.api, head.model, head.account, "treadle")

    async def observe(self) -> PromptContext:
        """What fragments would see now."""
        return await asyncio.to_thread(self.look)

    def look(self) -> PromptContext:
        """What fragments would see now. Blocks on files."""
        profile = self.profile
        settings = msgspec.structs.replace(
            self.settings or PromptContext(cwd=""),
            model=profile.slug,
            model_instructions=base_instructions(profile, self.home),
        )
        return observe_machine(self.cwd, settings=settings, home=self.home, rules=self.docs)

    async def rollback(self, turns: int = 1) -> None:
        """Hide the last `turns` turns. Raises `IllegalCut` when there are fewer."""
        from ..context.cuts import turn_start

        async with self._writing:
            cut = await turn_start(self.store, self.id, turns)
            await self._hide(Rollback(cut, turns))

    async def revert(self, seq: int) -> int:
        """Hide everything after entry `seq`, or after the step before it when it lies inside one.

        Returns the last entry that stays.
        """
        from ..context.cuts import step_boundary

        async with self._writing:
            kept = await step_boundary(self.store, self.id, self.registry, seq)
            await self._hide(Rollback(kept + 1))
        return kept

    async def _hide(self, rollback: Rollback) -> None:
        outbox = self._hiding(rollback.cut, "rollback")
        await self._write(msgspec.structs.replace(self._says(rollback), outbox=outbox))

    def _hiding(self, first: int, reason: Literal["reset", "rollback"]) -> tuple[OutboxDraft, ...]:
        told = (each.hidden(first, self.view.upto, reason) for each in self.followers)
        return tuple(row for rows in told for row in rows)

    def plan_base(
        self,
        keep_from: int,
        *,
        before: Sequence[RecipePart] = (),
        after: Sequence[RecipePart] = (),
    ) -> Recipe:
        """A recipe that keeps the rows from `keep_from` on, in the usual layout."""
        from ..context.task import task_snapshot

        return rebase(
            self.view,
            self.registry,
            keep_from,
            before=before,
            after=after,
            states={"task_state": task_snapshot(self.view, keep_from)},
        )

    async def rebase(
        self,
        keep_from: int,
        *,
        reason: Reason = Reason.COMPACTION,
        before: Sequence[RecipePart] = (),
        after: Sequence[RecipePart] = (),
        by: str = "",
    ) -> None:
        """Start a new epoch that keeps the rows from `keep_from` on."""
        async with self._writing:
            recipe = self.plan_base(keep_from, before=before, after=after)
            await self._begin_epoch(recipe, reason, by)

    async def publish(
        self,
        recipe: Recipe,
        *,
        epoch: int,
        upto: int | None = None,
        reason: Reason = Reason.PUBLISH,
        by: str = "",
        projection: Projected | None = None,
    ) -> None:
        """Make `recipe` the new base. Raises `StaleEpoch` when it was planned for another.

        `upto` is the view's newest entry when it was planned: what came since is kept.
        """
        async with self._writing:
            if epoch != self.view.epoch:
                raise StaleEpoch(
                    f"the recipe was planned for epoch {epoch}, thread {self.id!r} is at "
                    f"{self.view.epoch}; plan it again"
                )
            if upto is not None:
                since = [row for row in self.view.rows if row.seq is not None and row.seq > upto]
                recipe = Recipe((*recipe.parts, *ranges(since, self.view.gaps)))
            await self._begin_epoch(recipe, reason, by, projection)

    async def _begin_epoch(
        self, recipe: Recipe, reason: Reason, by: str, projection: Projected | None = None
    ) -> None:
        head = self.view.head or await self._wanted_head()
        epoch = Epoch(
            reason=reason,
            head=await self.store.put_blob(self.id, json_bytes(head)),
            recipe=recipe,
            settings=self.view.settings,
            by=by,
            projection=projection,
        )
        outbox = self._hiding(1, "reset") if reason is Reason.RESET else ()
        await self._write(msgspec.structs.replace(self._says(epoch), outbox=outbox))

    async def begin_head(self) -> None:
        """Give a log that others began a head of ours; only under one can its view be folded."""
        if self.view.head is None and self.view.rows:
            head = json_bytes(await self._wanted_head())
            digest = await self.store.put_blob(self.id, head)
            await self._control(Epoch(reason=Reason.IMPORT, head=digest))

    async def renew_head(self) -> None:
        """Begin another epoch where the next request will not start like the last one."""
        async with self._writing:
            drafts = [
                msgspec.structs.replace(draft, turn=self.turn, step=self.step)
                for draft in await self._new_head()
            ]
            if drafts:
                await self._write(Change(entries=tuple(drafts)))

    async def add(self, *drafts: Draft) -> None:
        """Append drafts that others made."""
        if drafts:
            await self._commit(Change(entries=drafts))

    async def queue(self, *rows: OutboxDraft, settle: Sequence[int] = ()) -> None:
        """Put rows into the outbox, or give them a new state; those to `settle` leave it."""
        await self._commit(Change(outbox=rows, settle=tuple(settle)))

    async def configure(self, **changes: object) -> None:
        """Change thread settings, such as ``goal``; None removes one."""
        await self._control(
            Settings({name: Raw(json_bytes(value)) for name, value in changes.items()})
        )

    async def note(self, text: str, *, level: Literal["info", "warning", "error"] = "info") -> None:
        """Record something that the user was told and the model should not see."""
        await self._control(Notice(level, text))

    async def _wanted_head(self) -> Head:
        """The head that the present settings ask for; instructions never change in a thread."""
        if self.view.head is not None:
            return self._head(self.view.head.instructions)
        return self._head(await asyncio.to_thread(base_instructions, self.profile, self.home))

    def _head(self, instructions: str) -> Head:
        head = build_head(
            self.profile,
            instructions=instructions,
            tools=self.tools,
            choices=self.choices,
            api=self.api,
        )
        return head if self.planned is None else self.planned(head)

    async def _new_head(self) -> tuple[Draft, ...]:
        """An epoch entry when the next request will not start like the last one."""
        head = await self._wanted_head()
        reason = change_of_head(self.view.head, head)
        if reason is None:
            return ()
        digest = await self.store.put_blob(self.id, json_bytes(head))
        return (control_draft(Epoch(reason=reason, head=digest), turn=THIS_TURN),)

    def _draft(self, item: Item, origin: Origin | None = None) -> Draft:
        limit = self.profile.truncation
        return item_draft(item, turn=self.turn, step=self.step, origin=origin, limit=limit)

    async def _control(self, control: Control) -> Committed:
        return await self._commit(self._says(control))

    def _says(self, control: Control) -> Change:
        return Change(entries=(control_draft(control, turn=self.turn, step=self.step),))

    async def _commit(self, change: Change) -> Committed:
        async with self._writing:
            return await self._write(change)

    async def _write(self, change: Change) -> Committed:
        """Write, and see what was written: half of it would leave the view behind the log."""
        return await finish_uncancelled(self._written(change))

    async def _written(self, change: Change) -> Committed:
        committed = await self.store.commit(self.lease, change)
        self.has_mail = committed.mail
        view = await advance(self.view, self.store, committed.entries, self.registry)
        if view is not self.view:
            self.view, self._counted = view, None
        return committed
