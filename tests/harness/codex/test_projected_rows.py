from __future__ import annotations

from base64 import b64decode
from typing import ClassVar

import msgspec
from msgspec import Raw

from tests.engines.scenes import Probe, engine_message, notices
from tests.harness.codex.scenes import (
    hear,
    last,
    open_stage,
    request_items,
    roles_and_texts,
    talk,
    use_scripted_server,
)
from tests.harness.codex.view_items import (
    PICTURE,
    continues,
    raw,
    shows_view,
    start_reasons,
)
from treadle.context.compose import item_draft
from treadle.context.row import Row
from treadle.core.entries import Flags, Head
from treadle.core.ids import derived_id
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    decode_item,
)
from treadle.engines.values import AssembleParams, AssembleResult
from treadle.harness.codex.native_projection import history_items
from treadle.harness.events import Event, TextDelta
from treadle.hooks import Hooks
from treadle.hooks.payloads import BeforePromptBuild, HookAnswer
from treadle.prompt.fragment import Fragment, FragmentRole
from treadle.prompt.input import Image, LocalImage
from treadle.prompt.registry import default_registry
from treadle.testing.appserver import AppFault, AppScript, received_messages
from treadle.testing.script import Answer, Call, ScriptedError

WORK = (
    Answer(
        reasoning="A look first.",
        calls=(Call(name="exec_command", arguments={"cmd": "echo rain"}, id="call_1"),),
    ),
    Answer(text="It rains."),
)


async def test_messages_of_other_writers_are_shown_in_the_shape_that_codex_takes(tmp_path):
    parts = [{"type": "input_text", "text": "Be kind."}]
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "One.")
        await thread.log.add(
            raw(thread, type="message", role="system", content=parts),
            raw(thread, type="message", role="user", content="Plain."),
            raw(thread, type="message", role="assistant", content="Yes.", id=None),
        )
        await hear(thread, "Two.")
        assert roles_and_texts(request_items(stage.requests[-1])) == [
            ("user", "One."),
            ("assistant", "fine"),
            ("developer", "Be kind."),
            ("user", "Plain."),
            ("assistant", "Yes."),
            ("user", "Two."),
        ]
        name = derived_id("msg", thread.id, thread.view.rows[4].seq or 0)
        assert request_items(stage.requests[-1])[4]["id"] == name


def row(item: Item) -> Row:
    return Row.of_draft(item_draft(item, turn=1))


def test_a_call_without_an_output_gets_one_and_an_output_without_a_call_is_left_out():
    call = FunctionCall(call_id="call_1", name="weigh", arguments="{}")
    orphan = FunctionCallOutput(call_id="call_2", output="3 kg")
    head = Head(model="gpt-5.5", provider="openai", api="responses")
    items = history_items([row(orphan), row(call)], head, "thread_1")
    assert roles_and_texts([msgspec.json.decode(item) for item in items]) == [
        ("function_call", "{}"),
        ("function_call_output", "aborted"),
    ]


class Stumbling(Fragment, frozen=True):
    """A fragment of a host that cannot even be recognised."""

    id: ClassVar[str] = "stumbling"
    role: ClassVar[FragmentRole] = "user"
    cap_tokens: ClassVar[int] = 10
    stumbles: ClassVar[set[str]] = set()

    def body(self) -> str:
        return "stumbling"

    @classmethod
    def matches(cls, text: str) -> bool:
        if text in cls.stumbles:
            raise RuntimeError("out of step")
        return False


async def test_where_the_view_cannot_be_written_the_prompt_goes_alone_and_a_later_turn_repairs(
    tmp_path,
):
    registry = default_registry()
    registry.register(Stumbling)
    async with open_stage(tmp_path) as stage, stage.thread(registry=registry) as thread:
        await hear(thread, "One.")
        said = Message(role="user", content=(InputText("stumble"),))
        await thread.log.add(item_draft(said, turn=1, flags=Flags.CONTEXTUAL))
        Stumbling.stumbles.add("stumble")
        first = await hear(thread, "Two.")
        again = await hear(thread, "Three.")
        Stumbling.stumbles.clear()
        repaired = await hear(thread, "Four.")
        assert shows_view(thread, stage.requests[-1])
    assert [last(events).status for events in (first, again, repaired)] == ["completed"] * 3
    assert [len(notices(events)) for events in (first, again, repaired)] == [1, 1, 0]
    (notice,) = notices(first)
    assert notice.startswith("the view could not be sent to Codex: RuntimeError: out of step;")
    assert (start_reasons(again), start_reasons(repaired)) == (
        ["projection-failed"],
        ["projection-failed"],
    )
    told = [[what for _, what in roles_and_texts(request_items(each))] for each in stage.requests]
    assert told[1:3] == [["One.", "fine", "Two."], ["Three."]]
    assert told[3] == ["One.", "fine", "stumble", "Two.", "fine", "Three.", "fine", "Four."]


MADE_BY_PROVIDER = [
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "print(6 * 7)",
        "container_id": "c",
        "outputs": [{"type": "logs", "logs": "42"}],
        "status": "completed",
    },
    {"type": "mcp_call", "id": "mcp_1", "name": "lookup", "server_label": "s", "output": "quokka"},
    {"type": "file_search_call", "id": "fs_1", "queries": ["duck"], "results": [{"text": "pond"}]},
    {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "content": [{"type": "refusal", "refusal": "I would rather not."}],
    },
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_file", "filename": "a.pdf", "file_data": "data:,x"}],
    },
    {"type": "message", "role": "user", "content": [{"type": "input_text"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "dream", "of": "sheep"}]},
]


