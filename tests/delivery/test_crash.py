from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.channels.terminal import TerminalChannel
from treadle.delivery.channels.webhook import WebhookChannel
from treadle.delivery.deliveries import Deliveries
from treadle.delivery.outbox import LeasedOutbox
from treadle.models.transport import AsyncTransport
from treadle.store import SqliteStore

from ..store.children import Child
from .scenes import Receiver, tell

TOOLS = """
import signal, time
from treadle.delivery.outbox import LeasedOutbox
from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.channels.terminal import TerminalChannel
from treadle.delivery.channels.webhook import WebhookChannel
from treadle.delivery.deliveries import Deliveries
from treadle.models.transport import AsyncTransport

def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)

class Screen:
    # A stream whose every write is seen at once, as a terminal's is.
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    def write(self, text):
        os.write(self.file, text.encode())
    def flush(self):
        pass

class Dying(SqliteStore):
    # Dies around its nth change; not at all for 0.
    moment, left = "", 0
    async def commit(self, lease, change):
        self.left -= 1
        if self.left == 0 and self.moment == "before":
            die()
        done = await super().commit(lease, change)
        if self.left == 0 and self.moment == "after":
            die()
        return done
"""

TERMINAL = (
    TOOLS
    + """
async def main():
    Dying.moment, Dying.left = sys.argv[4], int(sys.argv[5])
    async with await Dying.open(directory) as store:
        terminal = TerminalChannel(Screen(sys.argv[3]))
        await Deliveries(store, {"terminal": terminal}).drain()
asyncio.run(main())
"""
)

WEBHOOK = (
    TOOLS
    + """
async def main():
    Dying.moment, Dying.left = sys.argv[4], int(sys.argv[5])
    async with await Dying.open(directory) as store, AsyncTransport() as transport:
        hook = WebhookChannel(sys.argv[3], "secret", transport, private=True)
        await Deliveries(store, {"hook": hook}).drain()
asyncio.run(main())
"""
)

QUEUE = (
    TOOLS
    + """
async def main():
    Dying.moment, Dying.left = sys.argv[4], int(sys.argv[5])
    async with await Dying.open(directory) as store:
        queue = QueueChannel()
        deliveries = Deliveries(store, {"queue": queue})
        deliveries.attach(thread, LeasedOutbox(store, await store.acquire(thread)))
        await deliveries.drain()
        while queue.waiting:
            delivery = await queue.get()
            await queue.acknowledge(delivery)
            print(delivery.reply.text, flush=True)
asyncio.run(main())
"""
)

SWEEP = (
    TOOLS
    + """
async def main():
    async with await SqliteStore.open(directory) as store, AsyncTransport() as transport:
        deliveries = Deliveries(store, {
            "terminal": TerminalChannel(Screen(sys.argv[3])),
            "hook": WebhookChannel(sys.argv[4], "secret", transport, private=True),
        })
        print("ready", flush=True)
        sys.stdin.readline()
        while any(row.state != "blocked" for row in await store.outbox(topic="delivery")):
            await deliveries.drain()
asyncio.run(main())
"""
)

TURNS = 2
SHOWING = [(moment, n) for n in range(1, 7) for moment in ("before", "after")]
"""Around the change that unfolds each turn, and around those before and behind each write."""
SETTLING = SHOWING[:8]
"""Around the change that unfolds each turn, and the one that settles its reply."""


async def owing(home: Path, channel: str, turns: int = TURNS) -> str:
    """A thread that owes its turns to a channel."""
    async with await SqliteStore.open(home) as store:
        thread = (await store.create()).id
        for number in range(turns):
            await tell(store, thread, f"reply {number}", channel=channel)
        return thread


async def killed(script: str, *arguments: object) -> list[str]:
    """What a child printed until it was killed."""
    with Child(script, *arguments) as child:
        printed = await asyncio.to_thread(child.output.read)
        assert await asyncio.to_thread(child.process.wait) == -9
        return printed.splitlines()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(("moment", "number"), SHOWING)
