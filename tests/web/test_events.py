from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import msgspec

from tests.cli.terminal import SCRIPT
from tests.fork_server import Process
from treadle import Thread
from treadle.core.redact import add_secrets
from treadle.hosts import LiveFeed, Worker
from treadle.hosts.live_serving import LiveServer, make_live_token
from treadle.store.shared_store import open_shared
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Break, Call
from treadle.web.home_changes import FOLLOWING, MOST_READERS, Following, News, Reader

from .served import footprint, serving


async def test_a_turn_of_another_process_is_followed_without_a_message_bus(tmp_path: Path) -> None:
    script, project = tmp_path / "script.jsonl", tmp_path / "project"
    call = Call(name="exec_command", arguments={"cmd": "until [ -e go ]; do sleep 0.02; done"})
    lines = [msgspec.json.encode(each) for each in (Answer(calls=(call,)), Answer(text="Done."))]
    await asyncio.to_thread(script.write_bytes, b"\n".join(lines))
    await asyncio.to_thread(project.mkdir)
    home = tmp_path / "home"
    command = [str(SCRIPT), "--home", str(home), "exec", "Wait.", "--model", f"scripted:{script}"]
    command += ["--sandbox", "danger-full-access", "--approval", "never"]
    async with serving(home) as web, web.listen() as news:
        with Process(command, cwd=project) as process:
            process.stdin.close()
            told = await news.next("threads")
            thread = told["threads"][0]
            async with web.listen(thread) as own:
                about = await web.get(f"/api/threads/{thread}")
                if not about["running"]:
                    assert (await own.next("running", thread=thread))["running"]
                about = await web.get(f"/api/threads/{thread}")
                assert about["writer"]["pid"] == process.pid
                await asyncio.to_thread((project / "go").touch)
                grown = await own.next("entries", thread=thread)
                assert grown["last"] > 0
                # The turn ends first, and then its writer.
                await own.next("running", running=False, writer=None)
            assert await asyncio.to_thread(process.wait) == 0
        total = (await web.get(f"/api/threads/{thread}/ledger"))["total"]
        assert total == 2


async def test_following_reads_without_a_trace_and_ends_with_its_last_reader(
    shown_home: Path,
) -> None:
    before = footprint(shown_home)
    async with serving(shown_home) as web:
        thread = (await web.get("/api/threads"))["threads"][0]["id"]
        async with web.listen(thread), web.listen():
            (following,) = (each for each in asyncio.all_tasks() if each.get_name() == FOLLOWING)
            await asyncio.sleep(0.5)
        await asyncio.wait((following,))
    assert footprint(shown_home) == before


async def test_one_stream_too_many_is_refused_and_a_closed_one_makes_room(
    shown_home: Path,
) -> None:
    async with serving(shown_home) as web:
        limits = httpx2.Limits(max_connections=100)
        headers = dict(web.client.headers)
        async with (
            httpx2.AsyncClient(
                base_url=web.server.url, headers=headers, limits=limits, timeout=30
            ) as client,
            AsyncExitStack() as stack,
        ):
            for _ in range(MOST_READERS):
                answer = await stack.enter_async_context(client.stream("GET", "/api/events"))
                assert answer.status_code == 200
            flood = await asyncio.gather(*(client.get("/api/events") for _ in range(40)))
            assert {each.status_code for each in flood} == {429}
            assert "close a page" in flood[0].json()["error"]["message"]
            assert (await client.get("/api/server")).status_code == 200
            await stack.aclose()
            while True:
                async with client.stream("GET", "/api/events") as answer:
                    if answer.status_code == 200:
                        break
                    await asyncio.sleep(0.02)


async def test_what_waits_for_a_slow_reader_stays_small() -> None:
    reader = Reader("thr_x")
    for number in range(100_000):
        reader.tell(News("entries", {"last": number}))
        reader.tell_live(News("live", {"event": {"type": "text.delta", "text": str(number)}}))
    taken = await reader.take(0.01)
    assert len(taken) < 1_000
    assert taken[-1].data == {"last": 99_999}
    assert {"type": "missed"} in [each.data.get("event") for each in taken]
    assert await reader.take(0.01) == []


async def test_a_reader_who_never_reads_holds_up_nobody(tmp_path: Path) -> None:
    model = ScriptedModel([Answer(text="word " * 2_000)])
    home = tmp_path / "home"
    async with (
        Thread.open(model=model, cwd=tmp_path, home=home) as thread,
        serving(home) as web,
    ):
        port, token = web.server.port, web.server.keys.token
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        head = f"GET /api/events?thread={thread.id} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        writer.write(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        await reader.read(1)
        following: Following = web.inspector.following
        for _ in range(2_000):
            following.publish(thread.id, {"type": "text.delta", "text": "word " * 50})
        await asyncio.sleep(0)
        async for _ in thread.run("Talk."):
            pass
        assert (await web.get(f"/api/threads/{thread.id}"))["turns"] == 1
        writer.close()
    await model.close()


async def test_what_a_turn_says_holds_no_secret(tmp_path: Path) -> None:
    add_secrets("correct-horse-battery")
    model = ScriptedModel([Answer(text="Hello.")])
    async with (
        Thread.open(model=model, cwd=tmp_path, home=tmp_path / "home") as thread,
        serving(tmp_path / "home") as web,
    ):
        await _drain(thread)
        async with web.listen(thread.id) as news:
            event = {"type": "tool.progress", "text": "it is correct-horse-battery"}
            web.inspector.following.publish(thread.id, event)
            assert "horse" not in str(await news.next("live"))
    await model.close()


async def test_a_stalled_turn_is_seen_as_running_until_it_is_interrupted(tmp_path: Path) -> None:
    model = ScriptedModel([Answer(text="never whole", stall=Break(events=1))])
    home = tmp_path / "home"
    async with (
        Thread.open(model=model, cwd=tmp_path, home=home) as thread,
        serving(home) as web,
        web.listen(thread.id) as news,
    ):
        task = asyncio.create_task(_drain(thread))
        assert (await news.next("running", running=True))["writer"]["pid"]
        thread.interrupt()
        await news.next("running", running=False)
        await task
    await model.close()


async def _drain(thread: Thread) -> None:
    async for _ in thread.run("Talk."):
        pass


async def test_what_a_worker_makes_is_heard_live_with_the_token_of_its_home(
    tmp_path: Path,
) -> None:
    home, token = tmp_path / "home", make_live_token(tmp_path / "home", {})
    model = ScriptedModel([Answer(text="one two three four five", pace=0.2, times=0)])
    feed = LiveFeed()
    server = LiveServer(feed, token)
    running = asyncio.create_task(server.serve())
    async with open_shared(home) as place:
        place.store.address = server.address
        thread = (await place.store.create(cwd=str(tmp_path))).id
        await Thread.post(thread, "count", store=place.store)
        worker = Worker(
            place.store,
            lambda info: Thread.open(info.id, model=model, home=home),
            live=feed,
        )
        async with serving(home) as web, web.listen(thread) as own:
            working = asyncio.create_task(worker.run(once=True))
            heard = await own.next("live", thread=thread)
            assert heard["event"]["type"]
            await working
    server.stop()
    await running
    await model.close()
