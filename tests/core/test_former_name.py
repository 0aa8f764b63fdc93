"""A home that commit e0934c5 wrote, when this project was called Weft, goes on.

`data/former_home.tar.xz` holds that home, the last request of each of its threads, and a
record of their ledgers. Of the requests to Codex it holds only what is ours.
"""

from __future__ import annotations

import asyncio
import errno
import json
import re
import sqlite3
import tarfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import Treadle
from tests.engines.lossless.scenes import ASKED, summaries
from tests.harness.codex.scenes import MODEL, codex, providers, request_items, surroundings
from tests.harness.codex.view_items import shows_view, start_reasons, without_ids
from tests.harness.scenes import hear, last
from treadle import Rights, Routing, Thread
from treadle.config import load_config
from treadle.config.config_file import find_project_file
from treadle.config.trusted_files import TrustStore
from treadle.context.rebuild import rebuild_ledger
from treadle.core.entries import Entry, Inline, Origin, Reason
from treadle.core.errors import StoreBusy, StoreError
from treadle.core.former_name import find_home, renamed_harness
from treadle.core.items import Message
from treadle.core.wire import Json
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
from treadle.harness.codex.rollout_reader import locate_rollout
from treadle.harness.registry import canonical
from treadle.prompt.registry import default_registry
from treadle.prompt.signals import annotate
from treadle.sandbox.boundary import Boundary, resolve_boundary
from treadle.sandbox.policy import SandboxPolicy
from treadle.store.contract import LedgerRow
from treadle.store.index import SqliteIndex
from treadle.store.move_home import move_home, plan_move
from treadle.store.sqlite import SqliteStore
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script
from treadle.testing.scripted import ScriptedModel

DATA = Path(__file__).parent / "data" / "former_home.tar.xz"
THREADS = ("reasoning", "linear", "shaped", "lossless", "codex", "codex-lossless")
TYPED = {*Reason} - {Reason.OTHER}
SCHEMA = Json(
    b'{"type": "object", "properties": {"largest": {"type": "integer"}}, '
    b'"required": ["largest"], "additionalProperties": false}'
)


@dataclass
class Past:
    """The old home, unpacked, and what is known of it."""

    place: Path

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.place / "record.json").read_text())
        return record

    def thread(self, name: str) -> str:
        return str(self.record[name]["thread"])

    def request(self, name: str) -> bytes:
        """The last request of a thread."""
        return (self.place / "requests" / f"{name}.json").read_bytes()

    @asynccontextmanager
    async def opened(
        self, name: str, model: ScriptedModel, **options: Any
    ) -> AsyncIterator[Thread]:
        """A thread of the old home, in a directory that it has not worked in."""
        project = self.place / "project"
        project.mkdir(exist_ok=True)
        try:
            async with Thread.open(
                self.thread(name),
                model=model,
                home=self.home,
                cwd=project,
                rights=Rights(sandbox="danger-full-access", approval="never"),
                **options,
            ) as thread:
                yield thread
        finally:
            await model.close()


@pytest.fixture
def past(tmp_path: Path) -> Past:
    place = tmp_path / "past"
    with tarfile.open(DATA) as archive:
        archive.extractall(place, filter="data")
    return Past(place)


@pytest.fixture
def treadle(tmp_path: Path) -> Treadle:
    """The command, for a user who has set no `TREADLE_HOME`."""
    project = tmp_path / "user"
    (project / ".git").mkdir(parents=True)
    return Treadle(project / ".local/share/treadle", project, {"TREADLE_HOME": ""})


def items(body: bytes) -> list[Any]:
    found: list[Any] = json.loads(body)["input"]
    return found


async def new_rows(past: Past, name: str, thread: Thread) -> Sequence[LedgerRow]:
    """What the ledger says of the requests that were sent under the new name."""
    rows = await thread.index.rows(thread.id)
    known = past.record[name]
    assert rows[known["requests"] - 1].digest == known["digest"]
    return rows[known["requests"] :]


def explained(row: LedgerRow) -> bool:
    """Whether a request extends the one before, or an entry says why not."""
    if row.difference is None:
        return True
    reasons = {*(row.reason or "").split("+")}
    return not row.unexplained and reasons <= TYPED


async def test_sealed_reasoning_goes_home(past):
    model = ScriptedModel([Answer(reasoning="Once more.", text="Still brief.")])
    async with past.opened("reasoning", model) as thread:
        heard = await hear(thread, "And what else?")
        (row,) = await new_rows(past, "reasoning", thread)
    assert last(heard).text == "Still brief."
    before, now = past.request("reasoning"), model.requests[-1].body
    assert items(now)[: len(items(before))] == items(before)
    assert explained(row)
    assert row.reason is not None or now.startswith(before.removesuffix(b"]}"))
    # The two that were sent before, and the one that the last answer brought.
    sealed = re.findall(rb'"encrypted_content":"sealed:\w+"', now)
    assert (len(sealed), len({*sealed})) == (3, 3)
    # What somebody left for the thread under the old name is read, too.
    assert b"And look at the tests, too." in now


