"""Native compaction: when Codex folds its own thread.

Owns what becomes of the view then. Where no engine has a say, the view follows: the same
messages, the same summary. Where one has, the view stays and the thread is replaced.
Invariant: it is always told as Codex's own, and never taken for an engine's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from ...context.recipe import ranges
from ...context.row import Row
from ...core.entries import Reason, RecipePart
from ...core.errors import TreadleError
from ...core.items import Message, decode_item, text_of
from ...engines.linear import inline
from ...hooks.payloads import AfterCompaction, BeforeCompaction
from ...log.thread_log import ThreadLog
from ..contract import NativeCompaction, TurnRun
from ..events import CompactionFinished, CompactionStarted
from .attachment import CodexThread
from .binding import fingerprint
from .mirror import Mirror
from .rollout import newest_compaction
from .shown import rows_to_send, thread_instructions

__all__ = ["BACKEND", "COMPACTED", "NativeCompactions"]

BACKEND = "codex-app-server"
COMPACTED = "native-compaction"
"""Why a thread is replaced that shows something else than the view since it was folded."""


@dataclass(slots=True)
class NativeCompactions:
    """The native compactions of one turn."""

    run: TurnRun
    manual: bool = False
    """Hooks were asked before; where Codex decides itself they are only told."""
    open: str | None = None
    """The compaction under way."""
    done: NativeCompaction | None = None
    """The newest one that is over."""
    _before: int = 0
    _seen: set[str] = field(default_factory=set)

    async def start(self, name: str) -> None:
        """Codex starts to fold."""
        if name in self._seen:
            return
        self._seen.add(name)
        log = self.run.log
        self.open, self._before = name, log.view.tokens
        if not self.manual:
            await self.run.hooks.tell(
                BeforeCompaction(thread=log.id, tokens=self._before, trigger="auto")
            )
        self.run.emit(CompactionStarted(by=BACKEND, tokens=self._before))

    async def finish(self, name: str, attachment: CodexThread) -> None:
        """Codex has folded; the view follows, or the thread is given up."""
        if self.open != name:
            return
        self.open = None
        # A thread that does not show the view has nothing that the view could follow.
        follows = not (attachment.replace_reason or self.run.engine.handles_compaction)
        if not follows or not await self._followed(attachment):
            attachment.replace_reason = attachment.replace_reason or COMPACTED
        log = self.run.log
        before, after = self._before, log.view.tokens
        self.done = NativeCompaction(
            backend=BACKEND, status="completed", tokens_before=before, tokens_after=after
        )
        self._told(after)
        await self.run.hooks.tell(
            AfterCompaction(thread=log.id, tokens_before=before, tokens_after=after)
        )

    def fail(self, reason: str = "") -> None:
        """It came to nothing."""
        if self.open is None:
            return
        self.open = None
        why = reason or "interrupted"
        self.done = NativeCompaction(backend=BACKEND, status="failed", reason=why)
        self._told(self._before, why)

    def _told(self, after: int, error: str | None = None) -> None:
        owns = self.run.engine.owns_compaction
        self.run.emit(
            CompactionFinished(
                by=BACKEND,
                tokens_before=self._before,
                tokens_after=after,
                error=error,
                details={"backend": BACKEND, "owns_compaction": owns},
            )
        )

    async def _followed(self, attachment: CodexThread) -> bool:
        """Show what Codex's thread shows now; whether it then shows the view, too."""
        log, binding = self.run.log, attachment.binding
        history = await asyncio.to_thread(newest_compaction, binding.path, attachment.offset)
        if history is None:
            return False
        rows = log.view.rows
        # An input that was typed but not told back yet comes behind the summary.
        live = attachment.input_position(log) if attachment.mirror.awaits_input else len(rows)
        try:
            parts = list(_parts(history, attachment.mirror))
            # What an engine brought for the input was folded, the input itself was not.
            after = [*parts, *ranges(rows[live:], log.view.gaps)]
            recipe = log.epochs.plan_base(len(rows), after=after)
            await log.epochs.publish(
                recipe, epoch=log.view.epoch, reason=Reason.COMPACTION, by=BACKEND
            )
            attachment.mark_known(log.view.rows)
            await attachment.save_binding(log)
        except TreadleError:
            return False
        return _shows(attachment, log, len(parts) + len(rows) - live)


def _shows(attachment: CodexThread, log: ThreadLog, kept: int) -> bool:
    """Whether the view tells nothing that Codex, which forgets developers, has forgotten."""
    told = fingerprint(thread_instructions(log.view, log.registry))
    rows = rows_to_send(log.view.rows, log.registry, fresh=True)
    return told == attachment.binding.instructions and len(rows) == kept


def _parts(history: Sequence[Raw], mirror: Mirror) -> Iterator[RecipePart]:
    """What a compaction kept: our own rows where they are ours, the rest as it is."""
    log = mirror.log
    rows = [row for row in log.view.rows if row.shape.role == "user"]
    for raw in history:
        item = decode_item(raw)
        if not isinstance(item, Message):
            yield inline(item, mirror.origin)
        elif not mirror.is_codex_context(item):
            row = _said(item, rows)
            yield from ranges([row], log.view.gaps) if row else [inline(_bare(item))]


def _said(message: Message, rows: list[Row]) -> Row | None:
    """The row of ours that `message` repeats; each is found once, in order."""
    text = text_of(message.content)
    for at, row in enumerate(rows):
        item = row.item
        if isinstance(item, Message) and text_of(item.content) == text:
            del rows[: at + 1]
            return row
    return None


def _bare(message: Message) -> Message:
    return msgspec.structs.replace(message, id=None, status=None, metadata=msgspec.UNSET)
