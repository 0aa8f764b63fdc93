"""Image notes: the sentences that stand where an image cannot be.

Owns their words. Invariant: a model that misses an image is told that there was one, and why
it is not shown.
"""

from __future__ import annotations

from ..core.items import InputText

__all__ = ["oversized_image", "refused_image", "unreadable_image"]


def unreadable_image(name: str, reason: str) -> InputText:
    """Return what stands for an image that nobody could read."""
    return InputText(text=f"{name} could not be read: {reason}")


def oversized_image(reason: str) -> InputText:
    """Return what stands for an image that the provider of this request does not take."""
    return InputText(text=f"An image stands here that cannot be shown: {reason}.")


def refused_image() -> InputText:
    """Return what stands for an image that a provider refused."""
    return InputText(
        text="An image stood here. The provider could not read it, so it is left out; "
        "ask for another copy if it matters."
    )
