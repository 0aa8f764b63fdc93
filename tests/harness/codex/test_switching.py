from __future__ import annotations

from typing import Any

from tests.harness.codex.scenes import (
    MODEL,
    Items,
    hear,
    last,
    open_stage,
    request_items,
    roles_and_texts,
)
from tests.harness.codex.view_items import shows_view, start_reasons, view_contents, without_ids
from treadle import Thread
from treadle.harness.codex.native_projection import history_items, rows_to_send
from treadle.models.providers import ProviderConfig
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool


@tool
async def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what} weighs 3 kg"


def work(number: int) -> tuple[Answer, Answer]:
    """A turn with a thought, a call and an answer."""
    call = Call(name="weigh", arguments={"what": f"stone {number}"}, id=f"call_{number}")
    return Answer(reasoning=f"Thought {number}.", calls=(call,)), Answer(text=f"Answer {number}.")


def past(*numbers: int) -> list[tuple[str, str]]:
    """What such turns leave."""
    return [
        line
        for number in numbers
        for line in (
            ("user", f"Question {number}?"),
            ("reasoning", ""),
            ("function_call", f'{{"what":"stone {number}"}}'),
            ("function_call_output", f"stone {number} weighs 3 kg"),
            ("assistant", f"Answer {number}."),
        )
    ]


MARKS = ("<environment_context>", "<permissions", "<skills_instructions>", "# AGENTS.md")


def spoken(request: Any) -> list[tuple[str, str]]:
    """Who said what in a request of either harness, the surroundings left out."""
    items: Items = request.payload["input"]
    if items[0].get("role") == "developer" and "You are Codex" in str(items[0])[:300]:
        items = items[1:]
    lines = [
        line for item in items for line in roles_and_texts([item]) if not line[1].startswith(MARKS)
    ]
    return [line for line in lines if line[0] != "developer"]


def surroundings(request: Any) -> int:
    """How often a request tells its surroundings."""
    texts = [what for _, what in roles_and_texts(request.payload["input"])]
    return sum(text.count("<environment_context>") for text in texts)


async def turn(thread: Thread, number: int, harness: str) -> list[Any]:
    thread.use(harness=harness)
    heard = await hear(thread, f"Question {number}?")
    assert last(heard).text == f"Answer {number}."
    return heard


CODEX, TREADLE = "auto", "treadle"


def script(turns: int) -> tuple[Answer, ...]:
    return tuple(answer for number in range(1, turns + 1) for answer in work(number))


async def test_a_conversation_goes_from_one_harness_to_the_other_and_back(tmp_path):
    async with open_stage(tmp_path, *script(4)) as stage, stage.thread(tools=(weigh,)) as thread:
        for number, harness in enumerate((TREADLE, CODEX, TREADLE, CODEX), 1):
            await turn(thread, number, harness)
            asked, answered = stage.requests[-2:]
            assert spoken(asked) == [*past(*range(1, number)), ("user", f"Question {number}?")]
            assert spoken(answered) == past(*range(1, number + 1))[:-1]
            assert (surroundings(asked), surroundings(answered)) == (1, 1)
            if harness == CODEX:
                assert shows_view(thread, answered)
        assert spoken(stage.requests[-1]) == past(1, 2, 3, 4)[:-1]


async def test_a_conversation_that_began_on_codex_is_told_its_surroundings_on_treadle(tmp_path):
    async with open_stage(tmp_path, *script(3)) as stage, stage.thread(tools=(weigh,)) as thread:
        for number, harness in enumerate((CODEX, TREADLE, CODEX), 1):
            await turn(thread, number, harness)
            assert spoken(stage.requests[-1]) == past(*range(1, number + 1))[:-1]
            assert surroundings(stage.requests[-1]) == 1
        assert shows_view(thread, stage.requests[-1])


