"""Drivers of delivery by real turns: what leaves a thread by its channels.

Invariant: every row is a turn on the fixture's harness, through `Thread.open(channel=…)`.
"""

from __future__ import annotations

import asyncio
import io
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ....core.items import Message, decode_item, text_of
from ....core.provenance import InputProvenance
from ....core.typed import convert
from ....delivery.channel import Channel, Delivery, Receipt, ReplyOrigin, ReplyPolicy
from ....delivery.channels.queue import QueueChannel
from ....delivery.channels.terminal import TerminalChannel
from ....delivery.channels.webhook import WebhookChannel
from ....delivery.deliveries import Deliveries
from ....delivery.outbox import TOPIC, DeliveryReport
from ....delivery.reply_sender import HOST
from ....harness.events import Event, NoticeRaised, QuestionsAsked, TextDelta, TurnCompleted
from ....models.transport import AsyncTransport
from ....store.contract import OutboxRow
from ....subagents import AgentLimits
from ....thread.thread import Thread
from ....tools.contract import (
    AnswerOption,
    Media,
    Recipient,
    SentMessage,
    ToolContext,
    ToolResult,
    UserQuestion,
)
from ....tools.decorator import tool
from ..fixture import SECRET, MatrixFixture, answers
from ..loopback_servers import WebhookReceiver

__all__ = ["crash", "interrupt", "queue", "terminal", "turn", "webhook"]

Given: TypeAlias = Mapping[str, Any]


class _Board:
    """A channel that records deliveries, and answers with a given state."""

    kind = "board"

    def __init__(self, state: str = "delivered", *, deduplicates: bool = True) -> None:
        self.state, self.deduplicates = state, deduplicates
        self.tried = 0
        self.taken: list[Delivery] = []

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        self.tried += 1
        if self.state == "raises":
            raise RuntimeError(f"it fell over {SECRET}")
        if self.state == "delivered":
            self.taken.append(delivery)
        return Receipt(self.state, "not today")  # type: ignore[arg-type]


async def turn(given: Given, fixture: MatrixFixture) -> Given:
    """Run turns whose replies go to boards; return what arrived and what is left."""
    fixture.play(*answers(given))
    states: Mapping[str, str] = given.get("channels", {HOST: "delivered"})
    boards = {name: _Board(state) for name, state in states.items()}
    async with fixture.open_thread(channel=boards, **_thread_options(given)) as thread:
        events: list[Event] = []
        for each in given.get("turns", ({},)):
            events += await _run(thread, each.get("say", "Go on."), **_options(each))
        left = await thread.store.outbox(thread=thread.id, topic=TOPIC)
        kept = await _last_text(thread)
        name = thread.id
    if given.get("retries"):
        left = await _retry(fixture, name, boards)
    ends = [event for event in events if isinstance(event, TurnCompleted)]
    return {
        "status": [end.status for end in ends],
        "kept": kept,
        "shown": {
            name: [_delivery_data(each) for each in board.taken] for name, board in boards.items()
        },
        "tried": {name: board.tried > 0 for name, board in boards.items()},
        "left": len(left),
        "states": [row.state for row in left],
        "told": any(isinstance(event, NoticeRaised) for event in events),
        "leaks": any(SECRET in f"{row.error}{bytes(row.body)!r}" for row in left),
    }


async def interrupt(given: Given, fixture: MatrixFixture) -> Given:
    """Interrupt a turn while the model streams."""
    fixture.play(*answers(given))
    board = _Board()
    async with fixture.open_thread(channel=board) as thread:
        status = ""
        async for event in thread.run("Go on."):
            if isinstance(event, TextDelta):
                thread.interrupt()
            if isinstance(event, TurnCompleted):
                status = event.status
        name = thread.id
    async with fixture.open_store() as store:
        left = await store.outbox(thread=name, topic=TOPIC)
    return {
        "status": status,
        "shown": [_delivery_data(each) for each in board.taken],
        "left": len(left),
    }


