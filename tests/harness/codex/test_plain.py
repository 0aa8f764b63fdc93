from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.harness.codex.scenes import MODEL, Stage, codex, hear, last, open_stage, surroundings
from treadle.harness.codex.app_server import AppServer
from treadle.harness.codex.codex_home import CodexHome, write_catalog
from treadle.harness.codex.protocol.client_requests import StartThread, StartTurn, TextInput
from treadle.harness.codex.protocol.notifications import TurnCompletedNotification
from treadle.harness.codex.protocol.server_requests import ClientReply as Reply
from treadle.harness.codex.protocol.server_requests import ServerRequest
from treadle.harness.codex.server_access import PROVIDER, ProviderRoute
from treadle.harness.codex.start_requests import THREAD_CONFIG
from treadle.harness.events import HarnessReported
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script

SAID = ("Look around.", "Note it.", "Thank you.")
PATCH = "*** Begin Patch\n*** Add File: note.txt\n+seen\n*** End Patch"
LOOK = Call(name="exec_command", arguments={"cmd": "echo nothing", "login": False}, id="call_1")
ANSWERS = (
    Answer(reasoning="There may be files.", calls=(LOOK,)),
    Answer(text="Nothing there."),
    Answer(calls=(Call(name="apply_patch", input=PATCH, id="call_2"),)),
    Answer(text="Noted."),
    Answer(text="You are welcome."),
)


async def refused(_: ServerRequest) -> Reply:
    raise AssertionError("nothing is asked where everything is allowed")


async def driven(place: Path) -> list[Any]:
    """The requests of an app-server that nobody stands in front of."""
    environ = surroundings(place)
    async with FakeServer(Script(answers=ANSWERS)) as model:
        route = ProviderRoute(provider="openai", base_url=model.base_url, env_key="OPENAI_API_KEY")
        executable = codex()
        launch = CodexHome.below(place / "treadle").prepare(
            executable,
            environ,
            (route,),
            secrets={"OPENAI_API_KEY": "sk-planted"},
            catalog=await write_catalog(executable, place / "treadle" / "codex"),
        )
        server = AppServer(launch)
        try:
            connection = await server.connection()
            start = StartThread(
                cwd=str(place / "project"),
                model=MODEL.partition(":")[2],
                model_provider=PROVIDER,
                approval_policy="never",
                sandbox="danger-full-access",
                config={**THREAD_CONFIG, **route.config()},
            )
            opened, events = await connection.open_thread(start, refused)
            for said in SAID:
                turn = StartTurn(thread_id=opened.thread.id, input=(TextInput(text=said),))
                await connection.call(turn)
                async for event in events:
                    if isinstance(event, TurnCompletedNotification):
                        break
            await events.close()
        finally:
            await server.close()
        return model.requests


_NAMES = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=[_:])[0-9a-f]{16,}"
    r"|(?<=Chunk ID: )[0-9a-f]+|(?<=Wall time: )[0-9.]+|(?<=_unix_ms\\\":)\d+"
)


def normal(requests: Sequence[Any], place: Path) -> list[str]:
    """The bodies, with names, times and the place told by the order they come in."""
    known: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        return f"<{known.setdefault(found[0], len(known))}>"

    return [
        _NAMES.sub(numbered, body(request).replace(str(place), "<place>")) for request in requests
    ]


def body(request: Any) -> str:
    """The body in its own order, but for the metadata, which has none."""
    payload = dict(request.payload)
    payload["client_metadata"] = dict(sorted(payload["client_metadata"].items()))
    return msgspec.json.encode(payload).decode()


async def spoken(stage: Stage) -> list[HarnessReported]:
    """Say everything; what was reported of the Codex thread."""
    async with stage.thread() as thread:
        heard = [event for said in SAID for event in await hear(thread, said)]
        assert last(heard[-1:]).text == "You are welcome."
    return [event for event in heard if isinstance(event, HarnessReported)]


async def test_with_the_linear_engine_requests_are_those_of_an_app_server_alone(tmp_path):
    async with open_stage(tmp_path / "ours", *ANSWERS) as stage:
        reports = await spoken(stage)
        ours = normal(stage.requests, tmp_path / "ours")
    alone = normal(await driven(tmp_path / "alone"), tmp_path / "alone")
    assert len(ours) == len(ANSWERS)
    assert ours == alone
    assert [report.details["items"] for report in reports] == [0, 0, 0]
    for place in ("ours", "alone"):
        assert (tmp_path / place / "project" / "note.txt").read_text() == "seen\n"
