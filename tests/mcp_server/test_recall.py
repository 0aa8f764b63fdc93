from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from mcp import types
from tests.mcp_server.scenes import NEW, OLD, Place, fields_of, text_of
from treadle.core.redact import add_secrets
from treadle.testing.script import Answer

both_eras = pytest.mark.parametrize("era", [OLD, NEW])
SECRET = "correct-horse-battery-staple-9917"


def digests(home: Path) -> Iterator[tuple[str, str]]:
    """What is stored, without the index, which is made of it."""
    for file in sorted(home.rglob("*")):
        if file.is_file() and not file.name.startswith("index.db"):
            yield file.name, hashlib.sha256(file.read_bytes()).hexdigest()


@both_eras
async def test_what_was_said_is_found_and_read_whole(tmp_path: Path, era: str) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text="We chose the treadle."), era=era) as client:
        ran = fields_of(await client.call_tool("run", {"prompt": "which loom did we choose?"}))
        found = fields_of(await client.call_tool("recall_search", {"query": "chose loom"}))
        assert {each["thread"] for each in found["items"]} == {ran["thread"]}
        best = next(each for each in found["items"] if each["role"] == "assistant")
        read = fields_of(await client.call_tool("recall_expand", {"ids": [best["id"]]}))
        assert [each["text"] for each in read["entries"]] == ["We chose the treadle."]
        only = {
            "query": "loom",
            "roles": ["user"],
            "since": "2026-01-01",
            "threads": [ran["thread"]],
        }
        assert len(fields_of(await client.call_tool("recall_search", only))["items"]) == 1


async def test_reading_writes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text="Done.")) as client:
        thread = fields_of(await client.call_tool("run", {"prompt": "do it"}))["thread"]
    before = dict(digests(place.home))
    async with place.client() as client:
        await client.call_tool("threads", {})
        await client.call_tool("show", {"thread": thread})
        await client.call_tool("recall_search", {"query": "do"})
        for resource in (await client.list_resources()).resources:
            await client.read_resource(resource.uri)
    assert dict(digests(place.home)) == before


@both_eras
async def test_an_empty_home_is_empty_and_stays_so(tmp_path: Path, era: str) -> None:
    place = Place(tmp_path)
    async with place.client(era=era) as client:
        assert fields_of(await client.call_tool("threads", {}))["threads"] == []
        assert fields_of(await client.call_tool("recall_search", {"query": "x"}))["items"] == []
        assert (await client.list_resources()).resources == []
    assert list(place.home.iterdir()) == []


@both_eras
async def test_threads_and_ledgers_are_resources(tmp_path: Path, era: str) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text="A *fine* answer."), era=era) as client:
        ran = fields_of(await client.call_tool("run", {"prompt": "ask", "title": "Looms"}))
        page, ledger = (await client.list_resources()).resources
        assert (page.uri, page.name) == (f"thread://{ran['thread']}", "Looms")
        (read,) = (await client.read_resource(page.uri)).contents
        assert isinstance(read, types.TextResourceContents)
        assert "A *fine* answer." in read.text
        (book,) = (await client.read_resource(ledger.uri)).contents
        assert isinstance(book, types.TextResourceContents)
        assert '"unexplained":0' in book.text
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == ["thread://{id}", "ledger://{id}"]


@pytest.mark.parametrize(("era", "code"), [(OLD, -32002), (NEW, types.INVALID_PARAMS)])
@pytest.mark.parametrize("uri", ["thread://thr_none", "file:///etc/passwd", "thread://"])
async def test_a_resource_that_is_not_there_has_the_code_of_its_era(
    tmp_path: Path, era: str, code: int, uri: str
) -> None:
    async with Place(tmp_path).client(era=era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.error.code == code


async def test_resources_come_in_pages(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text="Yes.")) as client:
        for number in range(2):
            await client.call_tool("run", {"prompt": f"task {number}"})
        listed = await client.list_resources()
        assert (len(listed.resources), listed.next_cursor) == (4, None)
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor="-1")


@both_eras
async def test_nothing_that_is_sent_holds_a_known_secret(tmp_path: Path, era: str) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text=f"The key is {SECRET}."), era=era) as client:
        # It becomes known only after it was logged.
        ran = await client.call_tool("run", {"prompt": f"remember {SECRET}"})
        thread = fields_of(ran)["thread"]
        add_secrets(SECRET)
        answers = [
            await client.call_tool("show", {"thread": thread}),
            await client.call_tool("recall_search", {"query": "key"}),
            await client.call_tool("recall_expand", {"ids": [f"{thread}:1-20"]}),
            await client.call_tool("threads", {}),
        ]
        pages = [
            await client.read_resource(each.uri)
            for each in (await client.list_resources()).resources
        ]
    for told in (*answers, *pages):
        assert SECRET not in told.model_dump_json()
    assert "The key is" in text_of(answers[0])
