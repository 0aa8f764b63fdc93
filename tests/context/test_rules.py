from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec import Raw

from treadle.context.row import Row
from treadle.context.rules import (
    ABORTED,
    aborted_answer,
    closed_length,
    legal_cuts,
    nearest_legal_cut,
    normalise,
    without_media,
)
from treadle.core.entries import Draft
from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    ExecAction,
    FunctionCall,
    FunctionCallOutput,
    ImageGenerationCall,
    InputAudio,
    InputImage,
    InputText,
    Item,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    ToolSearchCall,
    ToolSearchOutput,
    encode_item,
)


def row(item: Item, seq: int | None = None, *, turn: int = 0, step: int = 0) -> Row:
    given = getattr(item, "id", None)
    return Row.of_draft(Draft(body=encode_item(item), id=given, turn=turn, step=step), seq)


def rows(*items: Item) -> list[Row]:
    return [row(item, seq) for seq, item in enumerate(items, start=1)]


def items(found: list[Row]) -> list[Item]:
    return [kept.item for kept in found]


def function(call_id: str = "a", item_id: str | None = None) -> FunctionCall:
    return FunctionCall(id=item_id, name="f", arguments="{}", call_id=call_id)


def result(call_id: str | None = "a", text: str = "ok") -> FunctionCallOutput:
    return FunctionCallOutput(call_id=call_id, output=text)


def shell(call_id: str | None = "a", item_id: str | None = None) -> LocalShellCall:
    action = ExecAction(command=("ls",))
    return LocalShellCall(id=item_id, call_id=call_id, status="completed", action=action)


def search(call_id: str | None = "a", execution: str = "client") -> ToolSearchCall:
    return ToolSearchCall(call_id=call_id, execution=execution, arguments=Raw(b"{}"))


def found(call_id: str | None = "a", execution: str = "client") -> ToolSearchOutput:
    return ToolSearchOutput(call_id=call_id, status="completed", execution=execution, tools=())


def custom(call_id: str = "a") -> CustomToolCall:
    return CustomToolCall(call_id=call_id, name="apply_patch", input="x")


def custom_result(call_id: str = "a", text: str = "ok") -> CustomToolCallOutput:
    return CustomToolCallOutput(call_id=call_id, output=text)


def said(text: str = "hi") -> Message:
    return Message(role="user", content=(InputText(text=text),))


@dataclass
class Case:
    name: str
    given: tuple[Item, ...]
    kept: tuple[Item, ...]

    def __str__(self) -> str:
        return self.name


PAIRING = [
    Case("answered_call", (function(), result()), (function(), result())),
    Case("answered_later", (function(), said(), result()), (function(), said(), result())),
    Case("function", (function(), said()), (function(), result(text=ABORTED), said())),
    Case("shell", (shell(), said()), (shell(), result(text=ABORTED), said())),
    Case("custom", (custom(), said()), (custom(), custom_result(text=ABORTED), said())),
    Case("search", (search(), said()), (search(), found(), said())),
    Case(
        "two_calls",
        (function("a"), function("b"), result("b")),
        (function("a"), result("a", ABORTED), function("b"), result("b")),
    ),
    Case("orphan_function", (result(), said()), (said(),)),
    Case("orphan_custom", (custom_result(), said()), (said(),)),
    Case("orphan_search", (found(), said()), (said(),)),
    Case("output_before_its_call", (result(), function()), (function(), result(text=ABORTED))),
    Case(
        "output_of_another_family",
        (custom(), result()),
        (custom(), custom_result(text=ABORTED)),
    ),
    Case("shell_answered_as_function", (shell(), result()), (shell(), result())),
    Case(
        "shell_answered_by_item_id",
        (shell(None, "lsh_1"), result("lsh_1")),
        (shell(None, "lsh_1"), result("lsh_1")),
    ),
    Case("duplicate_output", (function(), result(), result()), (function(), result())),
    Case("duplicate_call", (function(), function(), result()), (function(), result())),
    Case(
        "call_id_used_again",
        (function(), result(text="1"), function(), result(text="2")),
        (function(), result(text="1"), function(), result(text="2")),
    ),
    Case("named_output_without_call", (result(None),), (result(None),)),
    Case("call_without_any_id", (shell(None), said()), (said(),)),
    Case("search_on_the_server", (search(None, "server"),), (search(None, "server"),)),
    Case("found_by_the_server", (found(None, "server"),), (found(None, "server"),)),
    Case("found_by_the_server_with_id", (found("x", "server"),), (found("x", "server"),)),
    Case(
        "one_id_in_two_families",
        (function(), custom()),
        (function(), result(text=ABORTED), custom(), custom_result(text=ABORTED)),
    ),
]


@pytest.mark.parametrize("case", PAIRING, ids=str)
def test_every_call_gets_exactly_one_output(case):
    assert items(normalise(rows(*case.given))) == list(case.kept)


