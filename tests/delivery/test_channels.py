from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any

import pytest
from msgspec import Raw

from treadle.core.errors import ConfigError
from treadle.core.loopback import LoopbackListener, LoopbackResponse
from treadle.delivery.channel import HoldingChannel, Receipt
from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.channels.terminal import TerminalChannel
from treadle.delivery.channels.webhook import LONGEST_RETRY_AFTER, WebhookChannel, is_signed, sign
from treadle.models.transport import AsyncTransport, Timeouts
from treadle.testing.contracts.channels import ChannelContract

from .scenes import Clock, Receiver, delivery

SECRET = "planted-secret-1f2e3d"


class TestTerminal(ChannelContract):
    @pytest.fixture
    def channel(self):
        return TerminalChannel(Recorded())

    async def received_replies(self, channel: Any) -> list[str]:
        return list(channel.stream.writes)


class TestQueue(ChannelContract):
    @pytest.fixture
    def channel(self):
        return QueueChannel()

    async def received_replies(self, channel: Any) -> list[str]:
        return [_shown((await channel.get()).reply) for _ in range(channel.waiting)]


class TestWebhook(ChannelContract):
    @pytest.fixture
    async def channel(self):
        async with Receiver() as self.receiver, AsyncTransport() as transport:
            yield WebhookChannel(self.receiver.url, SECRET, transport, private=True)

    async def received_replies(self, channel: Any) -> list[str]:
        del channel
        bodies = self.receiver.once.values()
        return [" ".join((body["text"], *body["media"])) for body in bodies]


class Recorded(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


def _shown(reply: Any) -> str:
    return " ".join((reply.text, *reply.media))


async def test_a_model_cannot_steer_the_terminal():
    stream = io.StringIO()
    await TerminalChannel(stream).deliver(delivery(1, "\x1b[2Jgone\x07\r\n\tkept\n"))
    assert stream.getvalue() == "[2Jgone\n\tkept\n"


async def test_standard_output_is_the_terminal_unless_another_is_named(capsys):
    await TerminalChannel().deliver(delivery(1, "Hello", media=("https://example.com/a.png",)))
    assert capsys.readouterr().out == "Hello\nhttps://example.com/a.png\n"


async def test_a_terminal_that_is_gone_refuses():
    stream = io.StringIO()
    stream.close()
    receipt = await TerminalChannel(stream).deliver(delivery(1, "Hello"))
    assert receipt == Receipt("refused", "the terminal is gone; read the reply in its thread")


async def test_a_queue_without_an_outbox_cannot_be_acknowledged():
    queue = QueueChannel()
    assert isinstance(queue, HoldingChannel)
    with pytest.raises(ConfigError, match="no `Deliveries` uses this queue"):
        await queue.acknowledge(delivery(1, "Hello"))


async def test_a_queue_takes_back_what_nobody_has_taken_of_a_thread():
    queue = QueueChannel()
    for number in (1, 2):
        await queue.deliver(delivery(number, f"{number}"))
    taken = await queue.get()
    queue.withdraw("thr_other")
    assert queue.waiting == 1
    queue.withdraw("thr_1")
    assert queue.waiting == 0
    assert (await queue.deliver(taken)).state == "held"
    assert queue.waiting == 0
    await queue.deliver(delivery(2, "2"))
    assert await queue.get() == delivery(2, "2")


@pytest.fixture
async def hooked() -> AsyncIterator[tuple[Receiver, WebhookChannel]]:
    async with Receiver() as receiver, AsyncTransport() as transport:
        yield (
            receiver,
            WebhookChannel(
                receiver.url, SECRET, transport, private=True, clock=Clock(1_700_000_000)
            ),
        )


async def test_a_post_is_signed_named_and_says_all_of_the_reply(hooked):
    receiver, channel = hooked
    given = delivery(3, "Hello", media=("https://example.com/a.png",), content=Raw(b'{"card":1}'))
    assert await channel.deliver(given) == Receipt("delivered")
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/hook/path-secret")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == "thr_1.3.final"
    assert request.headers["x-treadle-timestamp"] == "1700000000"
    assert request.headers["x-treadle-signature"] == sign(SECRET, 1_700_000_000, request.body)
    assert request.payload == {
        "key": "thr_1.3.final",
        "thread": "thr_1",
        "turn": 3,
        "to": "you",
        "kind": "final",
        "text": "Hello",
        "media": ["https://example.com/a.png"],
        "content": {"card": 1},
        "is_error": False,
        "reply_to": "",
        "as_voice": False,
    }


async def test_every_attempt_has_the_same_body_and_key(hooked):
    receiver, channel = hooked
    for _ in range(2):
        await channel.deliver(delivery(1, "Hello"))
        channel.clock.now += 60
    first, second = receiver.requests
    assert first.body == second.body
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.headers["x-treadle-signature"] != second.headers["x-treadle-signature"]


def test_a_receiver_can_tell_a_true_request_from_others():
    body = b'{"text":"Hello"}'
    headers = {
        "x-treadle-timestamp": "1700000000",
        "x-treadle-signature": sign(SECRET, 1700000000, body),
    }
    assert is_signed(SECRET, headers, body, now=1_700_000_100)
    assert not is_signed(SECRET, headers, body, now=1_700_000_301)
    assert not is_signed(SECRET, headers, body + b" ", now=1_700_000_000)
    assert not is_signed("other", headers, body, now=1_700_000_000)
    later = {**headers, "x-treadle-timestamp": "1700000001"}
    assert not is_signed(SECRET, later, body, now=1_700_000_000)
    assert not is_signed(SECRET, {}, body, now=1_700_000_000)
    endless = {**headers, "x-treadle-timestamp": "9" * 5000}
    assert not is_signed(SECRET, endless, body, now=1_700_000_000)
    broken = {**headers, "x-treadle-signature": "\udc80"}
    assert not is_signed(SECRET, broken, body, now=1_700_000_000)
    assert not is_signed(
        SECRET, {**headers, "x-treadle-signature": "sha256=ü"}, body, now=1_700_000_000
    )


def test_the_signature_is_the_one_of_the_time_a_dot_and_the_body():
    assert sign("key", 1, b"body") == (
        "sha256=91b5374b153842ad05b2c4eab9349b8321b14703165bd3fb8b034dfb8be98ae5"
    )


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503])
async def test_some_answers_may_pass(hooked, status):
    receiver, channel = hooked
    receiver.script = lambda _: LoopbackResponse(status=status)
    assert await channel.deliver(delivery(1, "x")) == Receipt(
        "failed", f"the webhook answered {status}"
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
async def test_other_refusals_are_for_ever(hooked, status):
    receiver, channel = hooked
    receiver.script = lambda _: LoopbackResponse(status=status, chunks=(SECRET.encode(),))
    assert await channel.deliver(delivery(1, "x")) == Receipt(
        "refused", f"the webhook answered {status}; correct its URL or its receiver"
    )


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        ("120", 120.0),
        (formatdate(1_700_000_090, usegmt=True), 90.0),
        ("soon", None),
        ("-1", None),
        ("9" * 5000, LONGEST_RETRY_AFTER),
        ("Fri, 31 Dec 9999 23:59:59 -2359", LONGEST_RETRY_AFTER),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
    ],
)
async def test_a_receiver_may_say_when_to_come_back(hooked, wish, seconds):
    receiver, channel = hooked
    receiver.script = lambda _: LoopbackResponse(status=503, headers={"retry-after": wish})
    assert (await channel.deliver(delivery(1, "x"))).retry_after == seconds


