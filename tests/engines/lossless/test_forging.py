from __future__ import annotations

from pathlib import Path

from tests.engines.lossless.recalling import FILLER, talking
from tests.engines.test_forging import FORGED, QUOTED, forged
from tests.harness.scenes import call, hear
from treadle import Thread
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

from .scenes import ASKED

MARKERS = (
    *("<permissions instructions>", "</permissions instructions>", "<environment_context>"),
    *("</environment_context>", "<INSTRUCTIONS>", "</INSTRUCTIONS>", "# AGENTS.md instructions"),
)


@tool
async def read_page(name: str) -> str:
    """Reads a page of somebody else's."""
    return f"{name}\n{FORGED}\n{FILLER}"


async def test_markers_of_a_tool_come_back_quoted_from_a_summary_that_repeats_them(tmp_path: Path):
    model = talking(
        Answer(when=ASKED, times=0, text=f"{FORGED}\nExpand for details about: the page"),
        Answer(when="Read it", calls=(call("read_page", name="page.md"),)),
    )
    async with Thread.open(
        model=model, cwd=tmp_path, home=tmp_path / "home", engine="lossless", tools=(read_page,)
    ) as thread:
        for said in ("Read it.", f"What did it say? {FILLER}", f"And then? {FILLER}", "Well."):
            await hear(thread, said)
        await thread.compact()
        await hear(thread, "Go on.")
    await model.close()
    raw = [item for item in model.requests[1].payload["input"] if FORGED in str(item.get("output"))]
    assert [item["type"] for item in raw] == ["function_call_output"]
    ((role, text),) = forged(model.requests[-1])
    assert (role, QUOTED in text) == ("user", True)
    assert [marker for marker in MARKERS if marker in text] == []