async def test_a_terminal_never_shows_twice_what_a_crash_interrupted(tmp_path, moment, number):
    home, screen = tmp_path / "home", tmp_path / "screen"
    thread = await owing(home, "terminal")
    await killed(TERMINAL, home, thread, screen, moment, number)
    async with await SqliteStore.open(home) as store:
        with screen.open("a") as stream:
            report = await Deliveries(store, {"terminal": TerminalChannel(stream)}).drain()
        blocked = {each.key for each in report.blocked}
    shown = lines(screen)
    assert shown == sorted(set(shown))
    unseen = {f"{thread}.{turn}.final" for turn in range(1, TURNS + 1)} - {
        f"{thread}.{int(line.split()[1]) + 1}.final" for line in shown
    }
    assert unseen <= blocked
    assert len(blocked) <= 1


@pytest.mark.parametrize(("moment", "number"), SETTLING)
async def test_a_webhook_hears_all_in_order_whenever_a_crash_came(tmp_path, moment, number):
    home = tmp_path / "home"
    thread = await owing(home, "hook")
    async with Receiver() as receiver:
        await killed(WEBHOOK, home, thread, receiver.url, moment, number)
        async with await SqliteStore.open(home) as store, AsyncTransport() as transport:
            hook = WebhookChannel(receiver.url, "secret", transport, private=True)
            await Deliveries(store, {"hook": hook}).drain()
            assert await store.outbox() == []
        texts = [body["text"] for body in receiver.once.values()]
    assert texts == [f"reply {turn}" for turn in range(TURNS)]
    assert len(receiver.requests) <= TURNS + 1


@pytest.mark.parametrize(("moment", "number"), SETTLING)
async def test_a_queue_gives_again_only_what_was_not_acknowledged(tmp_path, moment, number):
    home = tmp_path / "home"
    thread = await owing(home, "queue")
    acknowledged = await killed(QUEUE, home, thread, "-", moment, number)
    async with await SqliteStore.open(home) as store:
        queue = QueueChannel()
        deliveries = Deliveries(store, {"queue": queue})
        deliveries.attach(thread, LeasedOutbox(store, await store.acquire(thread)))
        await deliveries.drain()
        again = [(await queue.get()).reply.text for _ in range(queue.waiting)]
    every = [f"reply {turn}" for turn in range(TURNS)]
    assert not set(acknowledged) & set(again)
    # Killed behind the change, the child could not say that its acknowledgement was kept.
    unsaid = set(every) - {*acknowledged, *again}
    assert len(unsaid) <= (1 if moment == "after" else 0)
    assert again == every[len(acknowledged) + len(unsaid) :]


async def test_processes_that_drain_at_once_and_are_killed_keep_every_promise(tmp_path):
    home, screen = tmp_path / "home", tmp_path / "screen"
    threads = []
    async with await SqliteStore.open(home) as store:
        for _ in range(6):
            thread = (await store.create()).id
            threads.append(thread)
            for number in range(6):
                channel = "hook" if number % 2 else "terminal"
                await tell(store, thread, f"{thread} {number}", channel=channel)
    chance = random.Random(7)
    async with Receiver() as receiver:
        arguments = (home, "-", screen, receiver.url)
        for _ in range(4):
            await swept(arguments, kill_after=chance.uniform(0.0, 0.15))
        await swept(arguments, kill_after=None)
        texts = [body["text"] for body in receiver.once.values()]
    async with await SqliteStore.open(home) as store:
        blocked = {each.key for each in await Deliveries(store, {}).list_blocked()}
    shown = lines(screen)
    assert len(shown) == len(set(shown))
    for thread in threads:
        mine = [text for text in texts if text.startswith(thread)]
        assert mine == [f"{thread} {number}" for number in (1, 3, 5)]
        seen = [line for line in shown if line.startswith(thread)]
        owed = {f"{thread} {number}": f"{thread}.{number + 1}.final" for number in (0, 2, 4)}
        assert seen == [text for text in owed if text in seen]
        assert {key for text, key in owed.items() if text not in seen} <= blocked
    assert len(blocked) <= 4 * 3


async def swept(arguments: Sequence[object], *, kill_after: float | None) -> None:
    """Three processes drain at once; all but the last round's are killed in the middle."""
    with ExitStack() as running:
        children = [running.enter_context(Child(SWEEP, *arguments)) for _ in range(3)]
        for child in children:
            assert await asyncio.to_thread(child.line) == "ready"
        for child in children:
            child.say()
        if kill_after is not None:
            await asyncio.sleep(kill_after)
            return
        for child in children:
            assert await asyncio.to_thread(child.process.wait) == 0
