"""Epochs in the log: everything that moves the base of a thread's view.

Owns heads, recipes and rollbacks. Invariant: whatever ends a prefix is an entry with a typed
reason, written under the same lock as the view that it was decided on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from ..context.compose import change_of_head
from ..context.cuts import step_boundary, turn_start
from ..context.found_tools import found_tools_snapshot
from ..context.head import is_same_model
from ..context.recipe import ranges, rebase
from ..context.skill_texts import MOST_TOLD_AGAIN
from ..context.task import task_snapshot
from ..core.entries import (
    Draft,
    Epoch,
    ProjectionMark,
    Reason,
    Recipe,
    RecipePart,
    Rollback,
    control_draft,
)
from ..core.errors import StaleEpoch
from ..core.redact import blank_value
from ..core.wire import json_bytes
from ..prompt.mcp_servers import FoundToolsState
from ..prompt.window_use import WindowUseState
from ..store.contract import THIS_TURN, Change, OutboxDraft

if TYPE_CHECKING:
    from .thread_log import ThreadLog

__all__ = ["Epochs"]

_SMALL_WINDOW = 32_000
_SHARE_OF_SKILLS = 8
"""A new base may tell skills again in this part of the window."""


class Epochs:
    """What one thread's view is based on."""

    def __init__(self, log: ThreadLog) -> None:
        self._log = log

    async def rollback(self, turns: int = 1) -> None:
        """Hide the last `turns` turns. Raises `IllegalCut` when there are fewer."""
        log = self._log
        async with log.writing:
            cut = await turn_start(log.store, log.id, turns)
            await self._hide(Rollback(cut, turns))

    async def revert(self, seq: int) -> int:
        """Hide everything after entry `seq`; if it is inside a step, also that step.

        Returns the last entry that stays.
        """
        log = self._log
        async with log.writing:
            kept = await step_boundary(log.store, log.id, log.registry, seq)
            await self._hide(Rollback(kept + 1))
        return kept

    async def _hide(self, rollback: Rollback) -> None:
        outbox = self._hide_rows(rollback.cut, "rollback")
        change = msgspec.structs.replace(self._log.control_change(rollback), outbox=outbox)
        await self._log.write(change)

    def _hide_rows(
        self, first: int, reason: Literal["reset", "rollback"]
    ) -> tuple[OutboxDraft, ...]:
        """Return what followers queue when entries are hidden."""
        log = self._log
        rows = (each.rows_on_hiding(first, log.view.upto, reason) for each in log.followers)
        return tuple(row for each in rows for row in each)

    def plan_base(
        self,
        keep_from: int,
        *,
        before: Sequence[RecipePart] = (),
        after: Sequence[RecipePart] = (),
    ) -> Recipe:
        """Return a recipe that keeps the rows from `keep_from` on, in the usual layout."""
        view = self._log.view
        return rebase(
            view,
            self._log.registry,
            keep_from,
            before=before,
            after=after,
            states={
                "task_state": task_snapshot(view, keep_from),
                FoundToolsState.id: found_tools_snapshot(view, keep_from),
                WindowUseState.id: None,  # there is room again
            },
            skill_tokens=self._skill_tokens,
        )

    @property
    def _skill_tokens(self) -> int:
        """Tokens that texts of skills may take in a new base."""
        window = self._log.setup.profile.effective_window
        return min(MOST_TOLD_AGAIN, (window or _SMALL_WINDOW) // _SHARE_OF_SKILLS)

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
        async with self._log.writing:
            recipe = self.plan_base(keep_from, before=before, after=after)
            await self._begin(recipe, reason, by)

    async def publish(
        self,
        recipe: Recipe,
        *,
        epoch: int,
        upto: int | None = None,
        reason: Reason = Reason.PUBLISH,
        by: str = "",
        projection: ProjectionMark | None = None,
    ) -> None:
        """Make `recipe` the new base. Raises `StaleEpoch` when it was planned for another.

        `upto` is the view's newest entry when it was planned: what came since is kept.
        """
        log = self._log
        async with log.writing:
            if epoch != log.view.epoch:
                raise StaleEpoch(
                    f"the recipe was planned for epoch {epoch}, thread {log.id!r} is at "
                    f"{log.view.epoch}; plan it again"
                )
            if upto is not None:
                since = [row for row in log.view.rows if row.seq is not None and row.seq > upto]
                recipe = Recipe((*recipe.parts, *ranges(since, log.view.gaps)))
            await self._begin(recipe, reason, by, projection)

    async def _begin(
        self, recipe: Recipe, reason: Reason, by: str, projection: ProjectionMark | None = None
    ) -> None:
        log = self._log
        head = log.view.head or await log.setup.head(None)
        epoch = Epoch(
            reason=reason,
            head=await log.store.put_blob(log.id, json_bytes(head)),
            recipe=recipe,
            settings=log.view.settings,
            by=by,
            projection=projection,
        )
        outbox = self._hide_rows(1, "reset") if reason is Reason.RESET else ()
        await log.write(msgspec.structs.replace(log.control_change(epoch), outbox=outbox))

    async def begin_head(self) -> None:
        """Give a log that others began a head of ours; only under one can its view be compacted."""
        log = self._log
        if log.view.head is None and log.view.rows:
            head = json_bytes(await log.setup.head(None))
            digest = await log.store.put_blob(log.id, head)
            await log.commit(log.control_change(Epoch(reason=Reason.IMPORT, head=digest)))

    async def follow_model(self) -> None:
        """Begin another epoch where someone else answers than the view's head names.

        A request outside the conversation is then written for whoever is connected. Other
        changes wait for the next turn: until then the old prefix is the one that is cached.
        """
        head = self._log.view.head
        if head is not None and not is_same_model(head, await self._log.setup.head(head)):
            await self.renew_head()

    async def renew_head(self) -> None:
        """Begin another epoch where the next request will not start like the last one."""
        log = self._log
        async with log.writing:
            drafts = tuple(
                msgspec.structs.replace(draft, turn=log.turn, step=log.step)
                for draft in await self.head_drafts()
            )
            if drafts:
                await log.write(Change(entries=drafts))

    async def refuse_images(self, digests: Sequence[str], note: str) -> None:
        """Leave out images that a provider refused, from the next request on."""
        log = self._log
        async with log.writing:
            assert log.view.head is not None, "a request with images has a head"
            known = log.view.head.refused_images
            head = msgspec.structs.replace(log.view.head, refused_images=(*known, *digests))
            digest = await log.store.put_blob(log.id, json_bytes(head))
            epoch = Epoch(reason=Reason.IMAGES, head=digest, note=blank_value(note))
            await log.write(log.control_change(epoch))

    async def head_drafts(self) -> tuple[Draft, ...]:
        """Return an epoch entry when the next request will not start like the last one."""
        log = self._log
        head = await log.setup.head(log.view.head)
        reason = change_of_head(log.view.head, head)
        if reason is None:
            return ()
        digest = await log.store.put_blob(log.id, json_bytes(head))
        note = ""
        if reason is Reason.TOOLS:
            from ..context.tool_change import describe_tool_change  # few threads change tools

            note = describe_tool_change(log.view.head, head)
        return (control_draft(Epoch(reason=reason, head=digest, note=note), turn=THIS_TURN),)
