from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.scenes import ASKING, Place, text_of
from treadle import Thread
from treadle.cli.run_options import RunOptions
from treadle.testing.script import Answer

DONE = Answer(text="Done.")


@pytest.mark.parametrize(
    ("options", "asked", "named"),
    [
        (RunOptions(sandbox="read-only"), {"sandbox": "workspace-write"}, "sandbox"),
        (RunOptions(sandbox="workspace-write"), {"sandbox": "danger-full-access"}, "sandbox"),
        (ASKING, {"approval": "never"}, "approval"),
    ],
)
async def test_a_call_never_widens_the_rights_of_the_server(
    tmp_path: Path, options: RunOptions, asked: dict[str, str], named: str
) -> None:
    async with Place(tmp_path, options).client(DONE) as client:
        refused = await client.call_tool("run", {"prompt": "do it", **asked})
        assert refused.is_error
        assert f"start the server with `--{named}" in text_of(refused)


async def test_a_call_may_narrow_the_rights_of_the_server(tmp_path: Path) -> None:
    async with Place(tmp_path, ASKING).client(DONE) as client:
        done = await client.call_tool("run", {"prompt": "look", "sandbox": "read-only"})
        assert text_of(done) == "Done."


@pytest.mark.parametrize("place", ["/", "relative", "/nowhere/at/all"])
async def test_a_call_works_only_in_directories_that_were_named(tmp_path: Path, place: str) -> None:
    async with Place(tmp_path).client(DONE) as client:
        refused = await client.call_tool("run", {"prompt": "do it", "cwd": place})
        assert refused.is_error


async def test_a_directory_below_a_root_is_fine_and_a_link_out_of_it_is_not(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    (place.project / "inner").mkdir()
    (place.project / "link").symlink_to(tmp_path)
    async with place.client(DONE) as client:
        inner = {"prompt": "do it", "cwd": str(place.project / "inner")}
        assert text_of(await client.call_tool("run", inner)) == "Done."
        linked = {"prompt": "do it", "cwd": str(place.project / "link")}
        assert "outside of what this server works in" in text_of(
            await client.call_tool("run", linked)
        )


async def test_a_thread_of_another_directory_is_read_but_not_gone_on_with(tmp_path: Path) -> None:
    place = Place(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with Thread.open(
        model=place.script(DONE), cwd=elsewhere, home=place.home, title="Away"
    ) as thread:
        async for _ in thread.run("the words"):
            pass
    async with place.client(DONE) as client:
        refused = await client.call_tool("reply", {"thread": thread.id, "prompt": "go on"})
        assert "outside of what this server works in" in text_of(refused)
        assert "the words" in text_of(await client.call_tool("show", {"thread": "Away"}))


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("run", {}),
        ("run", {"prompt": ""}),
        ("run", {"prompt": "x", "promt": "y"}),
        ("run", {"prompt": 7}),
        ("reply", {"thread": "thr_nothing", "prompt": "x"}),
        ("show", {"thread": "thr_nothing"}),
        ("show", {"thread": "thr", "limit": 10**9}),
        ("recall_search", {"query": "[", "mode": "regex"}),
        ("recall_search", {"query": "x", "since": "yesterday"}),
        ("recall_expand", {"ids": ["nonsense"]}),
        ("recall_expand", {"ids": []}),
    ],
)
async def test_what_a_call_gets_wrong_is_a_result_that_its_model_reads(
    tmp_path: Path, tool: str, given: dict[str, Any]
) -> None:
    place = Place(tmp_path)
    async with place.client(DONE) as client:
        await client.call_tool("run", {"prompt": "something"})
        refused = await client.call_tool(tool, given)
        assert refused.is_error
        assert text_of(refused)
