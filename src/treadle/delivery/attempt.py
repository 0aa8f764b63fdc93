"""One attempt at one delivery, and what it leaves behind.

Invariant: a channel that cannot tell repeats apart is handed a row only after the outbox
says so. A row found in that state is in doubt: it is put aside and told, never shown twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..core.aio import finish_uncancelled
from ..core.errors import NotFound, TreadleError
from ..core.redact import redact
from ..store.contract import Change, Lease, OutboxDraft, OutboxRow, Store
from .channel import Channel, Receipt
from .outbox import Owed, delivery_of, moved

__all__ = ["Attempt", "Leased", "Writer"]

_IN_DOUBT = "it may have been shown; look at the thread, and try it again if it was not"


class Writer(Protocol):
    """Changes the outbox of one thread; a log is one."""

    async def queue(self, *rows: OutboxDraft, settle: Sequence[int] = ()) -> None:
        """Put rows into the outbox, or give them a new state; those to `settle` leave it."""
        ...


class Leased(Struct):
    """The writer of a thread that is not open here."""

    store: Store
    lease: Lease

    async def queue(self, *rows: OutboxDraft, settle: Sequence[int] = ()) -> None:
        """Change the outbox."""
        await self.store.commit(self.lease, Change(outbox=rows, settle=tuple(settle)))


class Attempt(Struct):
    """Hands one row to its channel and notes what became of it."""

    channel: Channel
    store: Store
    writer: Writer
    seconds: float

    async def make(self, row: OutboxRow, owed: Owed) -> Receipt:
        """The receipt, once the outbox knows of it."""
        if not self.channel.deduplicates:
            return await finish_uncancelled(self._once(row, owed))
        receipt = await self._handed(row, owed)
        await finish_uncancelled(self._note(row, receipt))
        return receipt

    async def _once(self, row: OutboxRow, owed: Owed) -> Receipt:
        if row.state == "ready":
            receipt = Receipt("refused", f"the process ended while it was delivered: {_IN_DOUBT}")
        else:
            await self.writer.queue(moved(row, "ready"))
            receipt = await self._handed(row, owed)
        await self._note(row, receipt)
        return receipt

    async def _handed(self, row: OutboxRow, owed: Owed) -> Receipt:
        try:
            async with asyncio.timeout(self.seconds):
                receipt = await self.channel.deliver(delivery_of(row, owed))
                return replace(receipt, detail=redact(receipt.detail))
        except TimeoutError:
            reason = f"the channel gave no receipt within {self.seconds:g} s"
        except TreadleError as error:
            reason = redact(str(error))
        except Exception as error:  # noqa: BLE001 - a channel is anybody's code
            # Its text may hold what only the channel should know.
            reason = f"the channel raised {type(error).__name__}"
        if self.channel.deduplicates:
            return Receipt("failed", reason)
        return Receipt("refused", f"{reason}: {_IN_DOUBT}")

    async def _note(self, row: OutboxRow, receipt: Receipt) -> None:
        if receipt.state == "delivered":
            await self.writer.queue(settle=(row.number,))
        elif receipt.state == "refused":
            await self._count(row, receipt)
            await self.writer.queue(moved(row, "blocked"))
        elif receipt.state == "failed":
            await self._count(row, receipt)
            if not self.channel.deduplicates:
                await self.writer.queue(moved(row, "accepted"))

    async def _count(self, row: OutboxRow, receipt: Receipt) -> None:
        with suppress(NotFound):
            await self.store.retry(row.number, receipt.detail or "no reason was given")
