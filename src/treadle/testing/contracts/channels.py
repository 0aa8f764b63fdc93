"""The contract of a channel.

Give a subclass a fixture `channel` and a method `received_replies`:

    class TestMyChannel(ChannelContract):
        @pytest.fixture
        async def channel(self):
            yield MyChannel(...)

        async def received_replies(self, channel):
            return [...]  # one text for each reply, in the order of arrival

and run it under pytest-asyncio's auto mode.
"""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ...delivery.channel import Channel, Delivery, Reply

__all__ = ["ChannelContract"]

_IMAGE = "https://example.com/picture.png"
_TAKEN = ("delivered", "held")


def _delivery(number: int, text: str, **more: Any) -> Delivery:
    reply = Reply(text=text, **more)
    return Delivery(key=f"thr_1.{number}.final", thread="thr_1", turn=number, to="you", reply=reply)


class ChannelContract(ABC):
    """What every `Channel` must do."""

    @abstractmethod
    async def received_replies(self, channel: Any) -> list[str]:
        """Return what the receiver has of every reply, oldest first: its text and its media."""

    async def test_it_says_what_it_is(self, channel: Channel) -> None:
        assert channel.kind
        assert channel.kind == channel.kind.strip().lower()
        assert channel.deduplicates in (True, False)

    async def test_a_reply_arrives_whole(self, channel: Channel) -> None:
        text = "Two lines,\nand some “marks” — ünïcödé 🧵."
        receipt = await channel.deliver(_delivery(1, text))
        assert receipt.state in _TAKEN
        (got,) = await self.received_replies(channel)
        assert text in got

    async def test_replies_arrive_in_their_order(self, channel: Channel) -> None:
        texts = [f"reply {number}" for number in range(1, 8)]
        for number, text in enumerate(texts, 1):
            assert (await channel.deliver(_delivery(number, text))).state in _TAKEN
        got = await self.received_replies(channel)
        assert [text for text, one in zip(texts, got, strict=True) if text in one] == texts

    async def test_media_arrive_with_words_and_without(self, channel: Channel) -> None:
        await channel.deliver(_delivery(1, "Look:", media=(_IMAGE,)))
        await channel.deliver(_delivery(2, "", media=(_IMAGE,)))
        got = await self.received_replies(channel)
        assert [_IMAGE in one for one in got] == [True, True]
        assert "Look:" in got[0]

    async def test_the_same_words_under_two_keys_are_two_replies(self, channel: Channel) -> None:
        for number in (1, 2):
            await channel.deliver(_delivery(number, "again"))
        assert ["again" in one for one in await self.received_replies(channel)] == [True, True]

    async def test_a_key_that_comes_twice_is_shown_as_often_as_was_said(
        self, channel: Channel
    ) -> None:
        for _ in range(2):
            assert (await channel.deliver(_delivery(1, "once"))).state in _TAKEN
        times = 1 if channel.deduplicates else 2
        assert len(await self.received_replies(channel)) == times

    async def test_a_large_reply_arrives(self, channel: Channel) -> None:
        text = "word " * 50_000
        assert (await channel.deliver(_delivery(1, text))).state in _TAKEN
        (got,) = await self.received_replies(channel)
        assert text.strip() in got
