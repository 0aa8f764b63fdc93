from __future__ import annotations

from pathlib import Path

from tests.harness.scenes import call, hear, opened, scripted
from treadle.core.items import FunctionCallOutput
from treadle.testing.script import Answer
from treadle.thread.turn import StoredBytes
from treadle.tools.decorator import tool
from treadle.tools.keeping import open_kept, read_range

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
    async with opened(tmp_path, model, tools=(flood,)) as thread:
        await hear(thread, "go")
        shown = thread.view.rows[-2].item
        assert isinstance(shown, FunctionCallOutput)
        assert isinstance(shown.output, str)
        assert shown.output.startswith("Warning: truncated output (original token count: ")
        handle = shown.output.rpartition("Full output: ")[2].partition(" ")[0]
        kept = StoredBytes(thread.store, thread.id)
        page = await open_kept(kept, handle)
        assert page.size == len(WHOLE)
        middle = WHOLE.index("line 50000\n")
        assert (await read_range(kept, page, middle, 11)).startswith(b"line 50000")


async def test_short_results_stay_as_they_are(tmp_path: Path) -> None:
    model = scripted(Answer(calls=(call("drip"),)), Answer(text="done"))
    async with opened(tmp_path, model, tools=(drip,)) as thread:
        await hear(thread, "go")
        shown = thread.view.rows[-2].item
        assert isinstance(shown, FunctionCallOutput)
        assert shown.output == "drop"