async def test_thoughts_go_back_with_their_names_to_whom_they_came_from(tmp_path):
    async with open_stage(tmp_path, *script(3)) as stage, stage.thread(tools=(weigh,)) as thread:
        for number, harness in enumerate((TREADLE, CODEX, TREADLE), 1):
            await turn(thread, number, harness)
        view = {row.shape.id: row for row in thread.view.rows if row.shape.type == "reasoning"}
        sent = [i for i in stage.requests[-1].payload["input"] if i["type"] == "reasoning"]
        assert [item["id"] for item in sent] == list(view)
        assert all(item["encrypted_content"].startswith("sealed:") for item in sent)
        on_codex = [i for i in request_items(stage.requests[3]) if i["type"] == "reasoning"]
        assert [(i["id"], i["encrypted_content"]) for i in on_codex] == [
            (i["id"], i["encrypted_content"]) for i in sent[:2]
        ]


async def test_thoughts_of_another_provider_stay_with_it(tmp_path):
    async with open_stage(tmp_path, *script(3)) as stage:
        other = ProviderConfig(
            api="responses", base_url=stage.server.base_url, key="sk-other", retries=0
        )
        providers = {**stage.providers, "other": other}
        async with stage.thread(
            tools=(weigh,), model="other:gpt-5.5", providers=providers
        ) as thread:
            await turn(thread, 1, TREADLE)
            thread.use(MODEL)
            await turn(thread, 2, CODEX)
            thread.use("other:gpt-5.5")
            await turn(thread, 3, TREADLE)
            silent = [line for line in past(1) if line[0] != "reasoning"]
            assert spoken(stage.requests[3]) == [*silent, *past(2)[:-1]]
            spared = [line for line in past(2) if line[0] != "reasoning"]
            assert spoken(stage.requests[-1]) == [*past(1), *spared, *past(3)[:-1]]


async def test_the_view_is_the_same_items_each_time_it_is_projected(tmp_path):
    async with open_stage(tmp_path, *script(3)) as stage, stage.thread(tools=(weigh,)) as thread:
        for number, harness in enumerate((CODEX, TREADLE, CODEX), 1):
            await turn(thread, number, harness)
        head = thread.view.head
        assert head is not None
        rows = rows_to_send(thread.view.rows, thread.registry, fresh=True)
        once, twice = (history_items(rows, head, thread.id) for _ in range(2))
        assert list(map(bytes, once)) == list(map(bytes, twice))
        assert thread.request().body == thread.request().body


async def test_built_in_hands_of_both_harnesses_leave_one_conversation(tmp_path):
    def look(number: int) -> tuple[Answer, Answer]:
        given = {"cmd": f"echo stone {number}", "login": False}
        call = Call(name="exec_command", arguments=given, id=f"call_{number}")
        return Answer(calls=(call,)), Answer(text=f"Answer {number}.")

    answers = [answer for number in (1, 2, 3) for answer in look(number)]
    async with open_stage(tmp_path, *answers) as stage, stage.thread() as thread:
        for number, harness in enumerate((TREADLE, CODEX, TREADLE), 1):
            await turn(thread, number, harness)
        newest = stage.requests[-1].payload["input"]
        outputs = [item["output"] for item in newest if item["type"] == "function_call_output"]
        assert [f"stone {at}\n" in output for at, output in enumerate(outputs, 1)] == [True] * 3
        assert [who for who, _ in spoken(stage.requests[-1])] == [
            *("user", "function_call", "function_call_output", "assistant") * 2,
            *("user", "function_call", "function_call_output"),
        ]


async def test_models_of_both_wire_families_read_the_same_conversation(tmp_path):
    script = "const r = await tools.weigh({what: 'stone 1'}); text(JSON.stringify(r))"
    answers = (
        Answer(reasoning="Thought 1.", calls=(Call(name="exec", input=script),)),
        Answer(text="Answer 1."),
    )
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(tools=(weigh,), model="openai:gpt-6.1-sol") as thread,
    ):
        await hear(thread, "Question 1?")
        view = without_ids(view_contents(thread))
        assert [item["type"] for item in view] == [
            *("message", "reasoning", "custom_tool_call", "custom_tool_call_output", "message")
        ]
        assert "stone 1 weighs 3 kg" in str(view[3]["output"])
        for model in ("openai:gpt-5.5", "openai:gpt-6.1-sol"):
            view = without_ids(view_contents(thread))
            thread.use(model)
            heard = await hear(thread, "And?")
            assert start_reasons(heard) == ["model-mismatch"]
            newest = without_ids(stage.requests[-1].payload["input"])
            assert newest[-len(view) - 1 : -1] == view
            assert str(newest).count("Question 1?") == 1
