"""The window of a local model is asked from its server: once, and remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.scenes import hear, last
from treadle import Routing, Thread
from treadle.core.loopback import LoopbackRequest
from treadle.models.catalog import Catalog
from treadle.models.providers import ProviderConfig
from treadle.testing.fake.http import HttpReply
from treadle.testing.fake.server import FakeServer
from treadle.testing.script import Answer, Script

LLAMACPP = {"/v1/models": {"data": [{"id": "/m/tiny.gguf", "meta": {"n_ctx": 65_536}}]}}


class LocalServer(FakeServer):
    """A server that says something of its models, and remembers what it was asked."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__(Script(answers=(Answer(text="Yes.", times=0),)), apis=("chat",))
        self.told, self.hangs = told, asyncio.Event()
        self.hangs.set()

    @property
    def questions(self) -> list[str]:
        return [each.path for each in self.requests if "completions" not in each.path]

    async def _exchange(self, request: LoopbackRequest, reply: HttpReply) -> None:
        if "completions" in request.path:
            await super()._exchange(request, reply)
            return
        self.requests.append(request)
        await self.hangs.wait()
        found = self.told.get(request.path)
        body = json.dumps(found or {}).encode()
        await reply.send_whole(200 if found else 404, {"content-type": "application/json"}, body)


@asynccontextmanager
async def asked(
    home: Path, server: LocalServer, model: str, thread: str | None = None
) -> AsyncIterator[Thread]:
    provider = model.partition(":")[0]
    config = {provider: ProviderConfig(base_url=server.base_url)}
    async with Thread.open(
        thread, model=model, cwd=home, home=home, routing=Routing(environ={}, providers=config)
    ) as opened:
        assert last(await hear(opened, "hi")).text == "Yes."
        yield opened


@pytest.mark.parametrize(
    ("model", "told", "window"),
    [
        (
            "llamacpp:whatever",
            {**LLAMACPP, "/props": {"default_generation_settings": {"n_ctx": 16_384}}},
            16_384,
        ),
        ("llamacpp:whatever", LLAMACPP, 65_536),
        ("vllm:lab", {"/v1/models": {"data": [{"id": "lab", "max_model_len": 40_960}]}}, 40_960),
        ("local:b", {"/v1/models": {"data": [{"id": "a", "n_ctx": 4_096}, {"id": "b"}]}}, 8_192),
        (
            "lmstudio:it",
            {"/api/v0/models": {"data": [{"id": "it", "loaded_context_length": 12_288}]}},
            12_288,
        ),
        (
            "ollama:tiny",
            {
                "/api/ps": {"models": [{"name": "tiny:latest", "context_length": 24_576}]},
                "/api/show": {"model_info": {"x.context_length": 131_072}},
            },
            24_576,
        ),
    ],
)
async def test_each_kind_of_server_says_its_window(tmp_path, model, told, window):
    async with LocalServer(told) as server, asked(tmp_path, server, model) as thread:
        assert thread.log.setup.profile.context_window == window
        assert thread.plan is not None
        assert thread.plan.family == ("small" if window <= 32_768 else "general")


async def test_it_is_asked_once_and_remembered_by_the_next_process(tmp_path: Path):
    told = {"/v1/models": {"data": [{"id": "lab", "max_model_len": 40_960}]}}
    async with LocalServer(told) as server:
        for _ in range(2):
            async with asked(tmp_path, server, "vllm:lab") as thread:
                await hear(thread, "and again")
        assert server.questions == ["/v1/models"]
    profile = Catalog.load(tmp_path / "models.toml").profile("vllm:lab")
    assert (profile.known, profile.context_window) == (True, 40_960)


async def test_a_preview_asks_as_well_and_the_turn_keeps_the_answer(tmp_path: Path):
    told = {"/v1/models": {"data": [{"id": "lab", "max_model_len": 40_960}]}}
    async with LocalServer(told) as server:
        config = {"vllm": ProviderConfig(base_url=server.base_url)}
        routing = Routing(environ={}, providers=config)
        async with Thread.open(
            model="vllm:lab", cwd=tmp_path, home=tmp_path, routing=routing
        ) as thread:
            shown = (await thread.preview("hi")).request.body
            assert not (tmp_path / "model-reports.json").exists()
            assert last(await hear(thread, "hi")).text == "Yes."
        assert server.questions == ["/v1/models"]
        assert server.requests[-1].body == shown
    assert (tmp_path / "model-reports.json").exists()


async def test_a_server_that_does_not_say_is_not_asked_again_by_this_thread(tmp_path: Path):
    async with LocalServer({}) as server:
        async with asked(tmp_path, server, "local:mystery") as thread:
            await hear(thread, "and again")
            assert thread.log.setup.profile.context_window == 8_192
        assert server.questions == ["/v1/models"]


async def test_a_server_that_hangs_holds_the_turn_up_for_a_moment_only(tmp_path: Path):
    async with LocalServer(LLAMACPP) as server:
        server.hangs.clear()
        async with asked(tmp_path, server, "llamacpp:m") as thread:
            assert thread.log.setup.profile.context_window == 8_192
        server.hangs.set()


async def test_what_the_user_wrote_is_not_asked_for(tmp_path: Path):
    (tmp_path / "models.toml").write_text("[models.tiny]\ncontext_window = 20000\n")
    async with LocalServer(LLAMACPP) as server:
        async with asked(tmp_path, server, "llamacpp:tiny") as thread:
            assert thread.log.setup.profile.context_window == 20_000
        assert server.questions == []


async def test_ollama_is_asked_until_the_model_is_loaded(tmp_path: Path):
    told: dict[str, Any] = {
        "/api/ps": {"models": []},
        "/api/show": {"model_info": {"x.context_length": 131_072}},
    }
    async with LocalServer(told) as server, asked(tmp_path, server, "ollama:tiny") as thread:
        assert thread.log.setup.profile.context_window == 8_192
        told["/api/ps"] = {"models": [{"name": "tiny:latest", "context_length": 16_384}]}
        await hear(thread, "and now")
        assert thread.log.setup.profile.context_window == 16_384
        before = len(server.questions)
        await hear(thread, "and later")
        assert len(server.questions) == before