async def terminal(given: Given, fixture: MatrixFixture) -> Given:
    """Run turns whose replies are written to a terminal, and open the thread again."""
    fixture.play(*answers(given))
    screen = io.StringIO()
    async with fixture.open_thread(channel=TerminalChannel(screen)) as thread:
        for _ in answers(given):
            await fixture.run_turn(thread, "Go on.")
        name = thread.id
    async with fixture.open_thread(name, channel=TerminalChannel(screen)):
        pass
    return {"screen": screen.getvalue()}


async def queue(given: Given, fixture: MatrixFixture) -> Given:
    """Take a reply from a queue; return what comes again when the thread is reopened."""
    fixture.play(*answers(given))
    comes: list[list[str]] = []
    keys: set[str] = set()
    name = None
    for acknowledges in (*given["acknowledges"], False):
        channel = QueueChannel()
        async with fixture.open_thread(name, channel=channel) as thread:
            if name is None:
                await fixture.run_turn(thread, "Go on.")
            name = thread.id
            got = [await channel.get() for _ in range(channel.waiting)]
            if acknowledges:
                for each in got:
                    await channel.acknowledge(each)
        comes.append([each.reply.text for each in got])
        keys |= {each.key for each in got}
    return {"comes": comes, "keys": len(keys)}


async def webhook(given: Given, fixture: MatrixFixture) -> Given:
    """Send a reply to a webhook that may be down, and drain the rest later."""
    fixture.play(*answers(given))
    clock = _Clock()
    async with WebhookReceiver(given["statuses"]) as receiver, AsyncTransport() as transport:
        hook = WebhookChannel(receiver.url, SECRET, transport, private=True)
        async with fixture.open_thread(channel=hook) as thread:
            events = await fixture.run_turn(thread, "Go on.")
            name, at_once = thread.id, len(receiver.taken)
        down = given.get("down_for", 0)
        report = await _drain(fixture, name, hook, clock, down)
        receiver.statuses = [200]
        if down:
            report = await _drain(fixture, name, hook, clock, None)
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    return {
        "status": end.status,
        "taken": list(receiver.taken.values()),
        "at_once": at_once,
        "keys": len(receiver.keys),
        "own_key": receiver.keys == [f"{name}.1.final"],
        "signed": receiver.all_signed(SECRET),
        "blocked": len(report.blocked),
        "pending": report.pending,
        "waited_it_out": clock.elapsed >= down,
    }


async def crash(given: Given, fixture: MatrixFixture) -> Given:
    """Kill a process during a delivery; return what the next ones deliver."""
    fixture.play(*answers(given))
    async with fixture.open_thread(channel=QueueChannel()) as thread:
        await fixture.run_turn(thread, "Go on.")
        name = thread.id
    screen = fixture.directory / f"{name}.screen"
    repeats = bool(given["deduplicates"])
    home, told = str(fixture.home), (name, str(screen), str(int(repeats)), given["dies"])
    died = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _DYING, home, fixture.defaults.store or "", *told)
    )
    code = await died.wait()
    board = _Board(deduplicates=repeats)
    report = await _drain(fixture, name, board, _Clock(), None)
    again = await _drain(fixture, name, board, _Clock(), None)
    before = await asyncio.to_thread(_lines, screen)
    after = [each.key for each in board.taken]
    return {
        "died": code == _KILLED,
        "before": len(before),
        "after": len(after),
        "keys": len({*before, *after}),
        "blocked": len(report.blocked),
        "again": again.delivered,
    }


class _Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.start = self.now = time.time()

    def __call__(self) -> float:
        return self.now

    @property
    def elapsed(self) -> float:
        return self.now - self.start

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


async def _drain(
    fixture: MatrixFixture, thread: str, channel: Channel, clock: _Clock, patience: float | None
) -> DeliveryReport:
    """Drain the home of the fixture with a clock of its own."""
    async with fixture.open_store(clock) as store:
        deliveries = Deliveries(store, {HOST: channel}, clock=clock, sleep=clock.sleep)
        return await deliveries.run(thread, timeout=patience)


