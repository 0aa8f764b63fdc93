from __future__ import annotations

from typing import Any

from tests.engines.scenes import Probe, engine_message
from tests.harness.codex.scenes import hear, last, open_stage, request_items, roles_and_texts, talk
from tests.harness.codex.view_items import (
    add_weather_skill,
    compacting,
    continues,
    kill_server,
    shows_view,
    standing,
    start_reasons,
    thread_reasons,
    view_contents,
)
from treadle.core.items import FunctionCall
from treadle.engines.values import AssembleParams, AssembleResult
from treadle.prompt.prompt_context import PromptContext
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool

WORK = (
    Answer(
        reasoning="A look first.",
        calls=(Call(name="exec_command", arguments={"cmd": "echo rain"}, id="call_1"),),
    ),
    Answer(text="It rains."),
)


@tool
async def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what} weighs 3 kg"


async def test_inside_an_epoch_every_request_is_the_view_and_begins_with_the_one_before(tmp_path):
    async with open_stage(tmp_path, *WORK) as stage, stage.thread(engine=Probe()) as thread:
        for said in ("How is the weather?", "And tomorrow?", "And then?"):
            await hear(thread, said)
            assert shows_view(thread, stage.requests[-1])
        requests = stage.requests
        assert all(continues(*pair) for pair in zip(requests[1:], requests, strict=False))
        assert roles_and_texts(request_items(requests[-1]))[-1] == ("user", "And then?")


async def test_an_epoch_of_the_engine_is_a_new_codex_thread_with_the_view_as_its_history(tmp_path):
    engine = Probe()
    async with open_stage(tmp_path, *WORK) as stage, stage.thread(engine=engine) as thread:
        await hear(thread, "How is the weather?")
        engine.answers["assemble"] = compacting("It rained.")
        heard = await hear(thread, "And tomorrow?")
        assert shows_view(thread, stage.requests[-1])
        del engine.answers["assemble"]
        again = await hear(thread, "And then?")
        assert shows_view(thread, stage.requests[-1])
    assert (start_reasons(heard), thread_reasons(again)) == (
        ["epoch-mismatch"],
        ["per-turn-projection"],
    )
    assert roles_and_texts(request_items(stage.requests[2])) == [
        ("user", "It rained."),
        ("user", "And tomorrow?"),
    ]
    assert continues(stage.requests[3], stage.requests[2])


async def test_a_thread_that_is_opened_again_is_shown_as_it_was(tmp_path):
    async with open_stage(tmp_path, *WORK) as stage:
        async with stage.thread() as thread:
            await hear(thread, "How is the weather?")
            name, before = thread.id, thread.view.rows
        async with stage.thread(name) as thread:
            heard = await hear(thread, "And tomorrow?")
            assert thread.view.rows[: len(before)] == before
            assert shows_view(thread, stage.requests[-1])
    assert start_reasons(heard) == []
    assert [who for who, _ in roles_and_texts(request_items(stage.requests[-1]))] == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
        "assistant",
        "user",
    ]


async def test_items_keep_the_ids_of_their_provider_and_get_the_same_ones_each_time(tmp_path):
    async with open_stage(tmp_path, *WORK) as stage:
        async with stage.thread() as thread:
            await hear(thread, "How is the weather?")
            name = thread.id
        for said in ("And tomorrow?", "And then?"):
            async with stage.thread(name) as thread:
                await hear(thread, said)
        first, second = (request_items(request) for request in stage.requests[-2:])
        assert first[:-1] == second[: len(first) - 1]
        given = {row.shape.id for row in thread.view.rows if row.shape.id}
        assert {item["id"] for item in first if item["type"] != "message"} <= given
        assert len({item["id"] for item in second}) == len(second)


async def test_after_a_crash_of_the_app_server_the_next_turn_is_shown_the_view(tmp_path):
    async with open_stage(tmp_path, *WORK) as stage, stage.thread() as thread:
        await hear(thread, "How is the weather?")
        (server,) = stage.harness.servers.servers
        await kill_server(server)
        heard = await hear(thread, "And tomorrow?")
        assert start_reasons(heard) == ["app-server-restarted"]
        assert last(heard).status == "completed"
        assert shows_view(thread, stage.requests[-1])


async def test_two_equal_items_of_an_engine_have_two_ids(tmp_path):
    def twice(given: AssembleParams) -> AssembleResult:
        return AssembleResult(
            items=(engine_message("Again."), engine_message("Again."), given.items[-1])
        )

    engine = Probe()
    async with open_stage(tmp_path) as stage, stage.thread(engine=engine) as thread:
        await hear(thread, "Hello.")
        engine.answers["assemble"] = twice
        await hear(thread, "Hello.")
        assert shows_view(thread, stage.requests[-1])
        items = request_items(stage.requests[-1])
        assert [what for _, what in roles_and_texts(items)] == ["Again.", "Again.", "Hello."]
        assert len({item["id"] for item in items}) == 3


