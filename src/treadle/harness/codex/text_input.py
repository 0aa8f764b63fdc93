"""The input of a Codex turn, and the view as text before it.

Owns what a turn is started with when Codex gets the rest of the view as text. Invariant: the
request itself is never changed; the text of hooks comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...context.row import Row
from ...core.items import InputImage, Message, Part, text_of
from ...log.thread_log import ThreadLog
from .native_projection import is_input, rows_to_send
from .protocol.client_requests import ImageInput, TextInput, UserInput
from .text_projection import fit_text, project_text

__all__ = ["TypedInput", "preview_text", "text_input"]


@dataclass(frozen=True, slots=True)
class TypedInput:
    """The input of a turn, after the rest of the view has been sent."""

    parts: tuple[UserInput, ...]
    sent_rows: int
    """How many rows were injected, or quoted as text."""


def preview_text(rows: Sequence[Row], request: str, log: ThreadLog) -> str:
    """Return the text that a thread in text mode would get for `rows` and a request."""
    sent = rows_to_send(rows, log.registry, fresh=True)
    budget = log.setup.profile.effective_window
    return fit_text(project_text(sent, request, budget=budget, mode="preserve"))


def text_input(
    rows: Sequence[Row], log: ThreadLog, *, fresh: bool, budget: int | None
) -> TypedInput:
    """Return the input among `rows` after the quoted others; the text of hooks comes last."""
    inputs = [at for at, row in enumerate(rows) if is_input(row, log.turn)]
    at = inputs[-1] if inputs else len(rows)
    after = rows[at + 1 :]
    appended = [row for row in after if row.contextual]
    quoted = [*rows[:at], *(row for row in after if not row.contextual)]
    content = _content(rows[at]) if inputs else ()
    projection = project_text(
        rows_to_send(quoted, log.registry, fresh=fresh),
        text_of(content),
        budget=budget,
        # A new thread knows nothing else of the tools.
        mode="preserve" if fresh else "elide",
    )
    text = fit_text(projection, appended="\n\n".join(text_of(_content(row)) for row in appended))
    images = [part for part in (*projection.images, *content) if isinstance(part, InputImage)]
    image_parts = tuple(ImageInput(url=part.image_url, detail=part.detail) for part in images)
    return TypedInput((TextInput(text=text), *image_parts), projection.carried)


def _content(row: Row) -> tuple[Part, ...]:
    item = row.item
    return item.content if isinstance(item, Message) else ()
