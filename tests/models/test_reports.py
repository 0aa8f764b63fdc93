from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.core.errors import ConfigError
from treadle.models.catalog import Catalog
from treadle.models.model_lists import (
    codex_default,
    read_codex_list,
    read_ollama,
    read_ollama_windows,
    read_server_list,
)
from treadle.models.model_reports import ModelReport, ModelReports, load_reports, store_report


def report(provider: str, models: dict[str, Any], at: str = "2026-11-16T10:00:00Z") -> ModelReport:
    return ModelReport(provider=provider, origin="http://x.example/v1", at=at, models=models)


def listed(*models: object, key: str = "data") -> dict[str, Any]:
    return read_server_list(json.dumps({"object": "list", key: models}).encode())


def test_servers_say_windows_and_images_each_in_its_own_fields():
    sees = {"image_input": {"supported": True}}
    assert listed(
        {
            "id": "x-ai/grok-9",
            "context_length": 400_000,
            "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
            "top_provider": {"context_length": 300_000},
        },
        {"id": "Qwen/Qwen9", "object": "model", "max_model_len": 40_960},
        {"id": "vision-7b", "type": "vlm", "max_context_length": 32_768},
        {"id": "lean-7b", "type": "llm", "loaded_context_length": 8_192, "max_context_length": 9},
        {"id": "fast-70b", "context_window": 131_072},
        {"id": "claude-x", "max_input_tokens": 10**6, "capabilities": sees},
        {"id": "mistral-x", "max_context_length": 5_000, "capabilities": {"vision": False}},
        {"id": "local.gguf", "meta": {"n_ctx": 4_096, "n_ctx_train": 131_072}},
        {"id": "models/gemini-9"},
    ) == {
        "x-ai/grok-9": {"context_window": 400_000, "images": True},
        "Qwen/Qwen9": {"context_window": 40_960},
        "vision-7b": {"context_window": 32_768, "max_context_window": 32_768, "images": True},
        "lean-7b": {"context_window": 8_192, "max_context_window": 9, "images": False},
        "fast-70b": {"context_window": 131_072},
        "claude-x": {"context_window": 10**6, "images": True},
        "mistral-x": {"context_window": 5_000, "max_context_window": 5_000, "images": False},
        "local.gguf": {"context_window": 4_096},
        "gemini-9": {},
    }


def test_a_list_without_an_envelope_is_read_and_what_writes_no_text_is_left_out():
    body = [
        {"id": "a", "context_length": 7},
        {"id": "text-embedding-x", "type": "embeddings"},
        {"id": "painter", "architecture": {"output_modalities": ["image"]}},
    ]
    assert read_server_list(json.dumps(body).encode()) == {"a": {"context_window": 7}}


def test_what_a_list_gets_wrong_is_left_to_the_catalog():
    assert listed(
        {"id": "a", "context_length": "big"},
        {"id": "b", "context_length": -1, "max_model_len": True},
        {"id": 5},
        "c",
    ) == {"a": {}, "b": {}}


@pytest.mark.parametrize("body", [b"no", b"3", b'{"error":"who"}', b'{"data":{}}', b"\xff"])
def test_a_list_in_no_known_shape_is_an_error(body):
    with pytest.raises(ConfigError, match="its list of models"):
        read_server_list(body)


def test_ollama_says_the_window_that_is_loaded_before_the_one_that_is_set():
    shown = {
        "capabilities": ["completion", "vision", "tools"],
        "model_info": {"llama.context_length": 131_072, "general.architecture": "llama"},
        "parameters": 'stop "<|x|>"\nnum_ctx                        8192',
    }
    body = json.dumps(shown).encode()
    assert read_ollama(body) == {
        "context_window": 8_192,
        "max_context_window": 131_072,
        "images": True,
    }
    assert read_ollama(body, 32_768)["context_window"] == 32_768
    bare = json.dumps({**shown, "parameters": "", "capabilities": ["completion"]}).encode()
    assert read_ollama(bare) == {
        "context_window": 131_072,
        "max_context_window": 131_072,
        "images": False,
    }
    running = b'{"models":[{"name":"a:7b","model":"a:7b","context_length":4096},{"name":"b"}]}'
    assert read_ollama_windows(running) == {"a:7b": 4_096}


def test_the_list_of_codex_says_all_that_the_catalog_holds():
    model = {
        "slug": "gpt-9-nova",
        "visibility": "list",
        "priority": 1,
        "context_window": 500_000,
        "max_context_window": 900_000,
        "supported_reasoning_levels": [{"effort": "low"}, {"effort": "max"}],
        "default_reasoning_level": "low",
        "input_modalities": ["text"],
        "apply_patch_tool_type": "freeform",
        "shell_type": "unheard_of",
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "support_verbosity": True,
        "default_verbosity": "low",
        "comp_hash": "4000",
        "service_tiers": [{"id": "priority", "name": "Fast"}],
    }
    other = {"slug": "gpt-9-hidden", "visibility": "hide", "priority": 0}
    listing = json.dumps({"models": [model, other]}).encode()
    found = read_codex_list(listing)
    assert found["gpt-9-nova"] == {
        "provider": "openai",
        "context_window": 500_000,
        "max_context_window": 900_000,
        "truncation": {"mode": "tokens", "limit": 10_000},
        "apply_patch": "freeform",
        "efforts": ["low", "max"],
        "default_effort": "low",
        "verbosity": True,
        "default_verbosity": "low",
        "images": False,
        "service_tiers": ["priority"],
        "comp_hash": "4000",
    }
    assert codex_default(listing) == "gpt-9-nova"
    with pytest.raises(ConfigError, match="cannot read the model list of this Codex"):
        read_codex_list(b'{"models":[]}')


def test_a_report_beats_the_catalog_and_loses_to_the_users_file(tmp_path):
    said = {"context_window": 50_000, "images": True}
    store_report(tmp_path, "openai", report("openai", {"gpt-5.5": said, "brand-new": said}))
    catalog = Catalog.load(tmp_path / "models.toml")
    assert catalog.profile("openai:gpt-5.5").context_window == 50_000
    assert catalog.profile("codex:gpt-5.5").context_window == 50_000
    assert catalog.profile("azure:gpt-5.5").context_window == 272_000
    assert catalog.profile("gpt-5.5-2026-04-23").context_window == 272_000
    assert (catalog.profile("brand-new").known, catalog.profile("brand-new").images) == (True, True)
    (tmp_path / "models.toml").write_text('[models."gpt-5.5"]\ncontext_window = 9000\n')
    assert Catalog.load(tmp_path / "models.toml").profile("gpt-5.5").context_window == 9_000


def test_a_report_replaces_the_one_of_its_source_and_the_later_of_two_counts(tmp_path):
    store_report(tmp_path, "codex", report("openai", {"m": {"context_window": 1}}))
    store_report(tmp_path, "codex", report("openai", {"n": {"context_window": 2}}))
    later = report("openai", {"n": {"images": True}, "o": {}}, at="2026-11-17T10:00:00Z")
    store_report(tmp_path, "openai", later)
    assert load_reports(tmp_path).facts() == {
        "openai": {"n": {"context_window": 2, "images": True}, "o": {}}
    }


def test_a_damaged_file_of_reports_is_ignored(tmp_path, caplog):
    (tmp_path / "model-reports.json").write_bytes(b"{")
    assert load_reports(tmp_path) == ModelReports()
    assert "run `treadle models refresh`" in caplog.text
    assert Catalog.load(tmp_path / "models.toml").profile("gpt-5.5").known
