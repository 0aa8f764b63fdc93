from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.mcp_server.scenes import ASKING, run_ls
from treadle import Thread
from treadle.cli.cli_home import Home
from treadle.cli.web_control import CommandHome
from treadle.store.sqlite import SqliteStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Break, Call

from .served import Web, serving

QUESTION = {
    "questions": [
        {
            "id": "colour",
            "header": "Colour",
            "question": "Which colour?",
            "options": [
                {"label": "red", "description": "like a fire engine"},
                {"label": "blue", "description": "like the sea"},
            ],
        }
    ]
}


@asynccontextmanager
async def acting(place: Path, *answers: Answer) -> AsyncIterator[Web]:
    """Serve a home with control, and a model that answers like this in every thread."""
    script = place / "script.jsonl"
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in answers)
    await asyncio.to_thread(script.write_bytes, lines)
    await asyncio.to_thread((place / "project").mkdir, exist_ok=True)
    options = msgspec.structs.replace(ASKING, model=f"scripted:{script}")
    async with serving(place / "home", CommandHome(Home(place / "home"), options)) as web:
        yield web


async def begin(web: Web, place: Path, text: str = "Begin.") -> str:
    body = {"cwd": str(place / "project"), "text": text}
    thread: str = (await web.post("/api/threads", body, 201))["thread"]
    return thread


async def question(web: Web, thread: str) -> dict[str, Any]:
    """Return what a running turn asks, as soon as it asks something."""
    while True:
        found = (await web.get(f"/api/threads/{thread}/questions"))["questions"]
        if found:
            asked: dict[str, Any] = found[0]
            return asked
        await asyncio.sleep(0.02)


async def ended(web: Web, thread: str, turn: int = 1) -> dict[str, Any]:
    """Return a turn when it has ended and its thread is free again."""
    while True:
        turns = (await web.get(f"/api/threads/{thread}/turns"))["turns"]
        about = await web.get(f"/api/threads/{thread}")
        if len(turns) >= turn and turns[turn - 1]["ended"] and about["writer"] is None:
            last: dict[str, Any] = turns[turn - 1]
            return last
        await asyncio.sleep(0.02)


def appears(file: Path) -> None:
    while not file.exists():
        time.sleep(0.02)


async def texts(web: Web, thread: str) -> list[str]:
    entries = (await web.get(f"/api/threads/{thread}/entries?limit=500"))["entries"]
    return [each["view"]["text"] for each in entries]


async def test_a_new_thread_asks_for_approval_is_steered_and_streams_its_answer(
    tmp_path: Path,
) -> None:
    began, waits = (
        tmp_path / "project" / "began",
        "touch began; until [ -e go ]; do sleep 0.02; done",
    )
    async with acting(tmp_path, run_ls(waits), Answer(text="It is done.")) as web:
        thread = await begin(web, tmp_path, "Do it.")
        base = f"/api/threads/{thread}"
        async with web.listen(thread) as news:
            asked = await question(web, thread)
            assert waits in asked["call"]["argv"]
            assert asked["call"]["cwd"] == str(tmp_path / "project")
            assert (await web.get(base))["running"]
            await web.post(f"{base}/answers/{asked['id']}", {"decision": "perhaps"}, 400)
            await web.post(f"{base}/answers/{asked['id']}", {"decision": "once"})
            await web.post(f"{base}/answers/{asked['id']}", {"decision": "once"}, 409)
            await asyncio.to_thread(appears, began)
            # What is said to a thread whose turn runs here is read by that turn.
            said = await web.post(f"{base}/turns", {"text": "Be brief."})
            assert (said["posted"], said["steered"]) == (False, True)
            decided = await web.get(f"{base}/plan")
            assert decided["plan"]["harness"]["reason"]
            await asyncio.to_thread(began.with_name("go").touch)
            answer = ""
            while answer != "It is done.":
                answer += (await news.live("text.delta"))["text"]
            completed = await news.live("turn.completed")
            assert completed["status"] == "completed"
            assert (await news.next("entries", thread=thread))["last"] > 5
        assert (await ended(web, thread))["state"] == "completed"
        assert "Be brief." in await texts(web, thread)
        assert (await web.get(f"{base}/questions"))["questions"] == []


