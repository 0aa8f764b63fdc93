"""Steering: what others say while Codex works.

Owns handing mail to a turn under way, and when: while a call runs, for at any other time
Codex would break off the answer in flight. Invariant: a message leaves the inbox when
Codex has taken it into its thread, and stands in the log where it stands there; what
Codex has not taken stays in the inbox.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec import Raw

from ...context.compose import posted
from ...core.ids import new_id
from ...core.items import Message, decode_item, encode_item
from ...log.thread_log import ThreadLog
from ...prompt.input import user_message
from ...store.contract import InboxDraft, InboxMessage
from ..contract import TurnRun
from .attachment import CodexThread
from .errors import CodexError
from .mirror import Echo
from .protocol.requests import TurnSteer, UserInput
from .shown import typed_message

__all__ = ["Steering", "mail_input"]

_LOOK = 0.25
"""Seconds between two looks at the inbox."""


@dataclass(slots=True)
class Steering:
    """Hands mail to one turn of Codex's."""

    run: TurnRun
    attachment: CodexThread
    turn: str = ""
    """The turn to steer; empty before it has begun and once it takes nothing more."""
    _handed: set[int] = field(default_factory=set)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def watch(self) -> None:
        """Look for mail until cancelled."""
        while True:
            await asyncio.sleep(_LOOK)
            await self.send_waiting()

    async def post(self, text: str) -> None:
        """Say something for the user; durable before Codex hears of it."""
        log = self.run.log
        body = Raw(encode_item(user_message(text)))
        await log.store.post(log.id, InboxDraft(key=new_id("post"), kind="input", body=body))
        await self.send_waiting()

    async def send_waiting(self) -> None:
        """Say what waits, in its order, if a call runs."""
        log = self.run.log
        if not self.turn or not log.view.open_calls:
            return
        async with self._one:
            for mail in await log.inbox():
                if mail.number not in self._handed and not await self._said(mail):
                    return

    async def _said(self, mail: InboxMessage) -> bool:
        """Whether Codex took `mail`; if not, it is said when this turn of Codex's is over."""
        mirror = self.attachment.mirror
        parts = mail_input(mail, self.run.log)
        if parts is None or not self.turn:
            self.turn = ""
            return False
        self._handed.add(mail.number)
        mirror.expected_echoes.append(echo := Echo.of(parts, mail.number))
        try:
            await self.attachment.connection.call(
                TurnSteer(
                    thread_id=self.attachment.binding.codex,
                    expected_turn_id=self.turn,
                    input=parts,
                )
            )
        except CodexError:
            self.turn = ""
            with suppress(ValueError):
                mirror.expected_echoes.remove(echo)
            return False
        return True


def mail_input(mail: InboxMessage, log: ThreadLog) -> tuple[UserInput, ...] | None:
    """`mail` as it is said to Codex, its sender included; None where it cannot be typed."""
    item = decode_item(posted(mail, log.registry, log.turn, log.step).body)
    return typed_message(item) if isinstance(item, Message) else None
