from __future__ import annotations

import base64
import json
import logging
import os
import signal
import sqlite3
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tests.engines.sample_engines import MinimalEngine
from tests.harness.codex.scenes import codex
from tests.harness.scenes import call, hear
from tests.policy.auth.scenes import HOUR, TokenEndpoint, oauth
from treadle import Thread
from treadle.core.errors import TreadleError
from treadle.core.loopback import LoopbackListener
from treadle.delivery.channels.webhook import WebhookChannel
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
from treadle.harness.contract import Harness
from treadle.harness.loop import LoopHarness
from treadle.hooks import CommandHook, Hooks
from treadle.hooks.payloads import AfterToolCall, BeforeCompaction, BeforeToolCall, ToolResultReady
from treadle.models.providers import ProviderConfig
from treadle.models.retry import Backoff
from treadle.models.transport import AsyncTransport
from treadle.policy.auth import ApiKey, CredentialStore
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script, ScriptedError
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.decorator import tool

MODEL = "openai:gpt-5.5"
LONG = int(time.time() * 1000) + 24 * HOUR

# No shape gives these away: only who knows them can keep them in.
API_KEY, ENV_KEY = "quince/api+4471=xz", "quince-env-3310-ab"
ACCESS, REFRESH = "planted-access-0", "planted-refresh-0"
WEBHOOK = "quince-hook-5567-cd"
PLANTED = (API_KEY, ENV_KEY, ACCESS, REFRESH, WEBHOOK)

HARNESSES = pytest.mark.parametrize("harness", ["treadle", "codex"])


def spelled(secret: str) -> Iterator[bytes]:
    yield secret.encode()
    yield quote(secret, safe="").encode()
    yield base64.b64encode(secret.encode()).rstrip(b"=")


def leaks(data: bytes) -> list[str]:
    return [name for name in PLANTED for each in spelled(name) if each in data]