async def test_the_origin_of_old_entries_is_our_own_loop_and_their_bytes_stay(past):
    async with await SqliteStore.open(past.home) as store:
        entries = await store.read(past.thread("reasoning"))
    harnesses = {entry.origin.harness for entry in entries if entry.origin}
    assert harnesses == {"treadle"}
    with closing(sqlite3.connect(past.home / "log.db")) as log:
        origins = [json.loads(origin) for (origin,) in log.execute("SELECT origin FROM origins")]
    assert {origin["harness"] for origin in origins} == {"weft", "codex"}
    assert (renamed_harness("weft"), renamed_harness("mine")) == ("treadle", "mine")
    # An item in a recipe says its origin itself.
    inline = Inline(body=Json(b"{}"), origin=Origin("p", harness="weft"))
    assert inline.origin == Origin("p", harness="treadle")


async def test_every_old_request_is_rendered_as_it_was_sent(past):
    async with await SqliteStore.open(past.home) as store:
        index = SqliteIndex(store, past.home)
        try:
            for name in ("reasoning", "linear", "shaped", "lossless"):
                rebuilt = await rebuild_ledger(store, index, past.thread(name), default_registry())
                known = past.record[name]
                assert (rebuilt.requests, rebuilt.differing) == (known["requests"], ()), name
                rows = await index.rows(past.thread(name))
                assert rows[-1].digest == known["digest"]
        finally:
            await index.close()


async def test_a_folded_and_rolled_back_thread_goes_on_and_reads_an_old_output_back(past):
    async with await SqliteStore.open(past.home) as store:
        log = await store.read(past.thread("linear"))
    (handle,) = {
        found[1].decode()
        for entry in log
        if (found := re.search(rb"Full output: (sha256:\w+)", entry.body))
    }
    look = Call(name="read_output", arguments={"handle": handle, "pattern": "2999"}, id="look")
    model = ScriptedModel([Answer(calls=(look,)), Answer(text="It is there.")])
    async with past.opened("linear", model) as thread:
        await hear(thread, "Is 2999 there?")
        rows = await new_rows(past, "linear", thread)
    before, now = past.request("linear"), model.requests[-1].body
    assert items(now)[: len(items(before))] == items(before)
    assert all(map(explained, rows))
    (result,) = [item for item in items(now) if item.get("call_id") == "look"][1:]
    assert "2999" in str(result["output"])
    assert b"Say something to forget." not in now


async def test_the_name_of_a_schema_changes_with_a_reason(past):
    model = ScriptedModel([Answer(text='{"largest":5}'), Answer(text='{"largest":6}')])
    async with past.opened("shaped", model) as thread:
        for said in ("4 or 5?", "5 or 6?"):
            await hear(thread, said, schema=SCHEMA)
        first, second = await new_rows(past, "shaped", thread)
    assert explained(first)
    assert first.reason is not None
    assert (second.difference, second.reason) == (None, None)
    before, now = past.request("shaped"), model.requests[0].body
    assert items(now)[: len(items(before))] == items(before)
    names = [json.loads(body)["text"]["format"]["name"] for body in (before, now)]
    assert names == ["weft_output", "treadle_output"]


async def test_a_lossless_thread_goes_on_with_its_summaries(past):
    nodes = past.record["nodes"]
    look = Call(name="recall_expand", arguments={"id": nodes[0]}, id="look")
    model = ScriptedModel(
        [
            Answer(when=ASKED, times=0, text="More words.\nExpand for details about: words"),
            Answer(calls=(look,)),
            Answer(text="That was about part 1."),
        ],
        "small",
    )
    async with past.opened("lossless", model, engine="lossless") as thread:
        assert summaries(thread) == nodes
        await hear(thread, "What did we begin with?")
        await thread.wait_for_engine(20)
        assert summaries(thread)[: len(nodes)] == nodes
        rows = await new_rows(past, "lossless", thread)
    asked = [each.body for each in model.requests if ASKED.encode() not in each.body]
    before, now = past.request("lossless"), asked[-1]
    assert items(now)[: len(items(before))] == items(before)
    assert all(map(explained, rows))
    (result,) = [item for item in items(now) if item.get("call_id") == "look"][1:]
    assert "src/part_1.py" in str(result["output"])