async def test_a_question_of_the_model_is_answered_and_a_turn_goes_on(tmp_path: Path) -> None:
    asks = Answer(calls=(Call(name="request_user_input", arguments=QUESTION),))
    async with acting(tmp_path, asks, Answer(text="Blue it is.")) as web:
        thread = await begin(web, tmp_path)
        asked = await question(web, thread)
        assert asked["questions"][0]["options"][1]["label"] == "blue"
        body = {"answers": {"colour": ["blue"]}}
        await web.post(f"/api/threads/{thread}/answers/{asked['id']}", body)
        assert (await ended(web, thread))["state"] == "completed"
        assert (await texts(web, thread))[-3:].count("Blue it is.") == 1


async def test_a_refusal_is_told_to_the_model_and_a_stop_ends_the_turn(tmp_path: Path) -> None:
    escalated = {
        "cmd": "touch made",
        "sandbox_permissions": "require_escalated",
        "justification": "May it be made?",
    }
    asks = Answer(calls=(Call(name="exec_command", arguments=escalated),))
    async with acting(tmp_path, asks, run_ls(), Answer(text="Then not.")) as web:
        thread = await begin(web, tmp_path)
        path = f"/api/threads/{thread}/answers"
        first = await question(web, thread)
        await web.post(f"{path}/{first['id']}", {"decision": "no", "note": "too early"})
        second = await question(web, thread)
        await web.post(f"{path}/{second['id']}", {"decision": "stop"})
        await ended(web, thread)
        entries = (await web.get(f"/api/threads/{thread}/entries"))["entries"]
        verdicts = [each["view"]["verdict"] for each in entries if "verdict" in each["view"]]
        assert verdicts == [
            "asks to leave the sandbox: May it be made?",
            "refused by the user: too early",
            "refused by the user",
        ]
        assert not await asyncio.to_thread((tmp_path / "project" / "made").exists)


async def test_a_turn_is_interrupted_and_the_thread_is_free(tmp_path: Path) -> None:
    async with acting(tmp_path, Answer(text="never whole", stall=Break(events=1))) as web:
        thread = await begin(web, tmp_path)
        await web.post(f"/api/threads/{thread}/interrupt", {})
        assert (await ended(web, thread))["state"] == "aborted"
        told = await web.post(f"/api/threads/{thread}/interrupt", {}, 409)
        assert "no turn of it runs" in told["error"]["message"]


async def test_turns_and_files_are_taken_back_and_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    writes = msgspec.structs.replace(run_ls("echo two > kept"), when="Second.")
    first = Answer(text="One.", when="First.")
    async with acting(tmp_path, first, writes, Answer(text="Two.", times=0)) as web:
        kept = tmp_path / "project" / "kept"
        await asyncio.to_thread(kept.write_text, "one\n")
        thread = await begin(web, tmp_path, "First.")
        await ended(web, thread)
        base = f"/api/threads/{thread}"
        await web.post(f"{base}/turns", {"text": "Second."})
        asked = await question(web, thread)
        await web.post(f"{base}/rewind", {"turn": 1}, 409)
        await web.post(f"{base}/answers/{asked['id']}", {"decision": "once"})
        second = await ended(web, thread, 2)
        assert await asyncio.to_thread(kept.read_text) == "two\n"
        fork = await web.post(f"{base}/fork", {"turn": 2, "title": "Another way"}, 201)
        assert fork["at"] == second["first"] - 1
        done = await web.post(f"{base}/rewind", {"turn": 2, "what": "both"}, 200)
        assert await asyncio.to_thread(kept.read_text) == "one\n"
        assert done["restored"]
        entries = (await web.get(f"{base}/entries"))["entries"]
        assert [each["visible"] for each in entries if each["view"]["text"] == "Two."] == [False]
        other = await web.get(f"/api/threads/{fork['thread']}")
        assert (other["name"], other["parent"], other["turns"]) == ("Another way", thread, 1)
        await web.post(f"{base}/rewind", {"turn": 2, "what": "nothing"}, 400)
        await web.post(f"{base}/rewind", {"turn": 99}, 404)
        await web.post(f"/api/threads/{fork['thread']}/turns", {"text": "Go on."})
        assert (await ended(web, fork["thread"], 2))["state"] == "completed"


async def test_the_whole_thread_can_be_taken_back(tmp_path: Path) -> None:
    async with acting(tmp_path, Answer(text="One."), Answer(text="Again.")) as web:
        thread = await begin(web, tmp_path, "First.")
        await ended(web, thread)
        await web.post(f"/api/threads/{thread}/rewind", {"turn": 1}, 200)
        entries = (await web.get(f"/api/threads/{thread}/entries"))["entries"]
        assert not any(each["visible"] for each in entries if each["view"]["text"] == "One.")
        await web.post(f"/api/threads/{thread}/turns", {"text": "Once more."})
        assert (await ended(web, thread, 2))["state"] == "completed"


