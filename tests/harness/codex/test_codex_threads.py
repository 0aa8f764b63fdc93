from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.engines.scenes import Intercepting, Probe, engine_message
from tests.harness.codex.scenes import (
    MODEL,
    codex,
    hear,
    of,
    open_stage,
    request_items,
    roles_and_texts,
    talk,
)
from tests.harness.codex.view_items import continues, shows_view, start_reasons, thread_reasons
from treadle import Thread
from treadle.core.entries import ProjectionMark
from treadle.engines.contract import EngineInfo
from treadle.engines.values import AssembleParams, AssembleResult, InterceptResult, Projection
from treadle.harness.codex.binding import KEY, TOPIC, Binding, read_binding
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.events import HarnessReported
from treadle.store.contract import OutboxDraft
from treadle.testing.script import Answer


async def kept(thread: Thread) -> list[Binding | None]:
    """The bindings of a thread in the store."""
    return [read_binding(row) for row in await thread.store.outbox(thread=thread.id, topic=TOPIC)]


async def plant(thread: Thread, binding: Binding | bytes) -> None:
    """Put another binding in the place of the thread's own."""
    body = binding if isinstance(binding, bytes) else msgspec.json.encode(binding)
    await thread.log.queue(OutboxDraft(topic=TOPIC, key=KEY, body=Raw(body), state="ready"))


class Planning(Probe):
    """Shows a record of its own and the present input, for as long as its epoch lasts."""

    epoch, fingerprint = "winter", "1"

    def __init__(self, info: EngineInfo | None = None, **answers: Any) -> None:
        super().__init__(info, **{"assemble": self.plan, **answers})

    def plan(self, given: AssembleParams) -> AssembleResult:
        return AssembleResult(
            items=(engine_message(f"It was {self.epoch}."), given.items[-1]),
            projection=Projection(mode="per_epoch", epoch=self.epoch, fingerprint=self.fingerprint),
        )


