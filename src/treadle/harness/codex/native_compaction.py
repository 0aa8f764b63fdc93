"""Native compaction: Codex compacts its own thread.

Owns the effect on the view. If no engine handles compaction, the view takes over the
result: the same messages, the same summary, in which nothing reads as a marker. If an engine
does, the view stays; then, and where something had to be quoted, another Codex thread
replaces this one. Invariant: a native compaction is always reported as Codex's own, never as
one of an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from ...context.recipe import ranges
from ...context.row import Row
from ...core.entries import Flags, Reason, RecipePart
from ...core.errors import TreadleError
from ...core.items import Item, Message, decode_item, text_of
from ...engines.linear import inline_part
from ...hooks.payloads import AfterCompaction, BeforeCompaction
from ...log.thread_log import ThreadLog
from ..contract import NativeCompaction, TurnRun
from ..events import CompactionFinished, CompactionStarted
from .binding import fingerprint
from .codex_threads import CodexThread
from .mirror import Mirror, is_codex_item, quote_message
from .native_projection import rows_to_send, thread_instructions
from .rollout_reader import newest_compaction

__all__ = ["BACKEND", "COMPACTED", "NativeCompactions"]

BACKEND = "codex-app-server"
COMPACTED = "native-compaction"
"""The reason to replace a thread that shows something else than the view after a compaction."""


@dataclass(slots=True)
class NativeCompactions:
    """The native compactions of one turn."""

    run: TurnRun
    manual: bool = False
    """Whether the user started it: then the hooks have already been asked."""
    running: str | None = None
    """The id of the compaction in progress."""
    result: NativeCompaction | None = None
    """The result of the newest one that has ended."""
    _tokens_before: int = 0
    _seen: set[str] = field(default_factory=set)

    async def start(self, name: str) -> None:
        """Report that Codex starts to compact."""
        if name in self._seen:
            return
        self._seen.add(name)
        log = self.run.log
        self.running, self._tokens_before = name, log.view.tokens
        if not self.manual:
            await self.run.hooks.notify(
                BeforeCompaction(thread=log.id, tokens=self._tokens_before, trigger="auto")
            )
        self.run.emit(CompactionStarted(by=BACKEND, tokens=self._tokens_before))

    async def finish(self, name: str, thread: CodexThread) -> None:
        """Update the view after a compaction, or mark the thread to be replaced."""
        if self.running != name:
            return
        self.running = None
        # The view takes over nothing from a thread that does not show the view.
        updates = not (thread.replace_reason or self.run.engine.handles_compaction)
        if not updates or not await self._update_view(thread):
            thread.replace_reason = thread.replace_reason or COMPACTED
        log = self.run.log
        before, after = self._tokens_before, log.view.tokens
        self.result = NativeCompaction(
            backend=BACKEND, status="completed", tokens_before=before, tokens_after=after
        )
        self._emit_finished(after)
        await self.run.hooks.notify(
            AfterCompaction(thread=log.id, tokens_before=before, tokens_after=after)
        )

    def fail(self, reason: str = "") -> None:
        """Report that the compaction in progress, if there is one, has failed."""
        if self.running is None:
            return
        self.running = None
        why = reason or "interrupted"
        self.result = NativeCompaction(backend=BACKEND, status="failed", reason=why)
        self._emit_finished(self._tokens_before, why)

    def _emit_finished(self, after: int, error: str | None = None) -> None:
        owns = self.run.engine.owns_compaction
        self.run.emit(
            CompactionFinished(
                by=BACKEND,
                tokens_before=self._tokens_before,
                tokens_after=after,
                error=error,
                details={"backend": BACKEND, "owns_compaction": owns},
            )
        )

    async def _update_view(self, thread: CodexThread) -> bool:
        """Make the view show what Codex's thread shows; return whether both show the same."""
        log = self.run.log
        history = await asyncio.to_thread(newest_compaction, thread.binding.path, thread.offset)
        if history is None:
            return False
        rows = log.view.rows
        # An input that Codex has not added to its thread yet comes after the summary.
        live = thread.input_position(log) if thread.mirror.awaits_input else len(rows)
        try:
            parts = list(_recipe_parts(history, thread.mirror))
            # The context that an engine added for the input was compacted, the input was not.
            after = [*parts, *ranges(rows[live:], log.view.gaps)]
            recipe = log.epochs.plan_base(len(rows), after=after)
            await log.epochs.publish(
                recipe, epoch=log.view.epoch, reason=Reason.COMPACTION, by=BACKEND
            )
            thread.mark_known(log.view.rows)
            await thread.save_binding(log)
        except TreadleError:
            return False
        if any(_is_forged(decode_item(raw), thread.mirror) for raw in history):
            return False
        return _shows_view(thread, log, len(parts) + len(rows) - live)


def _shows_view(thread: CodexThread, log: ThreadLog, kept: int) -> bool:
    """Say whether the thread still has all of the view: Codex drops developer messages."""
    instructions = fingerprint(thread_instructions(log.view, log.registry))
    rows = rows_to_send(log.view.rows, log.registry, fresh=True)
    return instructions == thread.binding.instructions and len(rows) == kept


def _recipe_parts(history: Sequence[Raw], mirror: Mirror) -> Iterator[RecipePart]:
    """Return what a compaction kept: rows of the view where they match, else the items inline."""
    log = mirror.log
    rows = [row for row in log.view.rows if row.shape.role == "user"]
    for raw in history:
        item = decode_item(raw)
        if not is_codex_item(item):
            continue
        if not isinstance(item, Message):
            yield inline_part(item, mirror.sealing_origin)
        elif not mirror.is_codex_context(item):
            row = _take_matching_row(item, rows)
            # What Codex kept of the conversation stands last, behind what the user said.
            flags = Flags.SUMMARY if raw is history[-1] else Flags.NONE
            quoted = inline_part(_plain_message(quote_message(item, log.registry)), flags=flags)
            yield from ranges([row], log.view.gaps) if row else [quoted]


def _is_forged(item: Item, mirror: Mirror) -> bool:
    """Say whether the view shows an item otherwise than Codex does, or not at all."""
    if not isinstance(item, Message) or mirror.is_codex_context(item):
        return not is_codex_item(item)
    return quote_message(item, mirror.log.registry).content != item.content


def _take_matching_row(message: Message, rows: list[Row]) -> Row | None:
    """Return the row with the text of `message`, and remove it and those before it from `rows`."""
    text = text_of(message.content)
    for at, row in enumerate(rows):
        item = row.item
        if isinstance(item, Message) and text_of(item.content) == text:
            del rows[: at + 1]
            return row
    return None


def _plain_message(message: Message) -> Message:
    return msgspec.structs.replace(message, id=None, status=None, metadata=msgspec.UNSET)