async def test_what_another_process_writes_gets_messages_in_its_inbox(tmp_path: Path) -> None:
    async with acting(tmp_path, Answer(text="Read.")) as web:
        model = ScriptedModel([Answer(text="Mine.")])
        async with Thread.open(
            model=model, cwd=tmp_path / "project", home=tmp_path / "home"
        ) as thread:
            async for _ in thread.run("I hold it."):
                pass
            base = f"/api/threads/{thread.id}"
            assert (await web.get(base))["writer"]["pid"]
            assert (await web.post(f"{base}/turns", {"text": "From the page."}))["posted"]
            assert (await web.post(f"{base}/steer", {"text": "And this."}))["posted"]
            told = await web.post(f"{base}/interrupt", {}, 409)
            assert "interrupt it there" in told["error"]["message"]
            await web.post(f"{base}/rewind", {"turn": 1}, 409)
            assert len(await thread.log.inbox()) == 2
        await model.close()
        await web.post(f"{base}/turns", {"text": "Now."})
        await ended(web, thread.id, 2)
        assert {"From the page.", "And this.", "Now."} <= set(await texts(web, thread.id))


async def test_wrong_bodies_change_nothing(tmp_path: Path) -> None:
    async with acting(tmp_path, Answer(text="One.")) as web:
        thread = await begin(web, tmp_path)
        await ended(web, thread)
        base = f"/api/threads/{thread}"
        before = await web.get(base)
        for path, body, status in (
            (f"{base}/turns", {"text": "  "}, 400),
            (f"{base}/turns", {"said": "x"}, 400),
            (f"{base}/turns", [], 400),
            (f"{base}/turns", {"text": "x" * 500_000}, 400),
            (f"{base}/turns", {"text": "x" * 1_100_000}, 413),
            (f"{base}/fork", {"cut": 3}, 400),
            (f"{base}/fork", {"at": 10_000}, 400),
            (f"{base}/answers/ask_none", {"decision": "once"}, 409),
            ("/api/threads", {"cwd": "relative", "text": "x"}, 400),
            ("/api/threads", {"cwd": str(tmp_path / "none"), "text": "x"}, 400),
            ("/api/threads", {"cwd": str(tmp_path), "text": "x", "model": "no model"}, 400),
            ("/api/threads/thr_none/turns", {"text": "x"}, 404),
        ):
            told = await web.post(path, body, status)
            assert told["error"]["message"], path
        after = await web.get(base)
        assert (after["entries"], after["turns"]) == (before["entries"], before["turns"])


async def test_a_turn_that_cannot_begin_says_why_and_leaves_no_thread(tmp_path: Path) -> None:
    async with acting(tmp_path) as web:
        body = {"cwd": str(tmp_path), "text": "x", "model": "openai:gpt-5.5"}
        told = await web.post("/api/threads", body, 400)
        assert "key" in told["error"]["message"]
        assert (await web.get("/api/threads"))["threads"] == []


async def test_the_figures_of_turns_that_run_here_are_read_with_the_token(tmp_path: Path) -> None:
    async with acting(tmp_path, Answer(text="Done.")) as web:
        await ended(web, await begin(web, tmp_path))
        answer = await web.client.get("/metrics")
        stranger = await web.client.get("/metrics", headers={"authorization": "Bearer no"})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'treadle_turns_total{status="completed"} 1\n' in answer.text
    assert "Done" not in answer.text
    assert stranger.status_code == 401


async def test_without_control_nothing_acts(tmp_path: Path, shown_home: Path) -> None:
    async with serving(shown_home) as web:
        thread = (await web.get("/api/threads"))["threads"][0]["id"]
        for path in ("turns", "steer", "interrupt", "answers/x", "rewind", "fork"):
            told = await web.post(f"/api/threads/{thread}/{path}", {}, 403)
            assert "treadle web --control" in told["error"]["message"]
        await web.post("/api/threads", {"cwd": str(tmp_path), "text": "x"}, 403)


async def test_a_server_that_ends_interrupts_its_turns_durably(tmp_path: Path) -> None:
    async with acting(tmp_path, Answer(text="never whole", stall=Break(events=1))) as web:
        thread = await begin(web, tmp_path)
    async with await SqliteStore.open(tmp_path / "home") as store:
        (turn,) = await store.turns(thread)
        assert turn.state == "aborted"
        await (await store.acquire(thread)).release()
