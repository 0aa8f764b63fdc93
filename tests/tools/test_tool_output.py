from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from tests.harness.scenes import call, hear, open_thread, scripted
from treadle.core.items import FunctionCallOutput
from treadle.core.text import TruncationPolicy, truncate_text
from treadle.core.wire import json_bytes
from treadle.testing.script import Answer
from treadle.thread.stored_bytes import StoredBytes
from treadle.tools.contract import ToolResult
from treadle.tools.decorator import tool
from treadle.tools.executor import ToolExecutor
from treadle.tools.stored_output import (
    PIECE,
    OutputWriter,
    StoredOutput,
    looks_binary,
    open_output,
    read_range,
    search_output,
)
from treadle.tools.tool_output import BUFFER, OutputBuffer, fit_result, shape_output

from .scenes import GATED, HANDLE, MemoryBlobs, Scene, model_text

NOWHERE = cast("ToolExecutor", None)


async def handle_of(scene: Scene, cmd: str) -> str:
    result = await scene.call("exec_command", cmd=cmd, max_output_tokens=10)
    found = HANDLE.search(str(result.output))
    assert found is not None
    return found[0]


async def test_a_stretch_is_read_back(scene: Scene):
    handle = await handle_of(scene, "seq 1 2000")
    text = await scene.text("read_output", handle=handle, offset=2000, limit=20)
    assert text == snapshot("""\
Bytes 2000 to 2020 of 8893 bytes
528
529
530
531
532
""")
    assert await scene.text("read_output", handle=handle, offset=-10) == snapshot("""\
Bytes 8883 to 8893 of 8893 bytes
1999
2000
""")
    assert await scene.text("read_output", handle=handle, offset=10**9) == snapshot(
        "Bytes 8893 to 8893 of 8893 bytes\n"
    )


async def test_lines_are_found_with_the_byte_they_start_at(scene: Scene):
    handle = await handle_of(scene, "seq 1 2000; echo last line")
    assert await scene.text("read_output", handle=handle, pattern="77|last*ne") == snapshot("""\
39 matching lines in 8903 bytes
219: 77
596: 177
996: 277
1396: 377
1796: 477
2196: 577
2596: 677
2968: 770
2972: 771
2976: 772
2980: 773
2984: 774
2988: 775
2992: 776
2996: 777
3000: 778
3004: 779
3396: 877
3796: 977
4273: 1077
4773: 1177
5273: 1277
5773: 1377
6273: 1477
6773: 1577
7273: 1677
7738: 1770
7743: 1771
7748: 1772
7753: 1773
7758: 1774
7763: 1775
7768: 1776
7773: 1777
7778: 1778
7783: 1779
8273: 1877
8773: 1977
8893: last line\
""")
    some = await scene.text("read_output", handle=handle, pattern="77", limit=20)
    assert some == snapshot("""\
2 matching lines in 8903 bytes
219: 77
596: 177
More matches from byte 996 on\
""")
    assert await scene.text("read_output", handle=handle, pattern="absent") == snapshot(
        "0 matching lines in 8903 bytes"
    )


async def test_binary_output_is_read_back_as_hex(scene: Scene):
    handle = await handle_of(scene, r"printf '\000\001\377'; head -c 50 /dev/zero")
    assert await scene.text("read_output", handle=handle, limit=9) == snapshot("""\
Bytes 0 to 3 of 53 bytes
00 01 ff\
""")


async def test_a_handle_that_is_none_is_an_honest_result(scene: Scene):
    other = await scene.blobs.put(b"no page")
    for handle in ("sha256:none", other):
        result = await scene.call("read_output", handle=handle)
        assert not result.success
        assert model_text(result).startswith("read_output failed: no ")


@pytest.mark.parametrize(
    "page",
    [
        StoredOutput(size=100, pieces=()),
        StoredOutput(size=-5, pieces=("sha256:none",)),
        StoredOutput(size=100, pieces=("sha256:none",)),
    ],
)
async def test_a_page_that_a_command_made_up_is_an_honest_result(scene: Scene, page: StoredOutput):
    handle = await scene.blobs.put(json_bytes(page))
    for question in ({}, {"pattern": "x"}, {"offset": -3}):
        result = await scene.call("read_output", handle=handle, **question)
        assert not result.success
        assert model_text(result).startswith("read_output failed: no ")


async def test_a_session_is_kept_from_its_start(scene: Scene):
    await scene.call("exec_command", cmd=f"echo first; {GATED}; seq 1 500", yield_time_ms=250)
    scene.open_gate()
    result = await scene.call("write_stdin", session_id=1, max_output_tokens=10)
    handle = HANDLE.findall(str(result.output))[0]
    text = await scene.text("read_output", handle=handle, limit=8)
    assert text == "Bytes 0 to 8 of 1898 bytes\nfirst\n1\n"