@pytest.mark.parametrize(("name", "engine"), [("codex", "linear"), ("codex-lossless", "lossless")])
async def test_a_thread_on_codex_goes_on_there(past, name, engine):
    environ = await asyncio.to_thread(surroundings, past.place)
    script = Script(answers=(Answer(reasoning="A look.", text="It clears up."),) * 4)
    async with FakeServer(script) as server:
        known = providers(server.base_url)
        options = CodexOptions(binary=codex())
        harness = CodexHarness(options, home=past.home, environ=environ, providers=known)
        try:
            async with Thread.open(
                past.thread(name),
                model=MODEL,
                harness=harness,
                engine=engine,
                home=past.home,
                cwd=past.place / "project",
                rights=Rights(sandbox="danger-full-access", approval="never"),
                routing=Routing(environ=environ, providers=known),
            ) as thread:
                heard = await hear(thread, "And then?")
                assert shows_view(thread, server.requests[-1])
                rows = await new_rows(past, name, thread)
        finally:
            await harness.close()
    assert (last(heard).status, last(heard).text) == ("completed", "It clears up.")
    (reason,) = start_reasons(heard)
    # Tools that say something else by now need another thread, too.
    assert reason in {"app-server-restarted", "dynamic-tools-mismatch"}
    before = json.loads(past.request(name))
    assert without_ids(request_items(server.requests[-1]))[: len(before)] == without_ids(before)
    assert rows
    assert all(map(explained, rows))


async def test_words_of_the_runtime_in_an_old_message_are_known_for_its_own(past):
    async with await SqliteStore.open(past.home) as store:
        entries = await store.read(past.thread("linear"))
    (entry,) = [each for each in entries if b"<inter_session_message>" in each.body]
    message, events = _message(entry), entry.events
    assert "Weft routed this message" in str(message)
    assert "Weft reports the end" in str(message)
    again = annotate(message, entry.provenance, events, default_registry().vocabulary)
    assert len(again.message.content) == len(message.content)
    assert again.message.content[1] == message.content[1]
    assert [mark.part for mark in again.marks] == [mark.part for mark in entry.fragments]
    assert "Weft" not in str(again.message)


def _message(entry: Entry) -> Message:
    item = entry.item
    assert isinstance(item, Message)
    return item


def test_the_old_id_of_our_loop_is_an_alias():
    assert canonical(" Weft ") == "treadle"


def test_the_old_directory_of_a_project_counts_where_there_is_no_new_one(past):
    project = past.place / "theirs"
    old, new = (project / name / "config.toml" for name in (".weft", ".treadle"))
    old.parent.mkdir(parents=True)
    old.write_text('effort = "low"\n')
    assert find_project_file(project) == old
    assert load_config(past.home, project, {}).untrusted == old
    TrustStore(past.home).trust(old)
    assert load_config(past.home, project, {}).settings.effort == "low"
    new.parent.mkdir()
    new.write_text("")
    assert find_project_file(project) == new


def test_commands_cannot_change_the_old_directory_of_a_project(tmp_path):
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    project, old = tmp_path / "project", tmp_path / "project" / ".weft"
    project.mkdir()

    def drawn() -> Boundary:
        return resolve_boundary(
            policy, project, home=tmp_path / "home", environ={"HOME": str(tmp_path)}
        )

    # Where there is none, commands see no place kept free for it.
    assert old not in [rule.path for rule in drawn().rules]
    old.mkdir()
    assert old in [rule.path for rule in drawn().rules]
    assert drawn().access(old / "config.toml") == "read"


def test_commands_cannot_read_an_old_home_that_is_not_in_use(tmp_path):
    policy, old = SandboxPolicy(), tmp_path / ".local/share/weft"
    old.mkdir(parents=True)
    boundary = resolve_boundary(
        policy, tmp_path, home=tmp_path / "new", environ={"HOME": str(tmp_path)}
    )
    assert boundary.access(old / "auth.json") == "hidden"


def test_the_old_variable_names_a_home_and_the_user_hears_of_it_once(past, treadle):
    treadle.environ["WEFT_HOME"] = str(past.home)
    first = treadle("threads", "--json")
    assert {row["id"] for row in first.json} == {past.thread(name) for name in THREADS}
    assert (first.err.count("\n"), "`treadle home migrate` moves it" in first.err) == (1, True)
    again = treadle("home", "path", "--json")
    assert again.err == ""
    assert again.json == {"home": str(past.home), "exists": True, "former": True}
    assert treadle("auth", "list", "--json").json[0]["profile"] == "openai:work"


def test_the_old_data_directory_is_found_and_a_new_one_wins(past, treadle):
    usual = treadle.project / ".local/share/weft"
    usual.parent.mkdir(parents=True)
    past.home.rename(usual)
    assert treadle("home", "path").lines == [str(usual)]
    treadle.environ["WEFT_HOME"] = str(past.place / "nowhere")
    assert treadle("home", "path").lines == [str(usual)]
    treadle.home.mkdir()
    assert treadle("home", "path").lines == [str(usual)]
    (treadle.home / "config.toml").write_text("")
    assert treadle("home", "path").lines == [str(treadle.home)]
    treadle.environ["TREADLE_HOME"] = str(past.place / "named")
    assert treadle("home", "path").lines == [str(past.place / "named")]