async def _run(thread: Thread, *said: str, **options: Any) -> list[Event]:
    """Run a turn; leave every question of the model without an answer."""
    events: list[Event] = []
    async for event in thread.run(*said, **options):
        events.append(event)
        if isinstance(event, QuestionsAsked):
            thread.answer(event.id, None)
    return events


async def _retry(
    fixture: MatrixFixture, thread: str, boards: Mapping[str, Channel]
) -> list[OutboxRow]:
    """Try what was put aside once more; return what is left."""
    async with fixture.open_store() as store:
        deliveries = Deliveries(store, boards)
        for blocked in await deliveries.list_blocked():
            await deliveries.retry(blocked.key)
        await deliveries.drain(thread)
        return await store.outbox(thread=thread, topic=TOPIC)


def _thread_options(given: Given) -> dict[str, Any]:
    options: dict[str, Any] = {"tools": [message, make, look, ask]}
    if "policy" in given:
        options["replies"] = convert(given["policy"], ReplyPolicy)
    if given.get("agents"):
        options["agents"] = AgentLimits()
    return options


@tool(description="Sends a message.")
async def message(
    text: str, channel: str = HOST, to: str = "", media: str = "", final: bool = True
) -> ToolResult:
    """Report a message as sent."""
    sent = SentMessage(
        target=Recipient(channel=channel, to=to),
        text=text,
        media=(media,) if media else (),
        final=final,
    )
    return ToolResult("sent", sent=(sent,))


@tool(description="Makes a medium for the reply.")
async def make(url: str, voice: bool = False) -> ToolResult:
    """Report a medium as made."""
    return ToolResult("made", media=(Media(url=url, as_voice=voice),))


@tool(description="Looks around.")
async def look() -> str:
    """See nothing."""
    return "nothing"


@tool(description="Asks the user.")
async def ask(context: ToolContext) -> str:
    """Ask, and wait for the user, who may not answer."""
    assert context.ask_questions is not None
    options = (AnswerOption("Yes", "Do it."), AnswerOption("No", "Leave it."))
    question = UserQuestion(id="sure", header="Sure", question="Are you sure?", options=options)
    return "no answer" if await context.ask_questions((question,)) is None else "an answer"


def _options(given: Given) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "origin" in given:
        options["origin"] = convert(given["origin"], ReplyOrigin)
    if given.get("internal"):
        options["provenance"] = InputProvenance(kind="internal_system")
    return options


def _delivery_data(delivery: Delivery) -> dict[str, Any]:
    """Return what arrived, without defaults and without the provider's error text."""
    reply: dict[str, Any] = msgspec.to_builtins(delivery.reply)
    if delivery.reply.is_error:
        reply["text"] = bool(reply["text"])
    return reply | ({"to": delivery.to} if delivery.to else {})


async def _last_text(thread: Thread) -> str:
    """Return the last text of the model in the log, stripped."""
    info = await thread.store.info(thread.id)
    for entry in await thread.store.read(thread.id, 1, info.last, reverse=True):
        item = decode_item(entry.body) if entry.kind == "item" else None
        if isinstance(item, Message) and item.role == "assistant":
            return text_of(item.content).strip()
    return ""


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


_KILLED = 9
_DYING = f"""
import asyncio, os, sys
from pathlib import Path
from treadle.delivery.deliveries import Deliveries
from treadle.store.shared_store import open_shared

home, address, thread, screen, repeats, dies = sys.argv[1:]

class Dying:
    kind = "dying"
    deduplicates = repeats == "1"

    async def deliver(self, delivery):
        if dies == "behind":
            with open(screen, "a") as shown:
                shown.write(delivery.key + chr(10))
        os._exit({_KILLED})

async def drain():
    async with open_shared(Path(home), address or None) as place:
        await Deliveries(place.store, {{{HOST!r}: Dying()}}).drain(thread)

asyncio.run(drain())
"""