FLOOD = """
import asyncio, hashlib, resource, sys
from pathlib import Path
from typing import cast
from tests.tools.scenes import Host, Scene
from treadle.models.profile import ModelProfile
from treadle.tools.builtin_tools import builtin_tools
from treadle.tools.local import LocalExecutor

class Disk:
    def __init__(self, directory):
        self.directory = directory

    async def put(self, data):
        name = hashlib.sha256(data).hexdigest()
        (self.directory / name).write_bytes(data)
        return "sha256:" + name

    async def get(self, handle):
        return (self.directory / handle[7:]).read_bytes()

async def main(work, home, blobs):
    executor = LocalExecutor(home=home)
    tools = builtin_tools(ModelProfile(slug="m"))
    scene = Scene(executor, work, home, blobs=Disk(blobs), tools=tools)
    scene.host.shown = type("Nowhere", (), {"append": lambda self, each: None})()
    await scene.call("exec_command", cmd="true", login=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await scene.call(
        "exec_command",
        cmd="seq 1 12222222",
        login=False,
        yield_time_ms=30000,
        max_output_tokens=50,
    )
    while "session ID" in result.output:
        result = await scene.call("write_stdin", session_id=1, max_output_tokens=50)
    handle = result.output.split("Full output: ")[1].split(" ")[0]
    tail = await scene.call("read_output", handle=handle, offset=-18)
    hit = await scene.call("read_output", handle=handle, pattern="11111111")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    await executor.close()
    print(tail.output)
    print(hit.output)
    print(grown // 1024, file=sys.stderr)

asyncio.run(main(*map(Path, sys.argv[1:])))
"""


def test_a_hundred_megabytes_take_little_memory(tmp_path: Path):
    places = [tmp_path / name for name in ("work", "home", "blobs")]
    for place in places:
        place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", FLOOD, *map(str, places)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == snapshot("""\
Bytes 98888877 to 98888895 of 98888895 bytes
12222221
12222222

