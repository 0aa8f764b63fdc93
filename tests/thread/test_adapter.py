"""An adapter of a host says what its model can do and what its API takes."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.harness.scenes import hear, last, of
from treadle import Thread
from treadle.core.errors import CannotCompact, ConfigError, UnsupportedHarness
from treadle.core.items import Message, OutputText, encode_item
from treadle.core.specs import CustomTool, TextFormat
from treadle.core.stream import CompletedBody, OutputItemDone, ResponseCompleted
from treadle.harness.codex.harness import CodexHarness
from treadle.harness.events import NoticeRaised
from treadle.models.contract import Capabilities, Connected, ModelEvent, ModelRequest, WireFormat
from treadle.models.formats import format_named
from treadle.prompt.input import LocalImage
from treadle.testing.thread_keywords import open_keywords

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Plain:
    """A host's own model, that answers by itself."""

    name = "attic:tiny"

    def __init__(self, api: str = "responses", **capabilities: Any) -> None:
        self.capabilities = Capabilities(**capabilities)
        self.format: WireFormat = format_named(api)
        self.sent: list[dict[str, Any]] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        self.sent.append(msgspec.json.decode(request.body))
        yield [Connected()]
        said = Message(role="assistant", content=(OutputText("hi"),))
        completed = ResponseCompleted(response=CompletedBody(id="r1"))
        yield [OutputItemDone(Raw(encode_item(said))), completed]

    async def close(self) -> None: ...


class Described(Plain):
    """The same, which knows facts about itself."""

    metadata: Mapping[str, object] = {
        "context_window": 32_000,
        "images": True,
        "efforts": ["low", "high"],
        "default_effort": "low",
        "reasoning_summary": "auto",
        "apply_patch": "freeform",
    }


def options(place: Path, model: Plain, **more: Any) -> dict[str, Any]:
    home = place / "home"
    home.mkdir(exist_ok=True)
    return open_keywords(model=model, home=home, cwd=place, **more)


async def test_what_an_adapter_says_of_its_model_is_what_counts(tmp_path):
    picture = tmp_path / "pixel.png"
    picture.write_bytes(PIXEL)
    model = Described(images=True, reasoning_summaries=True, freeform_tools=True)
    async with Thread.open(**options(tmp_path, model)) as thread:
        profile = thread.log.setup.profile
        assert (profile.provider, profile.slug, profile.known) == ("attic", "tiny", True)
        assert profile.effective_window == 32_000 * 95 // 100
        events = await hear(thread, "see", LocalImage(picture))
        assert (await thread.foresee()).params.effort == "low"
    assert last(events).text == "hi"
    (sent,) = model.sent
    assert sent["model"] == "tiny"
    assert sent["reasoning"] == {"effort": "low", "summary": "auto"}
    assert "input_image" in str(sent["input"])
    assert [tool["name"] for tool in sent["tools"] if tool["type"] == "custom"] == ["apply_patch"]


async def test_nothing_is_sent_that_the_adapters_api_does_not_take(tmp_path):
    picture = tmp_path / "pixel.png"
    picture.write_bytes(PIXEL)
    model = Described(parallel_tool_calls=False)
    async with Thread.open(**options(tmp_path, model)) as thread:
        assert last(await hear(thread, "see", LocalImage(picture))).text == "hi"
    (sent,) = model.sent
    assert "prompt_cache_key" not in sent
    assert sent["reasoning"] == {"effort": "low"}
    assert sent["parallel_tool_calls"] is False
    assert "input_image" not in str(sent["input"])
    tools = {tool["name"]: tool["type"] for tool in sent["tools"]}
    assert (tools["apply_patch"], set(tools.values())) == ("function", {"function"})
    assert "view_image" not in tools


async def test_the_users_catalog_wins_over_what_an_adapter_says(tmp_path):
    (tmp_path / "home").mkdir()
    catalog = tmp_path / "home" / "models.toml"
    catalog.write_text('providers = ["attic"]\n[models.tiny]\ncontext_window = 16000\n')
    async with Thread.open(**options(tmp_path, Described())) as thread:
        assert thread.log.setup.profile.context_window == 16_000
        assert thread.log.setup.profile.default_effort == "low"


async def test_a_schema_that_the_api_does_not_take_is_refused_before_anything_is_sent(tmp_path):
    model = Plain()
    async with Thread.open(**options(tmp_path, model, tools=())) as thread:
        with pytest.raises(ConfigError, match="'tiny' takes no output schema; leave `schema` out"):
            await hear(thread, "go", schema=Raw(b'{"type":"object"}'))
        assert model.sent == []
        assert last(await hear(thread, "go")).text == "hi"


async def test_a_freeform_tool_is_not_offered_where_only_functions_are_taken(tmp_path):
    free = CustomTool(name="scribble", description="Writes.", format=TextFormat())
    model = Plain()
    async with Thread.open(**options(tmp_path, model, tools=(free,))) as thread:
        events = await hear(thread, "go")
    assert model.sent[0]["tools"] == []
    (notice,) = of(events, NoticeRaised)
    assert "'scribble' is not offered" in notice.text


async def test_a_fact_that_no_profile_has_is_named(tmp_path):
    class Wrong(Plain):
        metadata: Mapping[str, object] = {"contextwindow": 5}

    with pytest.raises(ConfigError, match="metadata of 'tiny': key 'contextwindow' is unknown"):
        async with Thread.open(**options(tmp_path, Wrong())):
            pass


async def test_an_adapter_that_only_claims_to_compact_is_asked_for_a_summary(tmp_path):
    model = Plain(remote_compaction="endpoint")
    async with Thread.open(**options(tmp_path, model, tools=())) as thread:
        await hear(thread, "go")
        with pytest.raises(CannotCompact, match="would take it from"):
            await thread.compact()
    assert len(model.sent) == 2


@pytest.mark.parametrize("caches", [True, False])
async def test_a_summary_is_asked_for_with_tools_only_where_they_are_cached(tmp_path, caches):
    model = Plain(caches_prefixes=caches)
    async with Thread.open(**options(tmp_path, model)) as thread:
        await hear(thread, "go")
        with pytest.raises(CannotCompact, match="would take it from"):
            await thread.compact()
    turn, question = model.sent
    assert bool(question["tools"]) == caches
    assert turn["tools"]


async def test_a_harness_that_asks_providers_itself_is_refused_with_a_model_of_the_host(tmp_path):
    model = Plain()
    model.name = "openai:gpt-5.5"
    codex = CodexHarness(home=tmp_path / "home", environ={"PATH": "", "HOME": str(tmp_path)})
    with pytest.raises(UnsupportedHarness, match="never the object that the host brought"):
        async with Thread.open(**options(tmp_path, model, harness=codex)):
            pass
    async with Thread.open(**options(tmp_path, model)) as thread:
        assert last(await hear(thread, "go")).text == "hi"
