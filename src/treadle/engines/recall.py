"""Recall: the one item by which an engine's memory reaches the model.

Owns how recalled text is said, so that no engine builds messages by hand. Invariant:
whatever the text holds, the item carries its own markers once and stays within its cap.
"""

from __future__ import annotations

from ..context.tokens import estimate_item
from ..prompt.recall import Recall
from .values import ContextItem

__all__ = ["recall_item"]


def recall_item(text: str) -> ContextItem:
    """Recalled `text` as an item that stands until the next epoch."""
    message = Recall(text).message()
    return ContextItem.of(message, tokens=estimate_item(message), recall=True)
