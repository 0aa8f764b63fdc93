"""Borrowed powers: what an engine may use for as long as a call lasts, and no longer.

Owns the end of `complete`. Invariant: an engine that keeps it cannot ask the model
anything once the call that it was given to is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec
from msgspec import Struct

from ..core.errors import TreadleError
from ..core.items import Item
from .values import Complete, RuntimeContext

__all__ = ["lent"]

P = TypeVar("P", bound=Struct | None)


@contextmanager
def lent(given: P) -> Iterator[P]:
    """`given`, with model access that ends here."""
    context: RuntimeContext | None = getattr(given, "context", None)
    if given is None or context is None or context.complete is None:
        yield given
        return
    borrowed = _Borrowed(context.complete)
    context = msgspec.structs.replace(context, complete=borrowed)
    try:
        yield msgspec.structs.replace(given, context=context)
    finally:
        borrowed.over = True


class _Borrowed(Struct):
    """Model access for one call of an engine."""

    complete: Complete
    over: bool = False

    @property
    def purpose(self) -> str:
        """What it may be used for."""
        return self.complete.purpose

    async def __call__(
        self, prompt: str, *, items: Sequence[Item] = (), instructions: str = ""
    ) -> str:
        """The model's answer. Raises `TreadleError` when the call is over."""
        if self.over:
            raise TreadleError(
                f"the call that was given {self.purpose!r} is over; use what the next one is given"
            )
        return await self.complete(prompt, items=items, instructions=instructions)