def advising(text: str) -> Any:
    """An engine's answer: the items as they are, with a word to the model."""

    def advise(given: AssembleParams) -> AssembleResult:
        return AssembleResult(items=given.items, system_prompt_addition=text)

    return advise


async def test_guidance_that_changes_is_an_item_until_the_next_epoch_and_then_an_instruction(
    tmp_path,
):
    engine = Probe(assemble=advising("Speak plainly."))
    async with open_stage(tmp_path) as stage, stage.thread(engine=engine) as thread:
        await hear(thread, "Hello.")
        engine.answers["assemble"] = advising("Speak in rhymes.")
        await hear(thread, "And now?")
        first, second = stage.requests
        assert continues(second, first)
        assert "Speak plainly." in standing(first)
        assert "Speak in rhymes." not in standing(second)
        told = [what for who, what in roles_and_texts(request_items(second)) if who == "developer"]
        assert len([what for what in told if "Speak in rhymes." in what]) == 1
        del engine.answers["assemble"]
        engine.answers["assemble"] = lambda given: AssembleResult(
            items=(engine_message("We spoke."), given.items[-1]),
            system_prompt_addition="Speak in rhymes.",
        )
        await hear(thread, "Once more.")
        third = stage.requests[-1]
        assert shows_view(thread, third)
        assert standing(third).count("Speak in rhymes.") == 1
        assert "Speak plainly." not in third.body.decode()
        assert third.body.decode().count("Speak in rhymes.") == 1


async def test_what_the_host_asks_for_stands_in_the_instructions_of_the_codex_thread(tmp_path):
    settings = PromptContext(
        cwd="", sandbox_mode="danger-full-access", developer_instructions="Be brief."
    )
    async with open_stage(tmp_path) as stage:
        async with stage.thread(settings=settings) as thread:
            await talk(thread, "Hello.", "And now?")
            name = thread.id
        async with stage.thread(name, settings=settings) as thread:
            await talk(thread, "Again.")
            assert shows_view(thread, stage.requests[-1])
        for request in stage.requests:
            assert request.body.decode().count("Be brief.") == 1
            assert standing(request) == "Be brief."


async def test_a_changed_tool_list_is_a_new_codex_thread_with_the_same_history(tmp_path):
    async with open_stage(tmp_path, *WORK) as stage:
        async with stage.thread() as thread:
            await hear(thread, "How is the weather?")
            name = thread.id
        async with stage.thread(name, tools=(weigh,)) as thread:
            heard = await hear(thread, "And tomorrow?")
            assert shows_view(thread, stage.requests[-1])
    assert start_reasons(heard) == ["dynamic-tools-mismatch"]
    names = [tool.get("name") for tool in stage.requests[-1].payload["tools"]]
    assert "weigh" in names
    assert "weigh" not in [tool.get("name") for tool in stage.requests[0].payload["tools"]]


MARKED = "<environment_context>\n  <cwd>/mine</cwd>\n</environment_context>"


async def test_a_user_who_types_a_marker_of_codex_keeps_the_message(tmp_path):
    async with open_stage(tmp_path) as stage:
        async with stage.thread() as thread:
            await hear(thread, MARKED)
            again = await hear(thread, "<turn_aborted>\nNot really.\n</turn_aborted>")
            third = await hear(thread, "Really.")
            assert (thread_reasons(again), thread_reasons(third)) == (["per-turn-projection"],) * 2
            name = thread.id
        async with stage.thread(name) as thread:
            await talk(thread, "Did you see it?")
            texts = [
                what for _, what in roles_and_texts(request_items(stage.requests[-1], marks=()))
            ]
            view = [what for _, what in roles_and_texts(view_contents(thread))]
            assert view.count(MARKED) == texts.count(MARKED) == 1
            assert view[:-1] == texts[-len(view) + 1 :]


async def test_what_codex_adds_for_a_skill_that_is_mentioned_is_mirrored_as_context_once(tmp_path):
    async with open_stage(tmp_path, *WORK) as stage:
        add_weather_skill(tmp_path)
        async with stage.thread() as thread:
            await hear(thread, "Use $weather.")
            name = thread.id
            assert shows_view(thread, stage.requests[-1])
            added = [row for row in thread.view.rows if b"Look out of the window." in row.body]
            assert [(row.contextual, row.shape.role) for row in added] == [(True, "user")]
        async with stage.thread(name) as thread:
            await hear(thread, "And tomorrow?")
            assert shows_view(thread, stage.requests[-1])
        for request in stage.requests:
            assert request.body.decode().count("Look out of the window.") == 1


async def test_a_call_that_lost_its_output_is_shown_with_one(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "Hello.")
        await thread.log.append(FunctionCall(call_id="call_9", name="weigh", arguments="{}"))
        await hear(thread, "And now?")
        assert shows_view(thread, stage.requests[-1])
        assert [who for who, _ in roles_and_texts(request_items(stage.requests[-1]))] == [
            "user",
            "assistant",
            "function_call",
            "function_call_output",
            "user",
        ]
