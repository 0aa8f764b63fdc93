"""What a tool has sent and made, on its way to the delivery of the turn.

Owns the translation between the two. Invariant: each message and each file is noted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..delivery.reply_sender import ReplySender
    from ..tools.contract import ToolResult

__all__ = ["note_evidence"]


async def note_evidence(result: ToolResult, delivery: ReplySender) -> None:
    """Let the delivery of the present turn know what a call has sent and made."""
    from ..delivery.decision import SentByTool  # most threads deliver nothing

    for each in result.sent:
        sent = SentByTool(text=each.text, media=each.media, final=each.final)
        delivery.add_sent(each.target.channel, each.target.to, sent)
    for made in result.media:
        delivery.add_media(made.url, as_voice=made.as_voice)
    # Before the result is in the log: whoever goes on with the turn must know of it.
    await delivery.store_evidence()
