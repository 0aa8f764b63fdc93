from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.sse import EventParser, EventTooLarge, StreamTooLarge

FIELDS = st.sampled_from(
    (
        *(b"data: one", b"data:two", b"data:  three", b"data", b"data:", b"event: x", b"id: 7"),
        *(b": note", b":", b"retry: 5", b"database: no", b"data: \xc3\xa4\xef\xbb\xbf", b""),
    )
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw):
    lines = draw(st.lists(st.tuples(FIELDS, ENDS), max_size=30))
    start = draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"]))
    return start + b"".join(line + end for line, end in lines) + draw(FIELDS)


def parse(*chunks: bytes, limit: int = 1 << 20) -> list[bytes]:
    parser = EventParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.finish()


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def line_by_line(data: bytes) -> list[bytes]:
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[bytes] = []
    lines: list[bytes] = []
    for line in [*text.split(b"\n"), b""]:
        if line == b"" and lines:
            events.append(b"\n".join(lines))
            lines = []
        elif line == b"data" or line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
    return events


@given(streams(), st.lists(st.integers(0, 1 << 16), max_size=12))
def test_any_split_of_a_stream_gives_the_events_of_a_plain_reading(data: bytes, cuts: list[int]):
    assert parse(*split(data, cuts)) == line_by_line(data)


@given(streams())
def test_a_stream_that_comes_byte_by_byte_gives_the_same_events(data: bytes):
    assert parse(*(data[i : i + 1] for i in range(len(data)))) == line_by_line(data)


def test_one_chunk_gives_one_list_with_all_its_events():
    chunk = b"".join(b'event: delta\ndata: {"n":%d}\n\n' % n for n in range(5_000))
    parser = EventParser()
    assert parser.feed(chunk) == [b'{"n":%d}' % n for n in range(5_000)]
    assert parser.finish() == []


def test_lines_of_data_are_joined_and_other_fields_dropped():
    stream = b": hello\nid: 3\nevent: message\ndata: a\ndata:b\ndata:  c\nretry: 9\n\n"
    assert parse(stream) == [b"a\nb\n c"]


def test_an_event_without_data_is_none_and_one_with_empty_data_is_one():
    assert parse(b"event: ping\n\n: note\n\ndata\n\ndata:\n\ndata\ndata\n\n") == [b"", b"", b"\n"]


def test_a_carriage_return_and_its_line_feed_may_come_in_two_chunks():
    assert parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\ndata: c") == [b"a\nb", b"c"]


def test_a_byte_order_mark_counts_only_at_the_start():
    assert parse(b"\xef", b"\xbb", b"\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a"]


def test_the_end_of_the_stream_ends_the_last_event():
    parser = EventParser()
    assert parser.feed(b"data: a\n\ndata: b\n") == [b"a"]
    assert parser.finish() == [b"b"]
    assert parser.finish() == []


@given(st.integers(-3, 3), st.lists(st.integers(0, 1 << 16), max_size=6))
def test_an_event_is_refused_exactly_past_the_limit_however_it_is_cut(over: int, cuts: list[int]):
    limit = 40
    event = b"data: " + b"x" * (limit - len(b"data: ") + over)
    chunks = split(b"data: ok\n\n\n" + event + b"\n\n", cuts)
    if over <= 0:
        assert parse(*chunks, limit=limit) == [b"ok", event[6:]]
        return
    with pytest.raises(EventTooLarge, match="larger than 40 bytes"):
        parse(*chunks, limit=limit)


def test_an_event_without_end_is_refused_while_it_grows():
    with pytest.raises(EventTooLarge):
        parse(*[b"x" * 10] * 1_000, limit=1_000)


def test_bytes_that_come_one_at_a_time_cost_no_more_than_they_are():
    parser = EventParser()
    tracemalloc.start()
    for _ in range(200_000):
        parser.feed(b"x")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_a_stream_is_refused_past_its_limit_however_small_its_events_are():
    parser = EventParser(total=100)
    assert [len(parser.feed(b"data: a\n\n")) for _ in range(11)] == [1] * 11
    with pytest.raises(StreamTooLarge, match="larger than 100 bytes"):
        parser.feed(b"data: a\n\n")
