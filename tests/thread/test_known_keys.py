"""A known key is in nothing that Treadle keeps, sends or tells, whoever says it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness.scenes import call, hear, of
from treadle import Thread
from treadle.core.loopback import LoopbackListener
from treadle.core.redact import BLANK, add_secrets, forget_secrets
from treadle.delivery.channels.webhook import WebhookChannel
from treadle.harness.events import (
    Event,
    ItemCompleted,
    ReasoningDelta,
    TextDelta,
    ToolProgress,
    TurnCompleted,
)
from treadle.hooks import Hooks
from treadle.hooks.payloads import BeforePromptBuild, BeforeToolCall, HookAnswer
from treadle.models.providers import ProviderConfig
from treadle.models.transport import AsyncTransport
from treadle.policy.auth import ApiKey, CredentialStore
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.decorator import tool
from treadle.transfer.exporting import EXPORTS, export_thread

KEY = "sk-PLANTED-0123456789abcdefghij"
ODD_KEY = 'npm_"quoted\\0123456789'
"""A key that JSON escapes, and that begins like the escape of a new line."""

DONE = Answer(text="done", times=0)


class Scene:
    """One home, one provider, and everything that was heard."""

    def __init__(self, place: Path, key: str = KEY) -> None:
        self.place, self.key = place, key
        self.home, self.project = place / "home", place / "project"
        self.project.mkdir(exist_ok=True)
        self.events: list[Event] = []
        self.bodies: list[bytes] = []
        self.other: list[bytes] = []

    @asynccontextmanager
    async def open(self, *answers: Answer, **options: Any) -> AsyncIterator[Thread]:
        async with FakeServer(Script(answers=(*answers, DONE))) as server:
            config = ProviderConfig(
                api="responses", base_url=server.base_url, key=self.key, retries=0
            )
            given: dict[str, Any] = {
                "model": "mine:m",
                "home": self.home,
                "cwd": self.project,
                "sandbox": "danger-full-access",
                "approval": "never",
                "environ": {"PATH": os.environ["PATH"], "HOME": str(self.place)},
                "providers": {"mine": config},
            }
            async with Thread.open(**open_keywords(**(given | options))) as thread:
                yield thread
            self.bodies += [request.body for request in server.requests]

    async def run(self, *answers: Answer, said: Sequence[str] = ("hi",), **options: Any) -> str:
        async with self.open(*answers, **options) as thread:
            for each in said:
                self.events += await hear(thread, each)
            return thread.id

    def is_kept_by_us(self, path: Path) -> bool:
        """Return whether a file below the home must not hold the key."""
        del path
        return True

    def text(self, kind: type[Any]) -> str:
        return "".join(each.text for each in of(self.events, kind))

    def check(self) -> None:
        """Look for the key in all events, requests and files."""
        assert self.events
        assert self.bodies
        spelled = [self.key.encode(), json.dumps(self.key)[1:-1].encode()]
        heard = [json.dumps(json.loads(msgspec.json.encode(each))).encode() for each in self.events]
        heard += [repr(each).encode() for each in self.events]
        heard += [bytes(each.item) for each in of(self.events, ItemCompleted)]
        heard += [self.text(kind).encode() for kind in (TextDelta, ReasoningDelta, ToolProgress)]
        heard += [json.dumps(json.loads(body)).encode() for body in self.bodies]
        for data in (*heard, *self.bodies, *self.other):
            assert not any(each in data for each in spelled), data[:2_000]
        found = [path for path in self.home.rglob("*") if path.is_file()]
        files = {path: path.read_bytes() for path in found if self.is_kept_by_us(path)}
        assert any(path.name == "log.db" for path in files)
        for path, data in files.items():
            if path.suffix in (".db", ".sqlite"):
                data += _values(path)  # noqa: PLW2901 - put together where pages cut them
            assert not any(each in data for each in spelled), path


def _values(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        values: list[Any] = []
        for name in names:
            with suppress(sqlite3.Error):
                for row in database.execute(f'SELECT * FROM "{name}"'):
                    values += row
    return b"\n".join(each if isinstance(each, bytes) else str(each).encode() for each in values)


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


def run_command(cmd: str, **options: Any) -> Answer:
    return Answer(calls=(call("exec_command", cmd=cmd, login=False, **options),))


def deltas(kind: str, *pieces: str, **fields: Any) -> tuple[dict[str, Any], ...]:
    return tuple({"type": f"response.{kind}.delta", "delta": each, **fields} for each in pieces)


async def test_what_a_command_prints(scene):
    (scene.project / "leak.txt").write_text(f"key={KEY}\n")
    await scene.run(run_command("cat leak.txt"))
    assert f"key={BLANK}" in scene.bodies[-1].decode()
    scene.check()


async def test_a_long_output_that_is_kept_to_be_read_later(scene):
    lines = "".join(f"{at:06d} {'pad' * (at % 7)}{KEY}\n" for at in range(40_000))
    (scene.project / "long.txt").write_text(lines)
    async with scene.open(run_command("cat long.txt", max_output_tokens=200)) as thread:
        scene.events += await hear(thread, "hi")
    handle = scene.bodies[-1].decode().partition("Full output: ")[2].partition(" ")[0]
    async with scene.open(
        Answer(calls=(call("read_output", handle=handle, pattern="031234"),)), thread=thread.id
    ) as thread:
        scene.events += await hear(thread, "and that line?")
    assert f" 031234 {'pad' * (31234 % 7)}{BLANK}" in scene.bodies[-1].decode()
    scene.check()


async def test_a_key_that_a_command_prints_in_two_pieces(scene):
    command = f"printf %s '{KEY[:10]}'; sleep 0.3; printf '%s\\nfiles' '{KEY[10:]}'"
    await scene.run(run_command(command))
    assert f"{BLANK}\\nfiles" in scene.bodies[-1].decode()
    scene.check()


async def test_a_key_of_which_one_poll_sees_the_first_half(scene):
    (scene.project / "say.sh").write_text(
        f"printf %s 'its {KEY[:10]}'; sleep 0.8; printf %s '{KEY[10:]} end'; sleep 0.2"
    )
    poll = call("write_stdin", session_id=1, yield_time_ms=5_000)
    await scene.run(run_command("sh say.sh", yield_time_ms=300), Answer(calls=(poll,)))
    assert f"{BLANK} end" in scene.bodies[-1].decode()
    assert KEY[10:].encode() not in scene.bodies[-1]
    scene.check()


async def test_a_key_in_arguments_is_blanked_before_they_run(scene):
    await scene.run(run_command(f"echo {KEY} > out.txt"))
    assert (scene.project / "out.txt").read_text() == f"{BLANK}\n"
    scene.check()


async def test_a_key_that_arguments_escape(scene):
    escaped = "".join(f"\\u{ord(each):04X}" for each in KEY)
    arguments = f'{{"cmd":"echo {escaped} > out.txt","login":false}}'
    await scene.run(Answer(calls=(Call(name="exec_command", arguments=arguments),)))
    assert (scene.project / "out.txt").read_text() == f"{BLANK}\n"
    assert escaped.encode() not in _values(scene.home / "log.db")
    scene.check()


async def test_a_patch(scene):
    patch = f"*** Begin Patch\n*** Add File: p.txt\n+{KEY}\n*** End Patch"
    await scene.run(Answer(calls=(Call(name="apply_patch", input=patch),)))
    scene.check()


async def test_what_the_model_says(scene):
    answer = Answer(
        events=(
            *deltas("output_text", "so files ", KEY[:4], KEY[4:20], KEY[20:] + " s"),
            {"type": "codex.rate_limits", "plan_type": KEY},
            *deltas("output_text", "k-PLANTED"),
            *deltas("reasoning_summary_text", f"or {KEY[:12]}", KEY[12:], summary_index=0),
        ),
        reasoning=f"could it be {KEY}",
        text=f"it is {KEY}",
    )
    await scene.run(answer)
    assert scene.text(TextDelta).startswith(f"so files {BLANK} sk-PLANTED")
    assert of(scene.events, TurnCompleted)[-1].text == f"it is {BLANK}"
    assert KEY[12:] not in scene.text(ReasoningDelta)
    scene.check()


async def test_what_only_begins_like_a_key_is_told_whole(scene):
    said = f"the mask of {KEY[:-1]}: sk-PLAN and sk"
    events = deltas("output_text", *said)
    await scene.run(Answer(events=events, text="fine"))
    assert scene.text(TextDelta).startswith(said)


async def test_what_the_user_says(scene):
    await scene.run(said=(f"my key is {KEY}",))
    scene.check()


async def test_files_of_the_project_and_descriptions_of_tools_are_told_once(scene):
    @tool(description=f"Logs in with {KEY}.")
    async def log_in() -> str:
        return "in"

    (scene.project / "AGENTS.md").write_text(f"Use {KEY}.\n")
    await scene.run(said=("hi", "again", "and again"), tools=(log_in,))
    last = scene.bodies[-1].decode()
    assert last.count(f"Use {BLANK}") == 1
    assert last.startswith(scene.bodies[0].decode()[:-20]), "the prefix holds"
    scene.check()


async def test_titles_settings_posts_and_forks(scene):
    async with scene.open(title=f"about {KEY}") as thread:
        scene.events += await hear(thread, "hi")
        await thread.log.configure(goal=f"hide {KEY}")
        fork = await thread.fork(title=f"fork of {KEY}")
        await thread.send(fork, f"look at {KEY}")
        scene.other += [repr(each).encode() for each in await thread.log.store.threads()]
    async with scene.open(thread=fork) as thread:
        scene.events += [event async for event in thread.run()]
    assert f"look at {BLANK}" in scene.bodies[-1].decode()
    scene.check()


async def test_hooks_and_what_they_add(scene):
    seen: list[object] = []
    hooks = Hooks()

    async def look(payload: object) -> HookAnswer:
        seen.append(payload)
        return HookAnswer(context=f"by the way: {KEY}")

    async def watch(payload: object) -> None:
        seen.append(payload)

    hooks.on(BeforePromptBuild, look)
    hooks.on(BeforeToolCall, watch)
    await scene.run(run_command(f"echo {KEY}"), said=(f"not {KEY}",), hooks=hooks)
    assert len(seen) == 2
    assert f"by the way: {BLANK}" in scene.bodies[-1].decode()
    scene.other += [repr(each).encode() for each in seen]
    scene.check()


async def test_compactions_and_the_library_of_the_lossless_engine(scene):
    async with scene.open(
        Answer(text=f"it is {KEY} " * 200),
        Answer(text=f"and {KEY} " * 200),
        Answer(text=f"a summary with {KEY}", times=0),
        engine="lossless",
        engine_config={"fresh_tail_turns": 0},
    ) as thread:
        scene.events += await hear(thread, f"remember {KEY}")
        scene.events += await hear(thread, "more")
        await thread.compact()
        scene.events += await hear(thread, "and now?")
    scene.check()


async def test_every_export(scene):
    (scene.project / "leak.txt").write_text(f"key={KEY}\n")
    async with scene.open(run_command("cat leak.txt"), Answer(text=KEY)) as thread:
        scene.events += await hear(thread, f"about {KEY}")
        for form in EXPORTS:
            parts = export_thread(thread.log.store, thread.id, form, everything=True)
            scene.other += [part async for part in parts]
    scene.check()


class Receiver(LoopbackListener):
    """Takes what a webhook sends."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    async def talk(self, reader: Any, writer: Any) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-len"))
        self.bodies.append(await reader.readexactly(int(size.partition(b":")[2])))
        writer.write(b"HTTP/1.1 204 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()


async def test_what_a_webhook_is_sent(scene):
    async with Receiver() as receiver:
        transport = AsyncTransport.from_environment({})
        url = f"http://127.0.0.1:{receiver.port}/hook"
        channel = WebhookChannel(url, "quince-hook-5567-cd", transport, private=True)
        try:
            await scene.run(Answer(text=f"it is {KEY}"), channel=channel)
        finally:
            await transport.close()
    assert len(receiver.bodies) == 1
    assert BLANK.encode() in receiver.bodies[0] or b"\\u2026" in receiver.bodies[0]
    scene.other += receiver.bodies
    scene.check()


async def test_a_key_that_json_escapes(tmp_path):
    scene = Scene(tmp_path, ODD_KEY)
    await scene.run(
        run_command(f"cat <<'E' > out.txt\n{ODD_KEY}\nE"),
        Answer(calls=(call("update_plan", plan=[{"step": ODD_KEY, "status": "pending"}]),)),
        Answer(text=f"said {ODD_KEY}"),
        said=(f"mine {ODD_KEY}",),
    )
    assert (scene.project / "out.txt").read_text() == f"{BLANK}\n"
    scene.check()


async def test_the_escape_of_a_new_line_is_no_letter_of_a_key(tmp_path):
    scene = Scene(tmp_path, ODD_KEY)
    near = f"\n{ODD_KEY[1:]}"
    await scene.run(
        run_command(f"cat <<'E' > near.txt{near}\nE"),
        Answer(text=f"said {ODD_KEY}{near}"),
        said=(f"mine{near}",),
    )
    assert (scene.project / "near.txt").read_text() == f"{near[1:]}\n"
    assert of(scene.events, TurnCompleted)[-1].text == f"said {BLANK}{near}"
    for body in scene.bodies:
        json.loads(body)


async def test_a_key_that_becomes_known_later_is_out_of_what_comes_then(scene):
    late = "late-key-0987654321"
    async with scene.open() as thread:
        scene.events += await hear(thread, f"not yet {late}")
        add_secrets(late)
        before = len(scene.events)
        scene.events += await hear(thread, f"now {late}")
    said = [json.loads(bytes(each.item)) for each in of(scene.events[before:], ItemCompleted)]
    assert late not in json.dumps(said)
    assert scene.bodies[-1].count(late.encode()) == 1, "what was said before stays as it was"
    assert f"now {BLANK}" in scene.bodies[-1].decode()


@pytest.mark.parametrize("key", ["ollama", "lm-studio", "not-needed", "EMPTY"])
async def test_a_placeholder_is_no_key(tmp_path, key):
    scene = Scene(tmp_path, key)
    await scene.run(Answer(text=f"{key} runs"), said=(f"start {key}",))
    assert of(scene.events, TurnCompleted)[-1].text == f"{key} runs"
    assert f"start {key}".encode() in scene.bodies[-1]


async def test_stored_keys_are_known_before_the_first_turn(tmp_path):
    scene, stored = Scene(tmp_path), "quince-api-4471-xz"
    credentials = CredentialStore(scene.home, environ={}, keyring=None)
    for name, key in (("mine:used", KEY), ("other:unused", stored)):
        credentials.secrets.put(name, ApiKey(provider=name.partition(":")[0], key=key))
    forget_secrets()
    async with scene.open(credentials=credentials, title=f"{KEY} {stored}") as thread:
        scene.events += await hear(thread, f"mine are {KEY} and {stored}")
        scene.other += [repr(await thread.log.store.info(thread.id)).encode()]
    assert f"mine are {BLANK} and {BLANK}" in scene.bodies[-1].decode()
    assert stored.encode() not in b"".join([*scene.other, *scene.bodies])
    (scene.home / "auth.json").unlink()
    scene.check()


async def test_a_turn_that_is_asked_for_again_is_the_same_turn(scene):
    said = f"my key is {KEY}"
    async with scene.open() as thread:
        first = [event async for event in thread.run(said, turn_id="turn_1")]
        again = [event async for event in thread.run(said, turn_id="turn_1")]
    scene.events += [*first, *again]
    assert of(again, TurnCompleted)[-1].status == "completed"
    assert len(scene.bodies) == 1
    scene.check()
