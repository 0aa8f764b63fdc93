"""Refused images: a request that a provider turned down because of an image.

Owns how such an answer is recognised and what is done: the images are left out from now on,
by an entry of the log, and the turn goes on without them. Invariant: every round leaves out
at least one image more, so it comes to an end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..context.shown_images import newest_images
from .events import NoticeRaised

if TYPE_CHECKING:
    from .contract import TurnRun

__all__ = ["is_about_image", "leave_out_images"]

_IMAGE = re.compile(r"\bimages?\b|image_url|image_parse", re.IGNORECASE)


def is_about_image(text: str) -> bool:
    """Return whether the text of a refused request names an image as the cause."""
    return _IMAGE.search(text) is not None


async def leave_out_images(run: TurnRun, reason: str) -> bool:
    """Leave out the images that a provider refused; return whether there are any."""
    log = run.log
    head = log.view.head
    refused = newest_images(log.view.rows, head.refused_images if head else ())
    if head is None or not head.images or not refused:
        return False
    await log.epochs.refuse_images(refused, reason)
    what = "an image" if len(refused) == 1 else f"{len(refused)} images"
    text = f"the provider refused {what} ({reason}); the thread goes on without"
    run.emit(NoticeRaised(level="warning", text=text))
    return True
