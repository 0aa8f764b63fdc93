from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from treadle.core.entries import Draft
from treadle.core.items import Message, OutputText, encode_item
from treadle.core.loopback import LoopbackListener, LoopbackRequest, LoopbackResponse
from treadle.delivery.channel import Delivery, Receipt, Reply, ReplyOrigin
from treadle.delivery.decision import TurnFacts
from treadle.delivery.outbox import DeliveryFollower
from treadle.store import Change, Store
from treadle.store.contract import THIS_TURN, Admission, TurnEnd, TurnState
from treadle.testing.contracts.drafts import append, user_draft


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Board:
    """A channel that remembers, and does as it is told."""

    kind = "board"

    def __init__(self, *, deduplicates: bool = False) -> None:
        self.deduplicates = deduplicates
        self.replies: list[Reply] = []
        self.tried: list[str] = []
        self.answer: Callable[[Delivery], Receipt] = lambda _: Receipt("delivered")

    @property
    def shown(self) -> list[str]:
        return [reply.text for reply in self.replies]

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        self.tried.append(delivery.key)
        receipt = self.answer(delivery)
        if receipt.state == "delivered":
            self.replies.append(delivery.reply)
        return receipt


class Receiver(LoopbackListener):
    """A webhook's other end: it remembers all, and answers as it is told."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.script: Callable[[LoopbackRequest], LoopbackResponse] = lambda _: LoopbackResponse()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/path-secret"

    @property
    def once(self) -> dict[str, Any]:
        """What was accepted, by key, in the order of first arrival."""
        seen: dict[str, Any] = {}
        for request in self.requests:
            if self.script(request).status < 300:
                seen.setdefault(request.headers["idempotency-key"], request.payload)
        return seen

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers["content-length"]))
        method, path, _ = first.split(" ")
        request = LoopbackRequest(method, path, headers, body)
        self.requests.append(request)
        answer = self.script(request)
        body = b"".join(answer.chunks)
        named = {**answer.headers, "content-length": str(len(body)), "connection": "close"}
        fields = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        writer.write(f"HTTP/1.1 {answer.status} Told\r\n{fields}\r\n".encode() + body)
        await writer.drain()


def delivery(number: int, text: str, **more: Any) -> Delivery:
    return Delivery(
        key=f"thr_1.{number}.final",
        thread="thr_1",
        turn=number,
        to="you",
        reply=Reply(text=text, **more),
    )


def answers(text: str, *, phase: str | None = None) -> Draft:
    message = Message(role="assistant", content=(OutputText(text),), phase=phase)
    return Draft(body=encode_item(message), turn=THIS_TURN)


async def tell(
    store: Store,
    thread: str,
    *said: str | Draft,
    channel: str = "board",
    to: str = "you",
    dispatcher: str = "",
    state: TurnState = "completed",
    facts: TurnFacts | None = None,
) -> int:
    """A turn that ends with `said` and owes its telling, in one transaction."""
    follower = DeliveryFollower(
        thread, ReplyOrigin(channel, to), dispatcher, policy=facts or TurnFacts()
    )
    number = (await store.info(thread)).turns + 1
    admission = Admission(id=f"turn_{thread}_{number}", input=Raw(b'"hello"'))
    follower.rows_on_admission(admission)
    entries = (each if isinstance(each, Draft) else answers(each) for each in said)
    change = Change(
        admit=admission,
        entries=(user_draft("hello", turn=THIS_TURN), *entries),
        end=TurnEnd(number=THIS_TURN, state=state),
        outbox=follower.rows_on_end(TurnEnd(number=number, state=state)),
    )
    await append(store, thread, change)
    return number