def test_a_home_is_found_only_where_something_was_kept(tmp_path):
    environ = {"WEFT_HOME": str(tmp_path)}
    assert find_home(environ) != tmp_path
    (tmp_path / "log.db").touch()
    assert find_home(environ) == tmp_path


def test_migrating_moves_the_home_and_all_that_is_in_it(past, treadle):
    treadle.environ["WEFT_HOME"] = str(past.home)
    before = contents(past.home)
    planned = treadle("home", "migrate", "--dry-run", "--json").json
    assert (planned["moved"], planned["home"]) == (False, str(past.home))
    assert planned["move"]["target"] == str(treadle.home)
    assert contents(past.home).keys() == {*before, Path(".former-name-told")}
    size = f"{len(before) + 1} files, {planned['move']['size']:,} bytes"
    assert treadle("home", "migrate").lines == [
        f"moved {past.home} to {treadle.home} ({size})",
        "WEFT_HOME is no longer needed; unset it",
    ]
    assert not past.home.exists()
    assert contents(treadle.home) == before
    assert treadle("home", "path").lines == [str(treadle.home)]
    assert len(treadle("threads", "--json").json) == len(THREADS)
    again = treadle("home", "migrate")
    assert again.lines == ["there is no home of the former name; nothing was moved"]


async def test_a_home_in_which_somebody_works_is_not_moved(past, treadle, tmp_path):
    treadle.environ["WEFT_HOME"] = str(past.home)
    async with past.opened("reasoning", ScriptedModel([])):
        said = await asyncio.to_thread(treadle.refused, "home", "migrate")
    assert re.search(r"thread 'thr_\S+' is being written by .*; end that, then move", said)
    # Somebody may have the log open and write no thread.
    async with await SqliteStore.open(past.home):
        with pytest.raises(StoreBusy, match=r"keeps '\S+log.db' locked"):
            await asyncio.to_thread(plan_move, past.home, tmp_path / "new")
    assert past.home.exists()
    assert not treadle.home.exists()


def test_a_home_is_moved_only_where_nothing_is(past, tmp_path):
    taken, link = tmp_path / "taken", tmp_path / "link"
    taken.mkdir()
    (taken / "file").touch()
    link.symlink_to(past.home)
    for source, target, said in (
        (past.home, taken, "exists and is not empty"),
        (past.home, taken / "file", "is no directory"),
        (past.home, past.home / "below", "overlap"),
        (link, tmp_path / "new", "is a link"),
    ):
        with pytest.raises(StoreError, match=said):
            move_home(source, target)
    (taken / "file").unlink()
    assert move_home(past.home, taken).way == "rename"
    assert (taken / "log.db").exists()


def test_a_home_is_copied_to_another_file_system_and_compared(past, tmp_path):
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link", source, target)

    target = tmp_path / "elsewhere" / "treadle"
    left = target.with_name(".treadle.unfinished")
    left.mkdir(parents=True)
    (left / "half").touch()
    before = contents(past.home)
    assert move_home(past.home, target, rename=refuse).way == "copy"
    assert contents(target) == before
    assert [path.name for path in target.parent.iterdir()] == ["treadle"]
    assert not past.home.exists()
    assert not past.home.with_name(".home.moved").exists()


def test_a_move_that_fails_halfway_leaves_the_home_where_it_is(past, tmp_path):
    def fill(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", source, target)

    before = contents(past.home)
    with pytest.raises(StoreError, match="No space left on device"):
        move_home(past.home, tmp_path / "new", rename=fill)
    assert contents(past.home) == before


def test_a_rollout_is_locate_rollout_in_a_home_that_moved(tmp_path):
    lies = tmp_path / "codex" / "home" / "sessions" / "rollout.jsonl"
    lies.parent.mkdir(parents=True)
    lies.touch()
    assert locate_rollout("/old/codex/home/sessions/rollout.jsonl", tmp_path) == str(lies)
    assert locate_rollout(str(lies), Path("/elsewhere")) == str(lies)
    assert locate_rollout("/old/codex/home/sessions/lost.jsonl", tmp_path) == (
        "/old/codex/home/sessions/lost.jsonl"
    )
    assert locate_rollout(None, tmp_path) is None


def contents(home: Path) -> dict[Path, bytes]:
    """Every file of a home; what SQLite keeps beside an open database is none of them."""
    return {
        path.relative_to(home): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }
