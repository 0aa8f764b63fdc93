from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from treadle.core.errors import ConfigError
from treadle.models.catalog import Catalog
from treadle.models.chat_model import ChatModel
from treadle.models.contract import AuthFailed, Capabilities, Model
from treadle.models.endpoint import HttpModel
from treadle.models.messages_model import MessagesModel
from treadle.models.providers import ProviderConfig, open_model, provider_names
from treadle.models.responses_model import ResponsesModel
from treadle.models.transport import AsyncTransport
from treadle.testing.contracts.answers import collect, done_messages
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script

from .requests import request

KEYS = {
    "OPENAI_API_KEY": "sk-openai-secret",
    "ANTHROPIC_API_KEY": "sk-ant-secret",
    "GROQ_API_KEY": "gsk-secret",
}


@pytest.fixture
async def transport() -> AsyncIterator[AsyncTransport]:
    async with AsyncTransport() as made:
        yield made


def opened(name: str, transport: AsyncTransport | None = None, **fields: Any) -> Model:
    fields = {"environ": KEYS, "catalog": Catalog.load(), **fields}
    return open_model(name, transport=transport, **fields)


def address(model: Model) -> str:
    assert isinstance(model, HttpModel)
    return model.endpoint.base_url


async def test_each_provider_has_its_adapter_and_its_address(transport: AsyncTransport):
    found: dict[str, tuple[type, str, str]] = {
        name: (type(model), address(model), model.name)
        for name in ("openai:gpt-5.5", "gpt-5.5", "anthropic:claude-opus-5", "ollama:llama3.1:70b")
        for model in (opened(name, transport),)
    }
    openai = (ResponsesModel, "https://api.openai.com/v1", "openai:gpt-5.5")
    assert found == {
        "openai:gpt-5.5": openai,
        "gpt-5.5": openai,
        "anthropic:claude-opus-5": (
            MessagesModel,
            "https://api.anthropic.com/v1",
            "anthropic:claude-opus-5",
        ),
        "ollama:llama3.1:70b": (ChatModel, "http://127.0.0.1:11434/v1", "ollama:llama3.1:70b"),
    }


async def test_the_environment_moves_a_provider(transport: AsyncTransport):
    environ = {
        **KEYS,
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1/",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:2",
    }
    for name, url in (("openai", "http://127.0.0.1:1/v1"), ("anthropic", "http://127.0.0.1:2/v1")):
        model = opened(f"{name}:m", transport, environ=environ)
        assert address(model) == url


def test_a_missing_key_names_the_variable_and_the_command():
    with pytest.raises(AuthFailed, match=r"run `treadle auth add groq`, or set GROQ_API_KEY"):
        opened("groq:llama", environ={})


def test_an_unknown_provider_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'anthropic'"):
        opened("antropic:claude-opus-5")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("google:gemini-4-argon", "did you mean 'gemini'?"),
        ("claude-code:opus", "did you mean 'anthropic'?"),
        ("mistral-ai:mistral-large-4", "did you mean 'mistral'?"),
        ("gpt-oss:20b", "did you mean 'ollama:gpt-oss'?"),
        ("codexx:gpt-5.5", "did you mean 'codex'?"),
    ],
)
def test_what_is_no_provider_is_never_taken_for_a_part_of_a_slug(name, hint):
    with pytest.raises(ConfigError, match=re.escape(hint)):
        opened(name)


async def test_other_spellings_of_a_provider_open_its_models(transport: AsyncTransport):
    names = ("openai-codex:brand-new", "codex-cli/gpt-5.5", "claude-opus-9-v1:0", "qwen:7b")
    assert [opened(name, transport=transport).name for name in names] == [
        "openai:brand-new",
        "openai:gpt-5.5",
        "anthropic:claude-opus-9-v1:0",
        "local:qwen:7b",
    ]


def test_a_provider_without_an_address_says_what_to_set():
    config = {"attic": ProviderConfig(key_required=False)}
    with pytest.raises(ConfigError, match="ATTIC_BASE_URL"):
        opened("attic:coder", config=config)


async def test_the_config_adds_and_changes_providers(transport: AsyncTransport):
    config = {
        "attic": ProviderConfig(base_url="http://127.0.0.1:9/v1", key_required=False),
        "openai": ProviderConfig(api="chat", base_url="http://127.0.0.1:8/v1", key="own"),
    }
    attic = opened("attic:coder:7b", transport, config=config)
    openai = opened("openai:gpt-5.5", transport, config=config, environ={})
    assert (type(attic), attic.name) == (ChatModel, "attic:coder:7b")
    assert isinstance(openai, ChatModel)
    assert address(openai) == "http://127.0.0.1:8/v1"


async def test_no_key_is_ever_shown(transport: AsyncTransport):
    for name in ("openai:m", "anthropic:m", "groq:m"):
        assert "secret" not in repr(opened(name, transport))
    assert "own-key" not in repr(ProviderConfig(key="own-key"))


async def test_a_model_opened_by_name_answers():
    async with FakeServer(Script(answers=(Answer(text="here"),))) as server:
        model = opened("ollama:m", environ={"OLLAMA_BASE_URL": server.base_url})
        events = await collect(model, request(model))
        await model.close()
    assert len(done_messages(events)) == 1


async def test_a_shared_transport_stays_open(transport: AsyncTransport):
    async with FakeServer(Script(answers=(Answer(text="x", times=0),))) as server:
        environ = {"OLLAMA_BASE_URL": server.base_url}
        first, second = (opened("ollama:m", transport, environ=environ) for _ in range(2))
        await collect(first, request(first))
        await first.close()
        await collect(second, request(second))
    assert server.connections == 1


def test_capabilities_follow_the_api_and_the_model():
    assert opened("openai:gpt-5.5").capabilities == Capabilities(
        reasoning_summaries=True,
        output_schema=True,
        prompt_cache_key=True,
        remote_compaction="endpoint",
        images=True,
        freeform_tools=True,
        deferred_tools=True,
    )
    assert opened("ollama:m").capabilities == Capabilities(output_schema=True)


def test_a_script_is_a_model(tmp_path: Path):
    script = tmp_path / "demo.toml"
    script.write_text('api = "chat"\n[[answer]]\ntext = "hi"\n')
    model = opened(f"scripted:{script}")
    assert (model.name, model.format.name) == (f"scripted:{script}", "chat")


def test_other_packages_add_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "cellar-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: cellar\nVersion: 1.0\n")
    points = "[treadle.models]\ncellar = cellar_models:opener\nbroken = cellar_models:missing\n"
    (package / "entry_points.txt").write_text(points)
    (tmp_path / "cellar_models.py").write_text("def opener(opening):\n    return opening\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    opening: Any = opened("cellar:red:1990")
    assert (opening.provider, opening.model) == ("cellar", "red:1990")
    assert "cellar" in provider_names()
    assert "secret" not in repr(opening)
    with pytest.raises(ConfigError, match="'cellar_models:missing' of 'cellar': AttributeError: "):
        opened("broken:x")
    sys.modules.pop("cellar_models")


def test_the_catalog_knows_every_provider_that_can_be_opened():
    catalog = Catalog.load()
    assert [name for name in provider_names() if catalog.split(f"{name}:m") != (name, "m")] == []
