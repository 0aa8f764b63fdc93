from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treadle.prompt.codex_import import find_codex
from treadle.store.memory import MemoryStore
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script
from treadle.transfer.codex_rollout import Rollout
from treadle.transfer.exporting import export_thread

from ..harness.test_codex import CONFIG
from .scenes import bring, describe_thread, write

Items = list[dict[str, Any]]


async def codex(place: Path, *command: str, answers: tuple[Answer, ...]) -> Items:
    """What the real Codex shows its model in the last request of a run."""
    for name in ("home", "codex"):
        (place / name).mkdir(exist_ok=True)
    async with FakeServer(Script(answers=answers)) as server:
        config = CONFIG.replace("BASE_URL", server.base_url)
        (place / "codex/config.toml").write_text(config)
        process = await asyncio.create_subprocess_exec(
            *(str(find_codex()), "exec", "--skip-git-repo-check", *command),
            cwd=place,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(place / "home"),
                "CODEX_HOME": str(place / "codex"),
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
        sent: Items = server.requests[-1].payload["input"]
    return sent


def words(items: Items) -> list[str]:
    return [part["text"] for item in items if item["type"] == "message" for part in item["content"]]


async def test_the_real_codex_goes_on_with_an_exported_thread(tmp_path):
    store = MemoryStore()
    said = ["the word is heron", "I will remember it."]
    file = write(
        tmp_path / "a.jsonl",
        {"thread": "t", "role": "user", "content": said[0]},
        {"thread": "t", "role": "assistant", "content": said[1]},
    )
    info = await store.info((await bring(store, file)).threads[0].thread)
    began = datetime.fromtimestamp(info.created / 1000, UTC)
    sessions = tmp_path / "codex" / "sessions" / f"{began:%Y/%m/%d}"
    sessions.mkdir(parents=True)
    rollout = Rollout(info)
    lines = [line async for line in export_thread(store, info.id, "codex")]
    (sessions / rollout.name).write_bytes(b"".join(lines))
    answers = (Answer(text="heron"),)
    sent = await codex(tmp_path, "resume", rollout.session, "which word?", answers=answers)
    assert [text for text in words(sent) if text in (*said, "which word?")] == [
        *said,
        "which word?",
    ]


async def test_a_rollout_of_the_real_codex_is_imported_and_grows_with_it(tmp_path):
    call = Call(name="exec_command", arguments={"cmd": "echo hi", "login": False})
    answers = (Answer(calls=(call,)), Answer(text="It says hi."))
    await codex(tmp_path, "what does it say?", answers=answers)
    store = MemoryStore()
    report = await bring(store, tmp_path / "codex" / "sessions")
    (brought,) = report.threads
    text = await describe_thread(store, brought.thread)
    assert [line for line in text.splitlines()[1:] if " c " not in line[:8]] == [
        "1.0 -   user what does it say?",
        '1.1 -   function_call {"cmd":"echo hi","login":false}',
        *[line for line in text.splitlines() if "function_call_output" in line],
        "1.2 -   assistant It says hi.",
    ]
    assert (report.kept, report.malformed, report.torn) == ({}, 0, 0)
    session = brought.source.partition(":")[2]
    await codex(tmp_path, "resume", session, "and now?", answers=(Answer(text="Still hi."),))
    (grown,) = (await bring(store, tmp_path / "codex" / "sessions")).threads
    assert (grown.thread, grown.state) == (brought.thread, "grown")
    assert (await describe_thread(store, brought.thread)).endswith("2.1 -   assistant Still hi.")
