from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from treadle.web.inspected_home import ShownHome
from treadle.web.spent import Figures, ThreadSpending

from .served import PRICES, Web, footprint, serving

VIEWS = (
    "",
    "/entries",
    "/turns",
    "/ledger",
    "/ledger/overview",
    "/ledger/breaks",
    "/epochs",
    "/composition",
    "/composition/series",
    "/summaries",
    "/state",
    "/agents",
)


async def all_threads(web: Web) -> list[dict[str, Any]]:
    threads: list[dict[str, Any]] = []
    page = await web.get("/api/threads?limit=5")
    while True:
        threads += page["threads"]
        if not page["next"]:
            return threads
        page = await web.get(f"/api/threads?limit=5&before={page['next']}")


async def test_every_view_of_every_thread_is_answered_and_the_home_is_as_it_was(
    shown_home: Path,
) -> None:
    before = footprint(shown_home)
    async with serving(shown_home) as web:
        threads = await all_threads(web)
        assert len({each["id"] for each in threads}) == len(threads) > 10
        for thread in threads:
            for view in VIEWS:
                await web.get(f"/api/threads/{thread['id']}{view}")
            if thread["turns"]:
                await web.get(f"/api/threads/{thread['id']}/plan")
            for number in range(1, min(thread["requests"], 12) + 1):
                one = f"/api/threads/{thread['id']}/requests/{number}"
                assert (await web.get(f"{one}/verify"))["same"], thread["name"]
        assert (await web.get("/api/recall?q=cache"))["hits"]
    assert footprint(shown_home) == before


async def test_a_thread_tells_what_it_is_and_what_it_cost(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        async with web.listen() as news:
            thread = await web.thread("Mend the cache key")
            while thread["counting"]:
                await news.next("threads")
                thread = await web.thread("Mend the cache key")
        assert (thread["model"], thread["harness"]) == ("scripted:sonata-mini", "treadle")
        assert thread["engine"] == "linear"
        assert thread["cost"]["amounts"]["USD"] > 0
        assert thread["bytes"] > 10_000
        assert 0 < thread["shared"] < thread["sent"]
        assert thread["writer"] is None
        turns = (await web.get(f"/api/threads/{thread['id']}/turns?answers=1"))["turns"]
        assert [turn["steps"] for turn in turns][:3] == [5, 2, 1]
        assert [turn["model"] for turn in turns][-1] == thread["model"] != turns[0]["model"]
        spent = sum(turn["cost"]["amounts"]["USD"] for turn in turns)
        assert abs(spent - thread["cost"]["amounts"]["USD"]) < 1e-9
        assert turns[1]["text"] == "Clean up what the build left."
        assert turns[1]["answer"] == "I left `build` alone, as you want."
        # The third ends with a compaction; what the model said before that is its answer.
        assert turns[2]["answer"] == "It is a small dark square."


async def test_what_is_not_counted_yet_is_not_told_as_nothing(shown_home: Path) -> None:
    home, told = ShownHome(shown_home, prices=PRICES), list[Figures]()
    spending = ThreadSpending(home, lambda _: None)
    for info in await home.store.thread_page(limit=50):
        told.append(spending.figures(info))
        while told[-1].counting:
            await asyncio.sleep(0)
            told.append(spending.figures(info))
    assert any(each.cost is not None and each.cost.amounts for each in told)
    assert [each.cost for each in told if each.counting] == [None] * sum(
        each.counting for each in told
    )
    await spending.close()
    await home.close()


async def test_the_ledger_is_told_in_pages_with_the_answers_of_its_requests(
    shown_home: Path,
) -> None:
    async with serving(shown_home) as web:
        base = f"/api/threads/{(await web.thread('A long thread'))['id']}"
        newest = await web.get(f"{base}/ledger?limit=3")
        total = newest["total"]
        assert [each["number"] for each in newest["requests"]] == [total - 2, total - 1, total]
        page = await web.get(f"{base}/ledger?from=81&limit=2")
        first, second = page["requests"]
        assert (first["number"], first["reason"]) == (81, "compaction")
        assert second["shared_size"] > 0
        assert second["reason"] is None
        assert second["cost"]["amount"] > 0
        assert 0 < second["expected_cached_tokens"] <= second["input_tokens"]
        overview = await web.get(f"{base}/ledger/overview?buckets=10")
        assert sum(each["requests"] for each in overview["buckets"]) == total
        assert overview["buckets"][0]["from"] == 1
        breaks = await web.get(f"{base}/ledger/breaks?limit=2")
        assert {each["reason"] for each in breaks["requests"]} == {"compaction"}
        earlier = await web.get(f"{base}/ledger/breaks?limit=2&before={breaks['next']}")
        assert earlier["requests"][0]["number"] < breaks["requests"][-1]["number"]
        epochs = (await web.get(f"{base}/epochs?limit=3"))["epochs"]
        assert [each["reason"] for each in epochs] == ["compaction"] * 3
        assert epochs[0]["last_request"] == total
        assert epochs[1]["last_request"] == epochs[0]["first_request"] - 1
        assert epochs[0]["compaction"]["tokens_after"] < epochs[0]["compaction"]["tokens_before"]


async def test_the_window_is_told_by_kind_over_time_and_by_its_largest_entries(
    shown_home: Path,
) -> None:
    async with serving(shown_home) as web:
        base = f"/api/threads/{(await web.thread('Mend the cache key'))['id']}"
        epochs = (await web.get(f"{base}/epochs"))["epochs"]
        compaction = next(each for each in epochs if each["reason"] == "compaction")
        now = await web.get(f"{base}/composition?at={compaction['first_request'] - 1}")
        assert sum(now["kinds"].values()) == now["tokens"]
        assert now["next_request"]["cached"]["amount"] < now["next_request"]["cold"]["amount"]
        sizes = [each["tokens"] for each in now["largest"]]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) == 10
        # Nobody has used what `seq` printed; the module that was printed first was mended.
        (unused,) = now["unreferred"]
        entry = await web.get(f"{base}/entries/{unused['seq']}")
        assert "\n399\n400" in entry["view"]["text"]
        series = (await web.get(f"{base}/composition/series?points=9"))["points"]
        numbers = [each["request"] for each in series]
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 9
        for point in series:
            at = await web.get(f"{base}/composition?at={point['request']}")
            assert set(at["kinds"]) == set(point["kinds"])
        assert "summaries" in series[-1]["kinds"]
        assert "summaries" not in series[0]["kinds"]