1 matching lines in 98888895 bytes
88888887: 11111111
""")
    assert int(done.stderr) < 48


@given(st.lists(st.binary(max_size=200), max_size=20), st.integers(0, 40))
def test_an_excerpt_of_what_fits_is_cut_like_any_text(chunks: list[bytes], limit: int):
    buffer = OutputBuffer()
    for chunk in chunks:
        buffer.add(chunk)
    whole = b"".join(chunks)
    excerpt = buffer.take(whole=True)
    text = whole.decode(errors="replace")
    assert (excerpt.text, excerpt.size, excerpt.omitted_bytes) == (text, len(whole), 0)
    for mode in ("tokens", "bytes"):
        policy = TruncationPolicy(mode, limit)
        assert excerpt.cut(policy) == truncate_text(text, policy)


@pytest.mark.parametrize("mode", ["tokens", "bytes"])
def test_an_excerpt_with_a_gap_is_cut_as_if_there_were_none(mode):
    line = "zwölf Boxkämpfer\n"
    count = 3 * BUFFER // len(line.encode())
    buffer = OutputBuffer()
    for _ in range(count):
        buffer.add(line.encode())
    excerpt = buffer.take(whole=True)
    policy = TruncationPolicy(mode, 100)
    assert excerpt.cut(policy) == truncate_text(line * count, policy)
    assert excerpt.lines == count
    assert f"\n... {excerpt.omitted_bytes} bytes omitted ...\n" in excerpt.text
    assert excerpt.omitted_bytes == count * len(line.encode()) - BUFFER


@given(st.text(max_size=50), st.integers(0, 200))
def test_half_a_character_waits_for_its_rest(text: str, at: int):
    data = text.encode()
    buffer = OutputBuffer()
    buffer.add(data[:at])
    first = buffer.take(whole=False)
    buffer.add(data[at:])
    second = buffer.take(whole=True)
    assert first.text + second.text == text
    assert first.chars + second.chars == len(text)


@given(st.text())
def test_text_never_looks_binary(text: str):
    assert looks_binary(text.encode()) == ("\0" in text)


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 7])
async def test_every_kept_byte_can_be_read(size: int):
    blobs = MemoryBlobs()
    data = bytes(n * 7 % 251 for n in range(size % 5000)) + b"x" * (size - size % 5000)
    writer = OutputWriter(blobs)
    for start in range(0, size, 65_536):
        await writer.add(data[start : start + 65_536])
    page = await open_output(blobs, await writer.save())
    assert (page.size, page.dropped) == (size, 0)
    assert await read_range(blobs, page, 0, size + 10) == data
    middle = max(size - 100, 0)
    assert await read_range(blobs, page, middle, 50) == data[middle : middle + 50]


@given(
    st.lists(st.sampled_from(["ab", "b", "a\n", "\n", "cab\n", "x" * 40]), max_size=60),
    st.sampled_from(["a", "b|x", "a*b", "", "c*b|xx"]),
    st.integers(0, 100),
)
async def test_a_search_finds_what_a_simple_one_finds(words: list[str], pattern: str, start: int):
    data = "".join(words)
    filler = "-" * (PIECE - 1 - 50) + "\n"
    blobs = MemoryBlobs()
    writer = OutputWriter(blobs)
    await writer.add((filler + data).encode())
    page = await open_output(blobs, await writer.save())
    begin = len(filler) + start
    found = [
        (each.offset, each.line)
        async for each in search_output(blobs, page, pattern, start=begin, longest=10)
    ]
    expected = []
    offset = len(filler)
    for line in data.splitlines(keepends=True):
        shown = line.removesuffix("\n")[:10]
        alternatives = [part.replace("*", ".*") for part in pattern.split("|")]
        if offset >= begin and any(re.search(each, shown) for each in alternatives):
            expected.append((offset, shown))
        offset += len(line)
    assert found == expected


async def test_what_comes_after_the_cap_is_counted():
    blobs = MemoryBlobs()
    writer = OutputWriter(blobs, cap=10)
    for _ in range(3):
        await writer.add(b"1234567")
    page = await open_output(blobs, await writer.save())
    assert (page.size, page.dropped) == (10, 11)
    assert await read_range(blobs, page, 0, 100) == b"1234567123"


async def shaped(text: str, limit: TruncationPolicy) -> str:
    buffer, writer = OutputBuffer(), OutputWriter(MemoryBlobs())
    buffer.add(text.encode())
    return await shape_output(buffer.take(whole=True), limit, writer)


async def test_a_heading_tells_how_much_there_was():
    example = "this is an example of a long output that should be truncated"
    text = await shaped(example + "\n" + example, TruncationPolicy("bytes", 30))
    assert HANDLE.sub("sha256:···", text) == (
        "Warning: truncated output (original token count: 31)\n"
        "Total output lines: 2\n"
        "\n"
        "this is an exam…91 chars truncated…ld be truncated\n"
        "Full output: sha256:··· (use read_output)"
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [("aaaa", 1), ("aaaa\n", 1), ("aa\nbb", 2), ("aa\r\nbb\r\n", 2), ("a\x0cb\u2028c\rd", 1)],
)
async def test_only_newlines_end_a_line(text: str, lines: int):
    assert f"\nTotal output lines: {lines}\n" in await shaped(text, TruncationPolicy("bytes", 1))


@given(
    st.text(st.characters() | st.sampled_from("\ud800\udfff\u0301👩‍🔬"), max_size=60),
    st.integers(0, 40),
)
async def test_any_result_can_be_made_to_fit(text: str, limit: int):
    context = Scene(NOWHERE, Path("/"), Path("/")).context
    result = await fit_result(ToolResult(text), replace(context, output_limit=limit))
    size = len(text.encode(errors="replace"))
    if size <= limit * 1.2:
        assert result.output == text
    elif "\0" in text:
        assert str(result.output).startswith(f"[binary output, {size} bytes]\n")
    else:
        assert str(result.output).startswith("Warning: truncated output")


@given(st.text(max_size=120), st.integers(0, 40), st.sampled_from(["tokens", "bytes"]))
async def test_output_that_fits_comes_back_as_it_is(text: str, limit: int, mode):
    policy = TruncationPolicy(mode, limit)
    if len(text.encode()) <= policy.byte_budget and "\0" not in text:
        assert await shaped(text, policy) == text


WHOLE = "".join(f"line {number}\n" for number in range(100_000))


@tool
async def flood() -> str:
    """Says much."""
    return WHOLE


@tool
async def drip() -> str:
    """Says little."""
    return "drop"


async def test_what_a_tool_says_beyond_the_limit_is_kept_whole(tmp_path: Path) -> None:
    model = scripted(Answer(calls=(call("flood"),)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(flood,)) as thread:
        await hear(thread, "go")
        shown = thread.view.rows[-2].item
        assert isinstance(shown, FunctionCallOutput)
        assert isinstance(shown.output, str)
        assert shown.output.startswith("Warning: truncated output (original token count: ")
        handle = shown.output.rpartition("Full output: ")[2].partition(" ")[0]
        kept = StoredBytes(thread.store, thread.id)
        page = await open_output(kept, handle)
        assert page.size == len(WHOLE)
        middle = WHOLE.index("line 50000\n")
        assert (await read_range(kept, page, middle, 11)).startswith(b"line 50000")


async def test_short_results_stay_as_they_are(tmp_path: Path) -> None:
    model = scripted(Answer(calls=(call("drip"),)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(drip,)) as thread:
        await hear(thread, "go")
        shown = thread.view.rows[-2].item
        assert isinstance(shown, FunctionCallOutput)
        assert shown.output == "drop"
