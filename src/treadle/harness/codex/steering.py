"""Steering: messages that arrive while Codex works.

Owns sending mail to the running turn, and when: only while a call runs, because at any
other time Codex would discard the response in flight. Invariant: a message leaves the
inbox when Codex has added it to its thread, and has the same place in the log; a message
that Codex has not added stays in the inbox.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec import Raw

from ...context.compose import inbox_draft
from ...core.ids import new_id
from ...core.items import Message, decode_item, encode_item
from ...log.thread_log import ThreadLog
from ...prompt.input import user_message
from ...store.contract import InboxDraft, InboxMessage
from ..contract import TurnRun
from .codex_threads import CodexThread
from .errors import CodexError
from .mirror import Echo
from .native_projection import may_call_skill, typed_message
from .protocol.client_requests import SteerTurn, UserInput

__all__ = ["Steering", "mail_input"]

_POLL_SECONDS = 0.25
"""The time between two looks at the inbox."""


@dataclass(slots=True)
class Steering:
    """Sends mail to one Codex turn."""

    run: TurnRun
    thread: CodexThread
    turn: str = ""
    """The Codex turn; empty before it has started and after it has refused a message."""
    _sent: set[int] = field(default_factory=set)
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def watch(self) -> None:
        """Send new mail until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            await self.send_waiting()

    async def post(self, text: str) -> None:
        """Add a text of the user to the inbox, and send it."""
        log = self.run.log
        body = Raw(encode_item(user_message(text)))
        await log.store.post(log.id, InboxDraft(key=new_id("post"), kind="input", body=body))
        await self.send_waiting()

    async def send_waiting(self) -> None:
        """Send the mail in the inbox, in order, if a call runs."""
        log = self.run.log
        if not self.turn or not log.view.open_calls:
            return
        async with self._sending:
            for mail in await log.inbox():
                if mail.number not in self._sent and not await self._send(mail):
                    return

    async def _send(self, mail: InboxMessage) -> bool:
        """Send one message; return whether Codex took it. If not, it waits for the next turn."""
        mirror = self.thread.mirror
        parts = mail_input(mail, self.run.log)
        if parts is None or not self.turn:
            self.turn = ""
            return False
        self._sent.add(mail.number)
        mirror.expected_echoes.append(echo := Echo.of(parts, mail.number))
        try:
            await self.thread.connection.call(
                SteerTurn(thread_id=self.thread.id, expected_turn_id=self.turn, input=parts)
            )
        except CodexError:
            self.turn = ""
            with suppress(ValueError):
                mirror.expected_echoes.remove(echo)
            return False
        return True


def mail_input(mail: InboxMessage, log: ThreadLog) -> tuple[UserInput, ...] | None:
    """Return `mail` as user input, with its sender; None if it cannot be typed."""
    item = decode_item(inbox_draft(mail, log.registry, log.turn, log.step).body)
    parts = typed_message(item) if isinstance(item, Message) else None
    return None if log.setup.tells_skills and may_call_skill(parts or ()) else parts
