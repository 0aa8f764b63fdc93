from __future__ import annotations

import os
import tracemalloc
from itertools import repeat
from pathlib import Path

import pytest
from msgspec import Raw

from treadle.core.usage import MOST_TOKENS, RateLimitSnapshot, RateLimitWindow, TokenUsage
from treadle.harness.codex import rollout_reader
from treadle.harness.codex.errors import CodexProtocolError
from treadle.harness.codex.framing import LineBuffer
from treadle.harness.codex.harness import seconds_until_reset
from treadle.harness.codex.protocol.notifications import RawResponseNotification
from treadle.harness.codex.protocol.types import TokenCounts
from treadle.harness.codex.rollout_reader import newest_compaction, read_turn
from treadle.harness.codex.server_connection import MOST_LEVELS, IgnoredMessages
from treadle.harness.codex.turn_events import response_usage

from .peer import connect_peer

SAID = b'{"type":"message","role":"assistant","content":[]}'


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"\xff"}',
        b'{"method":"x","params":"\xff"}',
        b'{"id":1,"result":{"a":"\xff"}}',
        b'{"method":"x","params":%b}' % nested(MOST_LEVELS),
        b'{"method":"x","params":%b}' % nested(100_000),
        b'{"id":1,"result":%b}' % nested(100_000),
        b'{"method":"rawResponseItem/completed","params":{"threadId":"t","turnId":"u","item":1e999}}',
    ],
)
async def test_a_line_that_nobody_can_read_is_passed_over(line: bytes):
    async with connect_peer() as (connection, peer):
        peer.say(line, {"id": 1, "result": 5})
        assert await connection.request("m", {}, int) == 5
        assert connection.ignored == IgnoredMessages(malformed=1)


async def test_a_message_may_nest_as_deep_as_it_is_said():
    async with connect_peer() as (connection, peer):
        peer.say(b'{"method":"x","params":%b}' % nested(MOST_LEVELS - 1), {"id": 1, "result": 5})
        assert await connection.request("m", {}, int) == 5
        assert connection.ignored == IgnoredMessages(unknown_notifications=1)


def test_a_line_without_end_costs_no_more_than_the_longest():
    lines = LineBuffer(1 << 20)
    endless = (line for chunk in repeat(b"x" * 4096) for line in lines.feed(chunk))
    tracemalloc.start()
    with pytest.raises(CodexProtocolError, match="more than 1048576 bytes"):
        next(endless)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20


def written(place: Path, *lines: bytes) -> str:
    path = place / "rollout.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


def test_an_item_of_a_rollout_that_nobody_can_read_is_passed_over(tmp_path: Path):
    wrong = (b'{"type":"z","x":"\xff"}', b'{"type":5,"x":1e999}', nested(1000), nested(100_000))
    lines = [b'{"type":"response_item","payload":%b}' % item for item in (*wrong, SAID)]
    assert read_turn(written(tmp_path, *lines), 0).items == (Raw(SAID),)


def test_a_history_of_a_rollout_that_nobody_can_read_is_none(tmp_path: Path):
    line = b'{"type":"compacted","payload":{"replacement_history":[%b]}}'
    path = written(tmp_path, line % SAID, line % b'{"x":"\xff"}', line % nested(100_000))
    assert newest_compaction(path) == (Raw(SAID),)


def test_a_line_of_a_rollout_that_is_too_long_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rollout_reader, "LONGEST_LINE", 200)
    line = b'{"type":"response_item","payload":%b}' % SAID
    path = written(tmp_path, line, b"x" * 1000, line, b"y" * 200, line)
    assert read_turn(path, 0).items == (Raw(SAID),) * 3


def test_only_so_much_of_a_rollout_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    line = b'{"type":"response_item","payload":%b}' % SAID
    monkeypatch.setattr(rollout_reader, "MOST_BYTES", 2 * len(line))
    assert read_turn(written(tmp_path, *[line] * 9), 0).items == (Raw(SAID),) * 2


def test_a_rollout_that_is_a_pipe_is_not_waited_for(tmp_path: Path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert read_turn(str(path), 0).items == ()


def test_a_lie_about_tokens_counts_for_no_more_than_a_figure_can():
    lie = 10**300
    told = TokenCounts(
        total_tokens=lie, input_tokens=-lie, output_tokens=lie, cached_input_tokens=lie
    )
    event = RawResponseNotification(thread_id="t", turn_id="u", response_id="r", usage=told)
    assert response_usage(event) == TokenUsage(0, MOST_TOKENS, None, MOST_TOKENS, None, MOST_TOKENS)


def test_a_limit_that_resets_at_the_end_of_time_does_not_say_when():
    def used_up(resets_at: int) -> RateLimitSnapshot:
        return RateLimitSnapshot(primary=RateLimitWindow(100.0, None, resets_at))

    assert seconds_until_reset(used_up(10**300), 5.0) is None
    assert seconds_until_reset(used_up(65), 5.0) == 60.0