@pytest.mark.parametrize("case", PAIRING, ids=str)
def test_normalising_twice_changes_nothing(case):
    once = normalise(rows(*case.given))
    assert normalise(once) == once


def test_what_stands_in_for_an_output_has_the_same_id_every_time():
    call = row(function(item_id="fc_1"), 7, turn=3, step=2)
    stand_in = aborted_answer(call)
    assert stand_in == aborted_answer(call)
    assert stand_in.id == "fco_d08ee114-ed5d-5706-8dbd-16ccacd40aa4"
    assert (stand_in.seq, stand_in.turn, stand_in.step) == (None, 3, 2)
    assert b"fco_" not in stand_in.body


def test_a_call_without_an_id_is_answered_without_one():
    assert aborted_answer(row(function())).id is None


@pytest.mark.parametrize(
    ("call", "prefix"),
    [(function(item_id="fc_1"), "fco"), (shell(item_id="lsh_1"), "fco")],
)
def test_the_id_of_a_stand_in_names_its_family(call, prefix):
    stand_in = aborted_answer(row(call))
    assert stand_in.id is not None
    assert stand_in.id.startswith(f"{prefix}_")


def test_the_closed_part_of_a_list_ends_before_the_first_open_call():
    assert closed_length(rows(said(), function("a"), result("a"), function("b"))) == 3
    assert closed_length(rows(function("a"), function("b"), result("b"), said())) == 0
    assert closed_length(rows(said(), result("x"))) == 2
    assert closed_length([]) == 0


def test_a_list_may_be_cut_everywhere_but_between_call_and_output():
    listed = rows(said(), function("a"), function("b"), result("a"), said(), result("b"), said())
    assert legal_cuts(listed) == [0, 1, 6, 7]


def test_a_call_whose_output_is_yet_to_come_cannot_be_cut_off():
    assert legal_cuts(rows(said(), function("a"), said())) == [0, 1]


def test_reasoning_stays_with_what_it_led_to():
    assert legal_cuts(rows(said(), Reasoning(), said(), said())) == [0, 1, 3, 4]


def test_a_step_and_a_turns_opening_stay_whole():
    listed = [
        row(said("context"), 1, turn=1),
        row(said(), 2, turn=1),
        row(said("answer"), 3, turn=1, step=1),
        row(said("answer"), 4, turn=1, step=1),
        row(said(), 5, turn=2),
        row(said("imported"), 6),
        row(said("imported"), 7),
    ]
    assert legal_cuts(listed) == [0, 2, 4, 5, 6, 7]


def test_the_nearest_legal_cut_lies_at_or_before_the_wish():
    listed = rows(said(), function("a"), result("a"), said())
    assert [nearest_legal_cut(listed, wish) for wish in range(-1, 6)] == [0, 0, 1, 1, 3, 4, 4]


IMAGE = InputImage(image_url="data:image/png;base64,AA==")
SOUND = InputAudio(audio_url="data:audio/wav;base64,AA==")
NO_IMAGE = InputText(text="image content omitted because you do not support image input")
NO_SOUND = InputText(text="audio content omitted because you do not support audio input")
TEXT = InputText(text="look")


def test_media_that_a_model_cannot_take_become_a_sentence():
    message = Message(role="user", content=(TEXT, IMAGE, SOUND))
    stripped = without_media(message, images=False, audio=False)
    assert stripped == Message(role="user", content=(TEXT, NO_IMAGE, NO_SOUND))
    assert without_media(message, images=True, audio=False) == Message(
        role="user", content=(TEXT, IMAGE, NO_SOUND)
    )
    assert without_media(message, images=True, audio=True) == message


@pytest.mark.parametrize("kind", [FunctionCallOutput, CustomToolCallOutput])
def test_media_in_outputs_become_a_sentence_too(kind):
    given = kind(call_id="a", output=(IMAGE, TEXT, SOUND))
    stripped = without_media(given, images=False, audio=False)
    assert stripped == kind(call_id="a", output=(NO_IMAGE, TEXT, NO_SOUND))


def test_a_made_image_is_emptied_for_a_model_that_cannot_see():
    made = ImageGenerationCall(id="ig_1", status="completed", result="AAAA")
    emptied = ImageGenerationCall(id="ig_1", status="completed", result="")
    assert without_media(made, images=False, audio=True) == emptied
    assert without_media(made, images=True, audio=True) == made


@pytest.mark.parametrize(
    "item",
    [
        FunctionCallOutput(call_id="a", output="input_image"),
        Message(role="assistant", content=(OutputText(text="hi"),)),
        function(),
        Reasoning(encrypted_content="x"),
    ],
)
def test_what_holds_no_media_stays_as_it_is(item):
    assert without_media(item, images=False, audio=False) == item
