from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.context.reference import assert_paired, expected_bodies, shown_items
from tests.context.scenes import CONTEXT, MODEL, OTHER_MODEL, Scene, answer, call, reasoning
from tests.strategies import context_changes, items
from treadle.context.cuts import step_boundary
from treadle.context.rebuild import Rebuilt, rebuild_ledger
from treadle.context.recipe import first_context
from treadle.context.request import Renderer, Request
from treadle.context.row import Row
from treadle.context.rules import legal_cuts, synthetic_output
from treadle.context.view import load_view
from treadle.core.errors import IllegalCut
from treadle.core.items import Item
from treadle.core.specs import FunctionTool, parameters
from treadle.store.contract import Store
from treadle.store.index import MemoryIndex
from treadle.store.memory import MemoryStore
from treadle.store.sqlite import SqliteStore
from treadle.thread.thread import Thread

T = TypeVar("T")

LOOK = FunctionTool(name="look", description="Looks.", parameters=parameters({}))


class Weaving(RuleBasedStateMachine):
    """A host that does anything it may, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = MODEL
        self.tools: tuple[FunctionTool, ...] = ()
        self.active = False
        self.last: Request | None = None
        self.said = 0

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(job)

    async def make_store(self) -> Store:
        return MemoryStore()

    @initialize()
    def begin(self) -> None:
        self.store = self.run(self.make_store())
        self.index = MemoryIndex(self.store)
        self.open(None)

    def open(self, thread: str | None) -> None:
        self.stack = AsyncExitStack()
        opened = Thread.open(
            thread,
            store=self.store,
            index=self.index,
            model=self.model,
            tools=self.tools,
            cwd="/repo",
        )
        self.scene = Scene(self.run(self.stack.enter_async_context(opened)), CONTEXT)
        self.last = None

    @property
    def thread(self) -> Thread:
        return self.scene.thread

    @property
    def waiting(self) -> list[Row]:
        """The calls that lack an output."""
        return self.thread.view.open_calls

    @rule(change=context_changes)
    def say(self, change: dict[str, Any]) -> None:
        self.scene.change(**change)
        self.said += 1
        self.run(self.scene.say(f"u{self.said}"))
        self.active = True

    @precondition(lambda self: self.active and not self.waiting)
    @rule(calls=st.lists(st.sampled_from(["a", "b", "c"]), max_size=3), thinks=st.booleans())
    def send(self, calls: list[str], thinks: bool) -> None:
        request = self.thread.request()
        row = self.run(self.thread.log.requests.record(request))
        assert not row.unexplained
        if self.last is not None and self.last.epoch == request.epoch:
            assert request.body.startswith(self.last.body[:-2])
            assert row.difference is None
        self.last = request
        made: list[Item] = [reasoning()] if thinks else []
        made += [call(name) for name in calls] or [answer()]
        self.run(self.thread.log.requests.record_answer(made))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def finish_a_call(self, data: st.DataObject) -> None:
        answered = data.draw(st.sampled_from(self.waiting))
        self.run(self.thread.log.append(synthetic_output(answered, "done")))

    @precondition(lambda self: self.active and not self.waiting)
    @rule(stray=items)
    def record_anything(self, stray: Item) -> None:
        self.run(self.thread.log.append(stray))

    @rule(model=st.sampled_from([MODEL, OTHER_MODEL]), tools=st.sampled_from([(), (LOOK,)]))
    def switch(self, model: str, tools: tuple[FunctionTool, ...]) -> None:
        self.model, self.tools = model, tools
        self.thread.log.setup.use_model(model)
        self.thread.log.setup.tools = tools
        self.scene.change(model=model.partition(":")[2])

    @rule(turns=st.integers(1, 3))
    def rollback(self, turns: int) -> None:
        try:
            self.run(self.thread.rollback(turns))
        except IllegalCut:
            return
        self.active = False

    @rule(where=st.floats(0, 1))
    def revert(self, where: float) -> None:
        seq = round(where * self.thread.view.upto)
        assert self.run(self.thread.revert(seq)) <= seq
        self.active = False

    @precondition(lambda self: self.thread.view.rows)
    @rule(data=st.data(), summarised=st.booleans())
    def rebase(self, data: st.DataObject, summarised: bool) -> None:
        rows = list(self.thread.view.rows)
        cut = data.draw(st.sampled_from(legal_cuts(rows)))
        before = [row.node for row in rows[:cut] if row.node is not None]
        if summarised:
            self.said += 1
            before.append(self.run(self.scene.summary(self.said, 1, 9)))
        self.run(self.thread.log.epochs.rebase(cut, before=before))
        kept = [*first_context(rows), *rows[max(cut, len(first_context(rows))) :]]
        shown = [row for row in self.thread.view.rows if row.seq is not None]
        assert shown == [row for row in kept if row.seq is not None]

    @rule(where=st.floats(0, 1))
    def fork(self, where: float) -> None:
        parent = self.thread
        wanted = round(where * parent.view.upto)
        cut = self.run(step_boundary(self.store, parent.id, parent.registry, wanted))
        then = self.run(load_view(self.store, parent.id, parent.registry, upto=cut))
        child = self.run(self.store.fork(parent.id, cut))
        self.run(self.stack.aclose())
        self.open(child.id)
        then.thread = child.id
        assert self.thread.view == then
        self.active = False

    @rule()
    def reopen(self) -> None:
        self.run(self.stack.aclose())
        self.open(self.thread.id)
        self.active = False

    @rule(goal=st.sampled_from([None, "Ship it", "Fix it"]))
    def configure(self, goal: str | None) -> None:
        self.run(self.thread.log.configure(goal=goal))
        self.run(self.thread.log.note("The goal changed."))

    @invariant()
    def the_view_is_what_its_definition_says(self) -> None:
        view = self.thread.view
        assert shown_items(view) == self.run(expected_bodies(self.store, self.thread.id))

    @invariant()
    def a_view_kept_is_a_view_loaded(self) -> None:
        thread = self.thread
        loaded = self.run(load_view(self.store, thread.id, thread.registry))
        assert loaded == thread.view

    @invariant()
    def the_request_is_sound(self) -> None:
        if self.thread.view.head is None:
            return
        request = self.thread.request()
        assert request == Renderer().render(self.thread.view)
        sent = msgspec.json.decode(request.body)["input"]
        assert_paired(sent)

    def teardown(self) -> None:
        thread, rows = self.thread, self.run(self.index.rows(self.thread.id))
        other = MemoryIndex(self.store)
        rebuilt = self.run(rebuild_ledger(self.store, other, thread.id, thread.registry))
        assert rebuilt == Rebuilt(len(rows))
        assert self.run(other.rows(thread.id)) == rows
        for close in (other.close, self.stack.aclose, self.index.close, self.store.close):
            self.run(close())
        self.runner.close()


class WeavingOnDisk(Weaving):
    """The same on a real file."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()

    async def make_store(self) -> Store:
        return await SqliteStore.open(Path(self.directory.name))

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


test_any_order_of_events_keeps_the_view_sound = Weaving.TestCase
test_any_order_of_events_keeps_the_view_sound_on_disk = WeavingOnDisk.TestCase
test_any_order_of_events_keeps_the_view_sound_on_disk.settings = settings(max_examples=8)