class Witness:
    """Remembers everything that anybody but the provider could see of a scene."""

    def __init__(self, place: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.place, self.caplog = place, caplog
        self.heard: list[bytes] = []
        self.quoted = False
        """The provider repeats keys. Codex keeps that in its own history, before Treadle hears
        of it; for then, that history is for the owner's eyes only, and nothing else is let off."""

    def hear(self, what: object) -> None:
        self.heard += [repr(what).encode(errors="replace"), str(what).encode(errors="replace")]
        with suppress(TypeError):
            self.heard.append(msgspec.json.encode(what))

    def check(self) -> None:
        assert self.heard, "nothing was heard"
        assert [each for data in self.heard for each in leaks(data)] == []
        assert leaks(self._logged()) == []
        raw = {path: path.read_bytes() for path in self._files()}
        assert {str(path): found for path, data in raw.items() if (found := leaks(data))} == {}
        # Looking into a database puts its files in order: the bytes come first.
        databases = [path for path in raw if path.suffix in (".db", ".sqlite")]
        assert {str(path): found for path in databases if (found := leaks(_rows(path)))} == {}

    def _logged(self) -> bytes:
        formatter = logging.Formatter("%(name)s %(message)s")
        records = [formatter.format(each) for each in self.caplog.records]
        return "\n".join([*records, *(repr(each.args) for each in self.caplog.records)]).encode()

    def _files(self) -> list[Path]:
        found = [each for each in self.place.rglob("*") if each.is_file()]
        kept = [each for each in found if each.name != "auth.json"]
        history = [each for each in kept if _is_history(each.relative_to(self.place))]
        if not self.quoted or not history:
            return kept
        private = self.place / "home" / "codex" / "home"
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        return [each for each in kept if each not in history]


def _is_history(path: Path) -> bool:
    own = path.parts[:3] == ("home", "codex", "home")
    return own and (path.parts[3] == "sessions" or path.name.startswith("thread_history"))


def _rows(path: Path) -> bytes:
    """Every value of a database, put together where pages cut it."""
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        values: list[Any] = []
        for name in names:
            with suppress(sqlite3.Error):
                for row in database.execute(f'SELECT * FROM "{name}"'):
                    values += row
    return b"\n".join(each if isinstance(each, bytes) else str(each).encode() for each in values)


@pytest.fixture
def witness(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Witness]:
    caplog.set_level(logging.DEBUG, "treadle")
    seen = Witness(tmp_path, caplog)
    yield seen
    seen.check()


def quoting(status: int, secret: str = API_KEY) -> Answer:
    """A provider that repeats what it was sent."""
    said = f"no: Authorization: Bearer {secret} ({quote(secret, safe='')})"
    return Answer(error=ScriptedError(status=status, code="nope", message=said))


def credentials_at(place: Path, environ: dict[str, str] | None = None) -> CredentialStore:
    credentials = CredentialStore(place / "home", environ=environ or {}, keyring=None)
    credentials.secrets.put("openai:key", ApiKey(provider="openai", key=API_KEY))
    return credentials


@asynccontextmanager
async def staged(
    place: Path, harness: str, *answers: Answer, retries: int = 0, **options: Any
) -> AsyncIterator[Thread]:
    for name in ("project", "user"):
        (place / name).mkdir(exist_ok=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(place / "user")}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(FakeServer(Script(answers=answers)))
        config = ProviderConfig(api="responses", base_url=server.base_url, retries=retries)
        runs: Harness = LoopHarness(backoff=Backoff(retries=0))
        if harness == "codex":
            runs = CodexHarness(
                CodexOptions(binary=codex()),
                home=place / "home",
                environ=environ,
                providers={"openai": config},
            )
            stack.push_async_callback(runs.close)
        given: dict[str, Any] = {
            "model": MODEL,
            "home": place / "home",
            "cwd": place / "project",
            "sandbox": "danger-full-access",
            "approval": "never",
            "environ": environ,
            "providers": {"openai": config},
            "harness": runs,
            "tools": (),
        }
        yield await stack.enter_async_context(Thread.open(**open_keywords(**(given | options))))


async def listen(thread: Thread, witness: Witness, *said: str) -> None:
    for each in said:
        try:
            for event in await hear(thread, each):
                witness.hear(event)
        except TreadleError as error:
            witness.hear(error)


@HARNESSES
async def test_no_refusal_tells_a_credential(tmp_path, witness, harness):
    witness.quoted = True
    environ = {"OPENAI_API_KEY": ENV_KEY}
    credentials = credentials_at(tmp_path, environ)
    async with TokenEndpoint("another-refresh") as endpoint:
        credentials.secrets.put("openai:pair", oauth(endpoint.url, 1))
        answers = (quoting(401, ENV_KEY), quoting(401), quoting(403), quoting(402))
        async with staged(tmp_path, harness, *answers, credentials=credentials) as thread:
            await listen(thread, witness, "hi", "again")
        assert endpoint.asked[0]["refresh_token"] == REFRESH


@HARNESSES
async def test_no_trouble_of_a_provider_tells_a_key(tmp_path, witness, harness):
    witness.quoted = True
    garbage = Answer(body=f"event: x\ndata: {{{API_KEY}\n\n", headers={"content-type": "text/html"})
    answers = (quoting(429), quoting(500), garbage, quoting(500), quoting(400), Answer(text="fine"))
    credentials = credentials_at(tmp_path)
    async with staged(tmp_path, harness, *answers, credentials=credentials, retries=1) as thread:
        await listen(thread, witness, "hi", "again", "and again")


@HARNESSES
async def test_no_tool_and_no_hook_tells_a_key(tmp_path, witness, harness):
    @tool(description="Fails.")
    async def fail() -> str:
        raise RuntimeError(f"cannot log in with {API_KEY}")

    @tool(description="Prints.")
    async def show() -> str:
        return f"the key is {API_KEY}, and that is {'long ' * 20_000}"

    async def failing(_: object) -> None:
        raise RuntimeError(f"hook has {API_KEY}")

    hooks = Hooks()
    for event in (ToolResultReady, AfterToolCall, BeforeCompaction):
        hooks.on(event, failing)
    script = f"import sys; sys.stderr.write({API_KEY!r}); sys.exit(int(sys.argv[1]))"
    hooks.on(BeforeToolCall, CommandHook((sys.executable, "-c", script, "1")), tools=("fail",))
    hooks.on(AfterToolCall, CommandHook((sys.executable, "-c", script, "1")))
    answers = (
        Answer(calls=(call("fail"),)),
        Answer(calls=(call("show"),)),
        Answer(text="fine", times=0),
    )
    credentials = credentials_at(tmp_path)
    options: dict[str, Any] = {"tools": (fail, show), "hooks": hooks, "credentials": credentials}
    async with staged(tmp_path, harness, *answers, **options) as thread:
        await listen(thread, witness, "hi")
        with pytest.raises(TreadleError) as raised:
            await thread.compact()
        witness.hear(raised.value)


class Leaky(MinimalEngine):
    """An engine that knows too much."""

    async def assemble(self, _: Any) -> Any:
        raise RuntimeError(f"the index refuses {API_KEY}")


@HARNESSES
async def test_no_engine_tells_a_key(tmp_path, witness, harness):
    credentials = credentials_at(tmp_path)
    answers = (Answer(text="fine", times=0),)
    async with staged(
        tmp_path, harness, *answers, credentials=credentials, engine=Leaky()
    ) as thread:
        await listen(thread, witness, "hi", "again")


@HARNESSES
async def test_no_turn_that_is_broken_off_tells_a_key(tmp_path, witness, harness):
    @tool(description="Ends what runs it.")
    async def end() -> str:
        if isinstance(thread.harness, CodexHarness):
            for server in thread.harness.servers.servers:
                os.kill(server.pid or 0, signal.SIGKILL)
        else:
            thread.interrupt()
        return API_KEY

    silent = Answer(error=ScriptedError(status=401, message="no"))
    answers = (Answer(calls=(call("end"),)), silent, silent)
    credentials = credentials_at(tmp_path)
    async with staged(tmp_path, harness, *answers, credentials=credentials, tools=(end,)) as thread:
        await listen(thread, witness, "hi", "again")
        name = thread.id
    async with staged(tmp_path, harness, credentials=credentials, thread=name) as thread:
        await listen(thread, witness, "are you there?")


class Echo(LoopbackListener):
    """A receiver that refuses, and repeats what it should not know."""

    async def talk(self, reader: Any, writer: Any) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps({"error": WEBHOOK}).encode()
        writer.write(b"HTTP/1.1 400 %s\r\ncontent-length: %d\r\n" % (WEBHOOK.encode(), len(body)))
        writer.write(b"connection: close\r\n\r\n" + body)
        await writer.drain()


@HARNESSES
async def test_no_delivery_tells_the_secret_of_a_webhook(tmp_path, witness, harness):
    credentials = credentials_at(tmp_path)
    async with Echo() as receiver, AsyncExitStack() as stack:
        transport = AsyncTransport.from_environment({})
        stack.push_async_callback(transport.close)
        url = f"http://127.0.0.1:{receiver.port}/hook"
        channel = WebhookChannel(url, WEBHOOK, transport, private=True)
        options: dict[str, Any] = {"credentials": credentials, "channel": channel}
        async with staged(tmp_path, harness, Answer(text="fine"), **options) as thread:
            await listen(thread, witness, "hi")


def test_a_leak_would_be_seen(tmp_path, caplog):
    seen = Witness(tmp_path, caplog)
    seen.hear(f"so it is {API_KEY}")
    with pytest.raises(AssertionError):
        seen.check()
    seen.heard = [b"fine"]
    (tmp_path / "kept.txt").write_text(f"{base64.b64encode(ENV_KEY.encode()).decode()}")
    with pytest.raises(AssertionError):
        seen.check()