async def test_a_redirect_is_not_followed_and_its_path_is_not_repeated(hooked):
    receiver, channel = hooked
    async with Receiver() as elsewhere:
        receiver.script = lambda _: LoopbackResponse(
            status=307, headers={"location": elsewhere.url}
        )
        receipt = await channel.deliver(delivery(1, "x"))
    assert elsewhere.requests == []
    assert (receipt.state, "path-secret" in receipt.detail) == ("refused", False)
    assert "answered 307 and points elsewhere" in receipt.detail


async def test_an_endless_answer_counts_by_its_status(hooked):
    receiver, channel = hooked
    receiver.script = lambda _: LoopbackResponse(chunks=(b"x" * 1024,) * 256)
    assert await channel.deliver(delivery(1, "x")) == Receipt("delivered")


class Mute(LoopbackListener):
    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        await reader.read()


async def test_nobody_listening_and_silence_may_pass():
    async with Mute() as mute, AsyncTransport() as transport:
        channel = WebhookChannel(
            mute.base_url,
            SECRET,
            transport,
            private=True,
            timeouts=Timeouts(connect=1, idle=0.05, total=0.1),
        )
        assert (await channel.deliver(delivery(1, "x"))).state == "failed"
    async with AsyncTransport() as transport:
        channel = WebhookChannel(channel.url, SECRET, transport, private=True)
        assert (await channel.deliver(delivery(1, "x"))).state == "failed"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3", "[::1]", "169.254.169.254"])
async def test_a_private_address_is_refused_unless_it_is_meant(host):
    async with AsyncTransport() as transport:
        channel = WebhookChannel(f"https://{host}/hook", SECRET, transport)
        receipt = await channel.deliver(delivery(1, "x"))
    assert (receipt.state, "private network" in receipt.detail) == ("refused", True)


async def test_a_webhook_that_cannot_be_meant_is_refused_when_it_is_made():
    async with AsyncTransport() as transport:
        for url, secret, why in (
            ("http://example.com/", SECRET, "without encryption"),
            ("https://example.com/", "", "has no secret"),
            ("ftp://example.com/", SECRET, "must start with http"),
            (f"https://user:{SECRET}@example.com/", "x", "contains a user or password"),
        ):
            with pytest.raises(ConfigError, match=why) as caught:
                WebhookChannel(url, secret, transport)
            assert SECRET not in str(caught.value)


async def test_the_secret_is_in_no_repr_receipt_or_log(hooked, caplog):
    receiver, channel = hooked
    caplog.set_level(logging.DEBUG)
    receipts = []
    for status in (200, 302, 404, 500):
        receiver.script = lambda _, status=status: LoopbackResponse(
            status=status, headers={"location": f"/{SECRET}"}, chunks=(SECRET.encode(),)
        )
        receipts.append(await channel.deliver(delivery(1, "x")))
    told = f"{channel!r} {receipts} {caplog.text}"
    assert SECRET not in told
    assert "path-secret" not in told
    assert all(SECRET not in str(request.headers) for request in receiver.requests)