async def test_what_codex_would_drop_or_refuse_is_told_as_text(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "One.")
        for made in MADE_BY_PROVIDER:
            item = decode_item(msgspec.json.encode(made))
            await thread.log.add(item_draft(item, turn=thread.log.turn, origin=thread.log.origin))
        heard = await hear(thread, "Two.")
    assert notices(heard) == []
    texts = [what for _, what in roles_and_texts(request_items(stage.requests[-1]))]
    interpreter, mcp, search, refusal, file, broken, dream = texts[2:-1]
    assert interpreter.startswith("<provider_item>\n")
    assert "'code_interpreter_call'" in interpreter
    assert "print(6 * 7)" in interpreter
    assert '"logs":"42"' in interpreter
    assert "ci_1" not in interpreter
    assert "quokka" in mcp
    assert "pond" in search
    assert (refusal, file) == ("I would rather not.", "[input_file a.pdf content omitted]")
    assert broken == "[input_text content omitted]"
    assert "'reasoning'" in dream
    assert "sheep" in dream


async def test_what_was_injected_is_not_taken_for_news(tmp_path):
    engine = Probe()
    async with open_stage(tmp_path, *WORK) as stage, stage.thread(engine=engine) as thread:
        await hear(thread, "How is the weather?")
        mirror = stage.harness.threads.live[thread.id].mirror
        rows = list(thread.view.rows)
        for row in rows:
            if row.shape.id:
                await mirror.write(Raw(row.body))
        assert list(thread.view.rows) == rows
    async with open_stage(tmp_path) as stage, stage.thread(thread.id) as thread:
        await hear(thread, "And tomorrow?")
        mirror = stage.harness.threads.live[thread.id].mirror
        before = list(thread.view.rows)
        for item in request_items(stage.requests[-1])[:-1]:
            await mirror.write(Raw(msgspec.json.encode(item)))
        assert list(thread.view.rows) == before


async def test_a_hook_s_words_stand_behind_the_input_and_the_input_is_said_once(tmp_path):
    hooks = Hooks()

    async def add(_: BeforePromptBuild) -> HookAnswer:
        return HookAnswer(context="Mind the gap.")

    hooks.on(BeforePromptBuild, add)
    async with open_stage(tmp_path) as stage, stage.thread(hooks=hooks) as thread:
        await talk(thread, "One.", "Two.")
        assert shows_view(thread, stage.requests[-1])
        assert continues(*reversed(stage.requests))
        texts = [what for _, what in roles_and_texts(request_items(stage.requests[-1]))]
        assert [texts[0], "Mind the gap." in texts[1], texts[2:4]] == [
            "One.",
            True,
            ["fine", "Two."],
        ]


async def test_images_are_shown_as_they_were_given(tmp_path):
    file = tmp_path / "pixel.png"
    file.write_bytes(b64decode(PICTURE.partition(",")[2]))
    async with open_stage(tmp_path) as stage:
        async with stage.thread() as thread:
            await hear(thread, "What is it?", LocalImage(file))
            assert shows_view(thread, stage.requests[-1])
            name = thread.id
        async with stage.thread(name) as thread:
            await hear(thread, "And this?", Image(PICTURE))
            assert shows_view(thread, stage.requests[-1])


async def test_an_input_that_codex_refused_is_shown_with_the_next(tmp_path):
    refuses = AppFault(method="turn/start", kind="refuse", nth=1)
    async with open_stage(tmp_path) as stage:
        place = await use_scripted_server(stage, AppScript(faults=(refuses,)))
        async with stage.thread() as thread:
            first = await hear(thread, "One.")
            second = await hear(thread, "Two.")
    assert [last(events).status for events in (first, second)] == ["failed", "completed"]
    assert start_reasons(second) == ["turn-not-started"]
    (injected,) = received_messages(place, "thread/inject_items")
    (said, note) = roles_and_texts(injected["params"]["items"])
    assert (said, note[1].startswith("<unanswered_input>")) == (("user", "One."), True)
    typed = [turn["params"]["input"][0]["text"] for turn in received_messages(place, "turn/start")]
    assert typed == ["One.", "Two."]


async def test_an_input_in_the_words_of_an_engine_is_shown_in_no_others(tmp_path):
    def reworded(given: AssembleParams) -> AssembleResult:
        past, said = given.items[: given.pre_prompt_count], engine_message(f"Said: {given.prompt}")
        return AssembleResult(items=(*past, said), covers_current_turn=True)

    engine = Probe(assemble=reworded)
    async with open_stage(tmp_path) as stage, stage.thread(engine=engine) as thread:
        for words in ("One.", "Two."):
            await hear(thread, words)
            assert shows_view(thread, stage.requests[-1])
        texts = [what for _, what in roles_and_texts(request_items(stage.requests[-1]))]
        assert texts == ["Said: One.", "fine", "Said: Two."]


async def test_a_turn_that_failed_or_was_broken_off_stays_in_what_is_shown(tmp_path):
    broken = Answer(error=ScriptedError(status=400, message="no"))
    slow = Answer(text="one two three", pace=0.05)
    async with open_stage(tmp_path, broken, slow) as stage:
        async with stage.thread() as thread:

            def stop(event: Event) -> None:
                if isinstance(event, TextDelta):
                    thread.interrupt()

            failed = await hear(thread, "One.")
            stopped = await hear(thread, "Two.", at=stop)
            await hear(thread, "Three.")
            name = thread.id
        async with stage.thread(name) as thread:
            await hear(thread, "Four.")
    assert [last(events).status for events in (failed, stopped)] == ["failed", "interrupted"]
    for request in stage.requests[-2:]:
        texts = [what.partition("\n")[0] for _, what in roles_and_texts(request_items(request))]
        assert texts[:5] == [
            "One.",
            "<unanswered_input>",
            "Two.",
            "<turn_aborted>",
            "Three.",
        ]
