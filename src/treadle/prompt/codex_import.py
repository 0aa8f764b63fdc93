"""The import of prompts: asks a locally installed Codex for its own texts.

Owns the runs of the binary: its bundled model list, and one real compaction against a
loopback server, whose requests show the prompt and the summary prefix. Invariant: the binary
runs in a private home, reaches nothing but 127.0.0.1, and has ended when the import ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ..core.errors import ConfigError
from ..core.install import install_command
from ..core.loopback import LoopbackRequest, LoopbackResponse, LoopbackServer, text_response
from ..core.search_path import find_programs
from ..core.typed import decode_json
from .imported_prompts import PLAIN_NAME, ImportedPrompts

__all__ = [
    "Progress",
    "PromptImport",
    "bundled_models",
    "find_codex",
    "find_codexes",
    "import_prompts",
    "own_models",
]

Progress: TypeAlias = Callable[[str], None]
"""Called with what is being done, in a few words."""

_TIMEOUT = 60.0
_SUMMARY = "Nothing has happened yet; this line stands for a summary."
_FULL = 10_000_000
"""Tokens that fill any window, so that the next turn begins with a compaction."""

# A model that the binary does not know uses the plain wire format in every version.
_CONFIG = """\
model = "treadle-probe"
model_provider = "treadle"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
project_doc_max_bytes = 0
web_search = "disabled"

[model_providers.treadle]
name = "treadle"
base_url = "{base_url}"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 20000

[analytics]
enabled = false

[features]
plugins = false
apps = false
unbounded_connection_retries = false
"""


class PromptImport(Struct, frozen=True, kw_only=True):
    """The result of an import."""

    binary: str
    version: str
    directory: str
    models: tuple[str, ...]
    files: int


class _Model(Struct):
    slug: str
    base_instructions: str


class _Listing(Struct):
    models: list[_Model]


def find_codex(search: str | None = None) -> Path:
    """Return the first of `find_codexes`."""
    return find_codexes(search)[0]


def find_codexes(search: str | None = None) -> tuple[Path, ...]:
    """Return the Codex binaries on a search path, then the one in the installed extra.

    Raises `ConfigError` if there is none.
    """
    found = list(find_programs("codex", search))
    try:
        found.append(Path(importlib.import_module("codex_cli_bin").bundled_codex_path()))
    except (ImportError, FileNotFoundError) as error:
        if not found:
            raise ConfigError(
                "no Codex was found; install one so that `codex` is on the search path, "
                f"or run {install_command('codex')}"
            ) from error
    return tuple(dict.fromkeys(found))


async def bundled_models(binary: Path) -> bytes:
    """Return the list of models in `binary`, as it prints it. Raises `ConfigError`."""
    async with _in_private_home(binary) as codex:
        return await codex.run("debug", "models", "--bundled")


async def own_models(binary: Path, directory: Path) -> bytes:
    """Return the models that `binary` offers the user whose Codex home is `directory`.

    Unlike the bundled ones, they are those of the user's login and settings. Where there is
    no such directory, they are those that a new user gets. Raises `ConfigError`.
    """
    async with _in_private_home(binary) as codex:
        has_home = await asyncio.to_thread(directory.is_dir)
        user = {**os.environ, "CODEX_HOME": str(directory)} if has_home else None
        return await replace(codex, environ=user).run("debug", "models")


async def import_prompts(
    binary: Path, home: Path, progress: Progress = lambda _: None
) -> PromptImport:
    """Read the prompts of `binary` and store them in `home` instead of earlier ones.

    Raises `ConfigError` when the binary cannot be run or answers in another shape;
    what was imported before is then untouched.
    """
    async with _in_private_home(binary) as codex:
        version = (await codex.run("--version")).decode(errors="replace").strip()
        progress(f"reading the models of {version}")
        models = _instructions(await codex.run("debug", "models", "--bundled"), version)
        progress("capturing a compaction")
        prompt, prefix = await _capture(codex, version)
    texts = {f"models/{slug}.md": text for slug, text in models.items()}
    texts |= {"compact.md": prompt, "summary_prefix.md": prefix}
    imported = ImportedPrompts(home)
    await asyncio.to_thread(imported.replace, texts, source="codex", version=version)
    progress(f"kept {len(texts)} texts")
    return PromptImport(
        binary=str(binary),
        version=version,
        directory=str(imported.directory),
        models=tuple(models),
        files=len(texts),
    )


@dataclass(frozen=True, slots=True)
class _Codex:
    """A binary that runs in a private directory, and home unless another is given."""

    binary: Path
    scratch: Path
    environ: Mapping[str, str] | None = None
    """The variables of its runs; those of the private home where none are given."""

    async def configure(self, config: str) -> None:
        """Write the settings its next runs read."""
        await asyncio.to_thread((self.scratch / "codex/config.toml").write_text, config)

    async def run(self, *arguments: str) -> bytes:
        """Run the binary and return what it prints. Its whole process group ends with this call."""
        try:
            process = await asyncio.create_subprocess_exec(
                str(self.binary),
                *arguments,
                cwd=self.scratch / "work",
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(
                f"cannot run {str(self.binary)!r}: {error.strerror}; name a working Codex"
            ) from error
        try:
            async with asyncio.timeout(_TIMEOUT):
                output, error_text = await process.communicate()
        except TimeoutError as error:
            raise ConfigError(self._failure_text(arguments, "did not end in time")) from error
        finally:
            await _end(process)
        if process.returncode != 0:
            last = error_text.decode(errors="replace").strip().rpartition("\n")[2]
            what = f"ended with {process.returncode}: {last[:300]}"
            raise ConfigError(self._failure_text(arguments, what))
        return output

    def _failure_text(self, arguments: Sequence[str], what: str) -> str:
        return f"`{self.binary} {' '.join(arguments)}` {what}; try another version of Codex"

    def _environment(self) -> Mapping[str, str]:
        if self.environ is not None:
            return self.environ
        private = {"HOME": str(self.scratch / "home"), "CODEX_HOME": str(self.scratch / "codex")}
        return {"PATH": os.environ.get("PATH", os.defpath), **private}


@contextlib.asynccontextmanager
async def _in_private_home(binary: Path) -> AsyncIterator[_Codex]:
    """Yield `binary` with a home that is deleted afterwards."""
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="treadle-"))
    try:
        for name in ("home", "codex", "work"):
            await asyncio.to_thread((scratch / name).mkdir)
        yield _Codex(binary, scratch)
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of a process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _instructions(listing: bytes, version: str) -> dict[str, str]:
    """Return base instructions by model, from the bundled list."""
    try:
        models = decode_json(listing, _Listing).models
    except msgspec.DecodeError as error:
        raise ConfigError(
            _unexpected_text(version, f"a model list that cannot be read ({error})")
        ) from error
    for model in models:
        if not re.fullmatch(PLAIN_NAME, model.slug):
            raise ConfigError(_unexpected_text(version, f"a model named {model.slug!r}"))
    found = {model.slug: model.base_instructions for model in models if model.base_instructions}
    if not found:
        raise ConfigError(_unexpected_text(version, "a model list without instructions"))
    return found


async def _capture(codex: _Codex, version: str) -> tuple[str, str]:
    """Return the compaction prompt and the summary prefix that the binary sends."""
    async with LoopbackServer(_reply) as server:
        await codex.configure(_CONFIG.format(base_url=server.base_url))
        options = ("--skip-git-repo-check", "--json")
        await codex.run("exec", *options, "one")
        await codex.run("exec", "resume", "--last", *options, "two")
        requests = [r for r in server.requests if r.method == "POST"]
    kinds = [_kind(request) for request in requests]
    if kinds != ["turn", "compaction", "turn"]:
        raise ConfigError(
            _unexpected_text(version, f"the requests {kinds!r} where a compaction was due")
        )
    prompt = _user_texts(requests[1])[-1:]
    prefixes = [
        text.removesuffix(f"\n{_SUMMARY}")
        for text in _user_texts(requests[2])
        if text.endswith(f"\n{_SUMMARY}")
    ]
    if not prompt or len(prefixes) != 1:
        raise ConfigError(_unexpected_text(version, "a compaction without its prompt or summary"))
    return prompt[0], prefixes[0]


def _reply(request: LoopbackRequest) -> LoopbackResponse:
    if _kind(request) == "compaction":
        return text_response(_SUMMARY, response_id="resp_summary", total_tokens=100)
    texts = _user_texts(request)
    filled = "one" in texts and "two" not in texts
    return text_response("Done.", response_id="resp_turn", total_tokens=_FULL if filled else 100)


def _kind(request: LoopbackRequest) -> str:
    """Return the purpose of a request, according to the binary."""
    try:
        metadata = msgspec.json.decode(request.headers.get("x-codex-turn-metadata", "{}"))
    except msgspec.DecodeError:
        return ""
    return str(metadata.get("request_kind", "")) if isinstance(metadata, dict) else ""


def _user_texts(request: LoopbackRequest) -> list[str]:
    """Return the texts of the user messages in a request, in order."""
    items: list[dict[str, Any]] = request.payload.get("input", [])
    users = (item for item in items if item.get("role") == "user")
    return [part["text"] for item in users for part in item["content"] if "text" in part]


def _unexpected_text(version: str, found: str) -> str:
    return f"{version or 'the binary'} gave {found}; Treadle knows 0.163 to 0.166: try one of those"
