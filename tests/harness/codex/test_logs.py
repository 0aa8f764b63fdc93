from __future__ import annotations

import logging
import re

from inline_snapshot import snapshot

from tests.engines.scenes import Probe
from treadle.engines.contract import EngineInfo
from treadle.engines.values import AssembleParams, AssembleResult, recall_item
from treadle.testing.script import Answer, Call

from .scenes import open_stage, talk

ID = re.compile(r"[\da-f]{8}(?:-[\da-f]{4,12}){4}")
SAME = "'engine': 'owner', 'projection': 'native', "
OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)


def guided(given: AssembleParams) -> AssembleResult:
    return AssembleResult(
        items=(*given.items[:-1], recall_item("calabash"), given.items[-1]),
        system_prompt_addition="damask",
    )


async def test_logs_name_threads_reasons_and_counts_and_nothing_that_was_said(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    command = Call(name="exec_command", arguments={"cmd": "echo ermine", "login": False})
    said = Answer(text="basilisk", calls=(command,))
    async with (
        open_stage(tmp_path, said) as stage,
        stage.thread(engine=Probe(OWNER, assemble=guided)) as thread,
    ):
        await talk(thread, "alabaster", "alabaster")
        await thread.compact()
    told = [record.getMessage() for record in caplog.records if record.name.startswith("treadle")]
    secret = ("alabaster", "basilisk", "calabash", "damask", "ermine", "sk-planted")
    assert [line for line in told if any(word in line for word in secret)] == []
    ours = [ID.sub("ID", line).replace(SAME, "") for line in told if line.startswith("codex")]
    ours = [line.removeprefix("codex ") for line in ours]
    assert ours == snapshot(
        [
            "thread.started: missing-thread-binding: {'thread': 'ID', 'epoch': 0, 'items': 1}",
            "thread.reused: per-turn-projection: {'thread': 'ID', 'epoch': 0, 'items': 1}",
        ]
    )
    reported = [line for line in told if line.startswith("EngineReported")]
    assert all(f"thread={thread.id!r}" in line and "engine='owner'" in line for line in reported)
