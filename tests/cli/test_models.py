from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script, ScriptedError

from .terminal import Treadle

LISTS = {
    "/v1/models?limit=1000": {"data": [{"id": "claude-opus-9", "max_input_tokens": 2_000_000}]},
    "/v1/models": {"data": [{"id": "lab/nova", "max_model_len": 40_960}, {"id": "lab/bare"}]},
    "/api/tags": {"models": [{"name": "tiny:7b"}]},
    "/api/ps": {"models": [{"name": "tiny:7b", "context_length": 16_384}]},
    "/api/show": {"capabilities": ["vision"], "model_info": {"x.context_length": 131_072}},
    "/api/v0/models": {"data": [{"id": "vlm-1", "type": "vlm", "max_context_length": 32_768}]},
}


class Lists(BaseHTTPRequestHandler):
    """The lists of several kinds of server."""

    keys: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer()

    def _answer(self) -> None:
        self.keys.append(self.headers.get("authorization"))
        body = LISTS.get(self.path)
        data = json.dumps(body or {}).encode()
        self.send_response(200 if body else 404)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def lists() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    Lists.keys.clear()
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def rows(treadle: Treadle, *args: str) -> dict[str, dict[str, Any]]:
    return {row["model"]: row for row in treadle("models", "--json", *args).json}


def test_models_are_grouped_by_provider_and_one_of_each_is_recommended(treadle):
    assert treadle("models").text.endswith(
        "No provider here has a key; `treadle auth add PROVIDER` stores one.\n"
    )
    treadle.environ["XAI_API_KEY"] = "planted"
    told = treadle("models", "--json").json
    providers = [row["provider"] for row in told]
    assert providers[0] == "xai"
    starts = [name for at, name in enumerate(providers) if providers[at - 1 : at] != [name]]
    assert len(starts) == len({*providers})
    best = {row["provider"]: row["model"] for row in told if row["recommended"]}
    assert best["openai"] == "openai:gpt-6.1-sol"
    assert best["xai"] == told[0]["model"] == "xai:grok-4.7"
    text = treadle("models").text
    assert text.startswith("xai: its key is in the environment\n")
    assert "\n*  grok-4.7 " in text
    assert text.endswith("Recommended: xai:grok-4.7. Name it with `--model xai:grok-4.7`.\n")


def test_neither_beginnings_of_names_nor_code_names_are_offered(treadle):
    names = [name.partition(":")[2] for name in rows(treadle)]
    assert {"gpt-5.5", "claude-opus-5-5"} <= {*names}
    assert {"bengalfox", "boomslang", "exp-codex", "test-gpt-5"}.isdisjoint(names)
    assert [name for name in names if name.endswith(("-", "."))] == []


def test_the_models_of_one_provider_can_be_listed(treadle):
    assert {row["provider"] for row in rows(treadle, "--provider", "gemini").values()} == {"gemini"}
    assert "did you mean 'gemini'?" in treadle.refused("models", "--provider", "gemeni")


def test_a_refresh_takes_what_servers_say_and_the_users_file_has_the_last_word(treadle):
    with lists() as server:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        names = ("VLLM", "OLLAMA", "LMSTUDIO", "ANTHROPIC")
        treadle.environ |= {f"{name}_BASE_URL": url for name in names}
        treadle.environ["ANTHROPIC_API_KEY"] = "planted"
        sources = ("vllm", "ollama", "lmstudio", "anthropic")
        told = treadle("models", "refresh", *sources, "--json")
    assert [(each["source"], each["models"], each["problem"]) for each in told.json] == [
        ("vllm", 2, ""),
        ("ollama", 1, ""),
        ("lmstudio", 1, ""),
        ("anthropic", 1, ""),
    ]
    assert {*Lists.keys} == {None}
    (treadle.home / "models.toml").write_text('[models."vlm-"]\ncontext_window = 8000\n')
    found = rows(treadle)
    assert found["vllm:lab/nova"]["window"] == 40_960
    assert found["ollama:tiny:7b"]["window"] == 16_384
    assert found["ollama:tiny:7b"]["images"]
    assert found["lmstudio:vlm-1"]["window"] == 8_000
    assert found["anthropic:claude-opus-9"]["window"] == 2_000_000
    origin, _, day = found["vllm:lab/bare"]["reported"].partition(", ")
    assert origin == url
    assert len(day) == len("2026-11-16")


def test_a_refresh_that_fails_keeps_the_earlier_report_and_says_why(treadle):
    with lists() as server:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        treadle.environ["VLLM_BASE_URL"] = url
        treadle("models", "refresh", "vllm")
        treadle.environ["VLLM_BASE_URL"] = f"{url}/none"
        failed = treadle.attempt("models", "refresh", "vllm")
    assert failed.code == 1
    assert failed.text == f"vllm: {url}/none/models answered 404; check the address and the key\n"
    assert "vllm:lab/nova" in rows(treadle)
    assert "did you mean 'vllm'?" in treadle.refused("models", "refresh", "vlm")


def test_a_refresh_takes_what_the_users_own_codex_says(treadle, tmp_path):
    own = tmp_path / "own-codex"
    own.mkdir()
    treadle.environ["CODEX_HOME"] = str(own)
    told = treadle("models", "refresh", "codex", "--json").json
    assert [(each["source"], each["problem"]) for each in told] == [("codex", "")]
    found = rows(treadle, "--provider", "openai")
    assert found["openai:gpt-5.5"]["reported"].startswith("Codex 0.")
    assert found["openai:gpt-5.5"]["window"] == 272_000
    assert [name for name, row in found.items() if row["recommended"]] == ["openai:gpt-6.1-sol"]


def test_another_spelling_of_codex_is_planned_for_codex(treadle):
    told = treadle("plan", "x", "--model", "codex/gpt-5.5", "--json").json
    target = told["target"]
    assert (target["provider"], target["model"], target["harness"]) == ("codex", "gpt-5.5", "codex")
    assert told["harness"]["reason"] == "auto_plugin"


async def test_a_model_that_its_provider_does_not_know_is_answered_with_what_was_meant(treadle):
    gone = ScriptedError(status=404, code="model_not_found", message="no such model")
    async with FakeServer(Script(answers=(Answer(error=gone),))) as server:
        treadle.environ |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-planted"}
        said = await asyncio.to_thread(treadle.refused, "exec", "x", "--model", "openai:gtp-5.5")
    assert said.endswith(
        "did you mean 'openai:gpt-5.5'? "
        "`treadle models --provider openai` lists the models that Treadle knows\n"
    )