async def test_a_binding_says_what_its_codex_thread_was_started_for(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread(engine=Planning()) as thread:
        await talk(thread, "Hello.", "And now?")
        (found,) = await kept(thread)
        assert found is not None
        live = stage.harness.threads.live[thread.id]
        assert msgspec.structs.replace(found, former=()) == live.binding
        assert (found.thread, found.engine, found.mode) == (thread.id, "probe", "native")
        assert (found.plan, found.base) == (
            ProjectionMark("probe", "winter", "1"),
            thread.view.base,
        )
        assert (found.turn, found.model) == (2, MODEL)
        assert found.path is not None
        assert found.codex in found.path
        (server,) = stage.harness.servers.servers
        assert found.codex_version == str(server.version)


async def test_a_plan_is_carried_over_once_and_then_only_what_is_said(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread(engine=Planning()) as thread:
        await hear(thread, "Hello.")
        first = await hear(thread, "And now?")
        second = await hear(thread, "And then?")
        assert shows_view(thread, stage.requests[-1])
        assert start_reasons(first) == ["missing-projection-binding"]
        assert thread_reasons(second) == ["matching-thread-bootstrap-binding"]
        (report,) = of(second, HarnessReported)
        assert report.details["items"] == 0
        assert roles_and_texts(request_items(stage.requests[-1]))[-1] == ("user", "And then?")
        assert continues(stage.requests[-1], stage.requests[-2])


async def test_another_epoch_or_fingerprint_of_the_plan_is_a_new_thread_and_binding(tmp_path):
    engine = Planning()
    async with open_stage(tmp_path) as stage, stage.thread(engine=engine) as thread:
        await talk(thread, "Hello.", "And now?")
        engine.epoch = "spring"
        spring = await hear(thread, "Is it spring?")
        assert shows_view(thread, stage.requests[-1])
        engine.fingerprint = "2"
        other = await hear(thread, "Is it?")
        assert shows_view(thread, stage.requests[-1])
        (found,) = await kept(thread)
        assert (start_reasons(spring), start_reasons(other)) == (["projection-mismatch"],) * 2
        assert found is not None
        assert found.plan == ProjectionMark("probe", "spring", "2")


async def test_from_epochs_to_turns_is_a_new_thread_whose_binding_has_no_plan(tmp_path):
    engine = Planning()
    async with open_stage(tmp_path) as stage, stage.thread(engine=engine) as thread:
        await talk(thread, "Hello.", "And now?")
        engine.answers["assemble"] = lambda given: AssembleResult(
            items=(engine_message("It thawed."), given.items[-1])
        )
        heard = await hear(thread, "And then?")
        (found,) = await kept(thread)
        assert start_reasons(heard) == ["projection-mismatch"]
        assert found is not None
        assert found.plan is None
        assert shows_view(thread, stage.requests[-1])


async def test_rows_that_were_taken_back_are_not_shown_again(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await talk(thread, "One.", "Two.", "Three.")
        await thread.rollback()
        heard = await hear(thread, "Four.")
        assert start_reasons(heard) == ["view-mismatch"]
        assert shows_view(thread, stage.requests[-1])
        cut = thread.view.rows[1].seq
        assert cut is not None
        await thread.revert(cut)
        again = await hear(thread, "Five.")
        assert start_reasons(again) == ["view-mismatch"]
        assert shows_view(thread, stage.requests[-1])
        texts = [
            what
            for who, what in roles_and_texts(request_items(stage.requests[-1]))
            if who == "user"
        ]
        assert texts == ["One.", "Five."]


async def test_another_model_gets_a_thread_of_its_own(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "One.")
        thread.use("openai:gpt-5.4")
        heard = await hear(thread, "Two.")
        assert start_reasons(heard) == ["model-mismatch"]
        assert stage.requests[-1].payload["model"] == "gpt-5.4"
        assert shows_view(thread, stage.requests[-1])


async def test_another_budget_is_another_policy(tmp_path):
    async with open_stage(tmp_path) as stage:
        async with stage.thread(engine=Probe()) as thread:
            await hear(thread, "One.")
            name = thread.id
        (tmp_path / "treadle" / "models.toml").write_text(
            '[models."gpt-5.5"]\ncontext_window = 50000\n'
        )
        async with stage.thread(name, engine=Probe()) as thread:
            heard = await hear(thread, "Two.")
            assert start_reasons(heard) == ["context-engine-binding-mismatch"]
            assert shows_view(thread, stage.requests[-1])


@pytest.mark.parametrize(
    "info",
    [
        EngineInfo(id="other", name="Probe"),
        EngineInfo(id="probe", name="Probe", version="2"),
        EngineInfo(id="probe", name="Probe", owns_compaction=True),
    ],
    ids=["engine", "version", "owner"],
)
async def test_another_engine_or_version_is_given_a_new_thread(tmp_path, info):
    async with open_stage(tmp_path) as stage:
        async with stage.thread(engine=Probe()) as thread:
            await hear(thread, "One.")
            name = thread.id
        async with stage.thread(name, engine=Probe(info)) as thread:
            heard = await hear(thread, "Two.")
            assert start_reasons(heard) == ["context-engine-binding-mismatch"]
            assert shows_view(thread, stage.requests[-1])


async def test_without_its_engine_a_thread_goes_on_with_what_the_view_says(tmp_path):
    async with open_stage(tmp_path) as stage:
        async with stage.thread(engine=Planning()) as thread:
            await talk(thread, "One.", "Two.")
            name = thread.id
        async with stage.thread(name) as thread:
            heard = await hear(thread, "Three.")
            assert start_reasons(heard) == ["context-engine-binding-mismatch"]
            assert shows_view(thread, stage.requests[-1])
            assert roles_and_texts(request_items(stage.requests[-1]))[0] == (
                "user",
                "It was winter.",
            )


async def test_other_rights_are_told_on_the_same_thread(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "One.")
        assert thread.log.setup.settings is not None
        thread.adopt(msgspec.structs.replace(thread.log.setup.settings, sandbox_mode="read-only"))
        heard = await hear(thread, "Two.")
        assert thread_reasons(heard) == ["per-turn-projection"]
        assert shows_view(thread, stage.requests[-1])
        before, after = (request.payload["input"] for request in stage.requests)
        assert after[: len(before)] == before
        told, *_, said = after[len(before) + 1 :]
        assert (told["role"], roles_and_texts([said])) == ("developer", [("user", "Two.")])
        assert "`sandbox_mode` is `read-only`" in told["content"][0]["text"]


async def test_a_fork_is_shown_in_a_thread_of_its_own(tmp_path):
    async with open_stage(tmp_path) as stage:
        async with stage.thread() as thread:
            await talk(thread, "One.", "Two.")
            parent = stage.harness.threads.live[thread.id].binding
            child = await thread.fork()
        async with stage.thread(child) as forked:
            await plant(forked, parent)
            heard = await hear(forked, "Three.")
            assert start_reasons(heard) == ["foreign-binding"]
            assert shows_view(forked, stage.requests[-1])
            (found,) = await kept(forked)
            assert found is not None
            assert (found.thread, found.codex != parent.codex) == (forked.id, True)


def garbage(_: Binding) -> bytes:
    return b'{"nonsense":1}'


def newer(own: Binding) -> Binding:
    return msgspec.structs.replace(own, version=2)


@pytest.mark.parametrize("other", [garbage, newer])
async def test_a_binding_that_cannot_be_read_is_replaced(tmp_path, other):
    async with open_stage(tmp_path) as stage:
        async with stage.thread() as thread:
            await hear(thread, "One.")
            own = stage.harness.threads.live[thread.id].binding
            name = thread.id
        async with stage.thread(name) as thread:
            await plant(thread, other(own))
            heard = await hear(thread, "Two.")
            assert start_reasons(heard) == ["missing-thread-binding"]
            assert shows_view(thread, stage.requests[-1])
            (found,) = await kept(thread)
            assert found is not None
            assert (found.thread, found.version) == (thread.id, 1)


async def test_a_binding_that_was_tampered_with_leads_to_no_other_thread(tmp_path):
    async with open_stage(tmp_path) as stage:
        async with stage.thread() as secret:
            await hear(secret, "The code is quokka.")
            other = stage.harness.threads.live[secret.id].binding
        async with stage.thread() as thread:
            await hear(thread, "One.")
            name = thread.id
            (own,) = await kept(thread)
        async with stage.thread(name) as thread:
            assert own is not None
            await plant(thread, msgspec.structs.replace(own, codex=other.codex, path=other.path))
            await hear(thread, "Two.")
            assert shows_view(thread, stage.requests[-1])
            assert "quokka" not in stage.requests[-1].body.decode()
            assert stage.requests[-1].payload["prompt_cache_key"] != other.codex


async def test_a_reset_lets_go_of_the_binding(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "One.")
        await thread.reset()
        assert await kept(thread) == []
        heard = await hear(thread, "Two.")
        assert start_reasons(heard) == ["missing-thread-binding"]
        assert roles_and_texts(request_items(stage.requests[-1])) == [("user", "Two.")]
        assert shows_view(thread, stage.requests[-1])


async def test_a_reset_lets_go_of_the_binding_whatever_harness_serves_now(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "One.")
        thread.use(harness="treadle")
        await hear(thread, "Two.")
        await thread.reset()
        assert await kept(thread) == []


async def test_what_an_engine_says_is_no_part_of_the_tool_fingerprint(tmp_path):
    engine = Probe()
    async with open_stage(tmp_path) as stage, stage.thread(engine=engine) as thread:
        await hear(thread, "One.")
        (before,) = await kept(thread)
        engine.answers["assemble"] = lambda given: AssembleResult(
            items=(engine_message("Much."), given.items[-1]),
            system_prompt_addition="Use your tools.",
        )
        await hear(thread, "Two.")
        (after,) = await kept(thread)
        assert before is not None
        assert after is not None
        assert (after.tools, after.policy) == (before.tools, before.policy)
        assert after.codex != before.codex


async def test_a_thread_has_one_binding_which_follows_its_turns(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "One.")
        (row,) = await thread.store.outbox(topic=TOPIC)
        await hear(thread, "Two.")
        (again,) = await thread.store.outbox(topic=TOPIC)
        assert (row.number, row.thread, row.state) == (again.number, thread.id, "ready")
        found = [read_binding(each) for each in (row, again)]
        assert [each.turn for each in found if each] == [1, 2]


async def test_another_executable_is_shown_the_view(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "One.")
        name = thread.id
    other = tmp_path / "another-codex"
    other.symlink_to(codex())
    async with (
        open_stage(tmp_path, options=CodexOptions(binary=other)) as stage,
        stage.thread(name) as thread,
    ):
        heard = await hear(thread, "Two.")
        assert start_reasons(heard) == []
        assert shows_view(thread, stage.requests[-1])
        assert [what for _, what in roles_and_texts(request_items(stage.requests[-1]))] == [
            "One.",
            "fine",
            "Two.",
        ]


async def test_a_view_that_grows_too_large_is_compacted_first_and_shown_in_a_new_thread(tmp_path):
    engine = Intercepting(intercept_compaction=InterceptResult(summary="We spoke of rain."))
    (tmp_path / "treadle").mkdir()
    facts = '[models."gpt-5.5"]\nauto_compact_token_limit = 3000\n'
    (tmp_path / "treadle" / "models.toml").write_text(facts)
    async with (
        open_stage(tmp_path, Answer(text="rain " * 4_000)) as stage,
        stage.thread(engine=engine) as thread,
    ):
        await hear(thread, "One.")
        heard = await hear(thread, "Two.")
        assert start_reasons(heard) == ["epoch-mismatch"]
        assert shows_view(thread, stage.requests[-1])
        assert len(stage.requests) == 2
        assert "rain rain" not in stage.requests[-1].body.decode()
        assert "We spoke of rain." in roles_and_texts(request_items(stage.requests[-1]))[-2][1]