async def test_summaries_stand_over_the_log_and_open_to_their_entries(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        threads = [each for each in await all_threads(web) if each["engine"] == "lossless"]
        base = f"/api/threads/{threads[0]['id']}"
        last = threads[0]["requests"]
        found = await web.get(f"{base}/summaries?request={last}")
        assert {node["depth"] for node in found["nodes"]} >= {0, 1}
        shown = [node for node in found["nodes"] if node["in_view"]]
        rows = (await web.get(f"{base}/requests/{last}"))["rows"]
        assert {node["id"] for node in shown} == {row["node"] for row in rows if row["node"]}
        start = await web.get(f"{base}/summaries?request=1")
        assert not any(node["in_view"] for node in start["nodes"])
        assert len(start["nodes"]) == len(found["nodes"])
        node = await web.get(f"{base}/summaries/{shown[0]['id']}")
        seqs = [each["seq"] for each in node["entries"]]
        assert node["text"]
        assert (seqs[0], seqs[-1]) == (node["first"], node["last"])
        missing = await web.get(f"{base}/summaries/sum_0", 404)
        assert missing["error"]["code"] == "not_found"


async def test_a_library_that_was_lost_is_told_from_the_log(
    shown_home: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    await asyncio.to_thread(shutil.copytree, shown_home, home)
    await asyncio.to_thread(shutil.rmtree, home / "engines")
    async with serving(home) as web:
        threads = [each for each in await all_threads(web) if each["engine"] == "lossless"]
        base = f"/api/threads/{threads[0]['id']}"
        nodes = (await web.get(f"{base}/summaries"))["nodes"]
        assert nodes
        assert all(node["in_view"] for node in nodes)
        assert (await web.get(f"{base}/summaries/{nodes[0]['id']}"))["text"]


async def test_state_is_told_as_what_changed_and_when(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        base = f"/api/threads/{(await web.thread('Mend the cache key'))['id']}"
        told = (await web.get(f"{base}/state"))["changes"]
        change = next(each for each in told if each["fragment"] == "agents_md")
        assert (change["op"], change["turn"]) == ("change", 4)
        assert "Tests first" in change["text"]
        start = {each["fragment"]: each["op"] for each in told if each["turn"] == 1}
        assert start == {
            "permissions": "full",
            "model": "recorded",
            "agents_md": "full",
            "environment": "full",
        }
        page = await web.get(f"{base}/state?limit=1")
        rest = await web.get(f"{base}/state?before={page['next']}")
        assert page["changes"] + rest["changes"] == told


async def test_agents_are_a_tree_with_costs_of_their_own(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        thread = await web.thread("Prepare the release")
        tree = (await web.get(f"/api/threads/{thread['id']}/agents"))["tree"]
        assert tree["thread"] == thread["id"]
        assert [child["name"] for child in tree["children"]] == ["callers", "changelog"]
        assert all(child["state"] == "completed" for child in tree["children"])
        child = tree["children"][0]["thread"]
        # The tree is the same, whoever of it is asked.
        assert (await web.get(f"/api/threads/{child}/agents"))["tree"]["thread"] == thread["id"]
        assert (await web.get(f"/api/threads/{child}"))["agent_of"] == thread["id"]


async def test_the_transcript_tells_what_was_asked_and_what_the_user_refused(
    shown_home: Path,
) -> None:
    async with serving(shown_home) as web:
        verdicts: list[tuple[str, str]] = []
        for thread in await all_threads(web):
            if thread["name"] == "Try them.":
                page = await web.get(f"/api/threads/{thread['id']}/entries?limit=500")
                verdicts += [
                    (each["view"]["kind"], each["view"]["verdict"])
                    for each in page["entries"]
                    if "verdict" in each["view"]
                ]
        assert ("output", "refused by the user: use a copy") in verdicts


async def test_what_the_user_and_hooks_decided_stands_behind_the_call(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        said: dict[str, list[str]] = {"approval": [], "hook": []}
        for name in ("Try them.", "Mend the cache key"):
            base = f"/api/threads/{(await web.thread(name))['id']}"
            for each in (await web.get(f"{base}/entries?limit=500"))["entries"]:
                said.get(each["view"]["kind"], []).append(each["view"]["text"])
        assert said["approval"][:2] == [
            "allowed once: bash -c 'touch once'",
            "refused: bash -c 'touch refused'",
        ]
        assert said["hook"] == ["a hook stopped exec_command: deleting is not allowed here"]


async def test_text_of_strangers_stays_text_in_json(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        threads = await all_threads(web)
        thread = next(each for each in threads if "<script>" in each["name"])
        base = f"/api/threads/{thread['id']}"
        for view in (*VIEWS, "/requests/2", "/requests/2/body", "/requests/1/diff/2"):
            answer = await web.client.get(base + view)
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
        entries = (await web.get(f"{base}/entries"))["entries"]
        output = next(each for each in entries if each["view"]["kind"] == "output")
        assert output["view"]["cut"]
        assert output["view"]["chars"] > 4_000
        assert len(output["view"]["text"]) == 4_000
        assert "item" not in output
        whole = (await web.get(f"{base}/entries/{output['seq']}"))["view"]["text"]
        assert len(whole) == output["view"]["chars"]
        rest = await web.get(f"{base}/entries/{output['seq']}?offset=4000")
        assert output["view"]["text"] + rest["view"]["text"] == whole
        assert "\x1b[31mred" in whole
        assert "\u202e" in whole
        said = next(each for each in entries if "Authorization" in each["view"]["text"])
        assert "abcdefghijklmnop" not in str(said)


async def test_a_lost_ledger_is_said_to_be_lost(shown_home: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    await asyncio.to_thread(shutil.copytree, shown_home, home)
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        await asyncio.to_thread((home / name).unlink, missing_ok=True)
    async with serving(home) as web:
        thread = await web.thread("Mend the cache key")
        assert thread["indexed"] is False
        assert thread["requests"] == 0
        found = await web.get(f"/api/threads/{thread['id']}/ledger")
        assert (found["indexed"], found["requests"]) == (False, [])
        for view in VIEWS:
            await web.get(f"/api/threads/{thread['id']}{view}")
    assert not (home / "index.db").exists()


async def test_two_branches_show_what_they_share_and_what_is_their_own(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        parent = await web.thread("Which structure?")
        fork = await web.thread("Which structure, with forks?")
        found = await web.get(f"/api/threads/{parent['id']}/compare/{fork['id']}")
        assert found["common"]["seq"] == fork["cut"]
        assert found["common"]["turn"] == parent["turns"]
        own = [turn for turn in found["b"] if turn["number"] > found["common"]["turn"]]
        assert [turn["text"] for turn in own] == ["And with forks?"]
        stranger = await web.thread("Mend the cache key")
        apart = await web.get(f"/api/threads/{parent['id']}/compare/{stranger['id']}")
        assert apart["common"] is None
        # What was rolled back is still told, and marked.
        entries = (await web.get(f"/api/threads/{parent['id']}/entries?limit=500"))["entries"]
        hidden = [entry for entry in entries if not entry["visible"]]
        assert any("And their order?" in entry["view"]["text"] for entry in hidden)
        assert all("rolled back" in entry["view"]["badges"] for entry in hidden)


async def test_an_imported_thread_says_what_is_not_known(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        threads = [each for each in await all_threads(web) if each["imported"]]
        thread = await web.get(f"/api/threads/{threads[0]['id']}")
        assert thread["imported"]["from"] == "codex"
        assert any("bytes of its requests" in each for each in thread["what_is_not_known"])


async def test_the_plan_of_a_turn_is_told_as_the_log_has_it(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        base = f"/api/threads/{(await web.thread('Mend the cache key'))['id']}"
        told = await web.get(f"{base}/plan?turn=2")
        assert (told["turn"], told["state"]) == (2, "completed")
        assert told["plan"]["target"] == {
            "provider": "scripted",
            "model": "sonata",
            "api": "responses",
        }
        assert "exec_command" in told["plan"]["tools"]["names"]
        assert (await web.get(f"{base}/plan?turn=99", 404))["error"]["code"] == "not_found"


async def test_search_finds_what_is_not_indexed_yet(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        thread = await web.thread("A long thread")
        found = await web.get(f"/api/recall?q=file_97.py&thread={thread['id']}&limit=3")
        assert {hit["name"] for hit in found["hits"]} == {"A long thread"}
        assert "97" in found["hits"][0]["snippet"]
        assert (await web.get("/api/recall?q="))["hits"] == []


async def test_wrong_parameters_are_refused_with_what_to_do(shown_home: Path) -> None:
    async with serving(shown_home) as web:
        base = f"/api/threads/{(await web.thread('A long thread'))['id']}"
        for path, status, words in (
            (f"{base}/ledger?from=x", 400, "whole number"),
            ("/api/threads?before=x", 400, "next"),
            ("/api/threads/thr_none", 404, "thr_none"),
            (f"{base}/requests/999999", 404, "/ledger"),
            (f"{base}/requests/0", 404, "/ledger"),
            (f"{base}/requests/1/rows/9999", 404, "rows 0 to"),
            (f"{base}/entries/999999", 404, "entries 1 to"),
            ("/api/events?thread=thr_none", 404, "thr_none"),
        ):
            told = await web.get(path, status)
            assert words in told["error"]["message"], told
        much = await web.get(f"{base}/entries?limit=100000")
        assert len(much["entries"]) == 500


async def test_a_home_without_threads_is_shown_as_empty(tmp_path: Path) -> None:
    async with serving(tmp_path / "nothing") as web:
        assert await web.get("/api/threads") == {"threads": [], "next": None}
        assert (await web.get("/api/recall?q=anything"))["hits"] == []
    assert not (tmp_path / "nothing").exists()
