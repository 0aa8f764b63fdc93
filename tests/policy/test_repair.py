from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from tests.strategies import rows as any_rows
from treadle.context.mending import Repair, repair_row
from treadle.context.row import Row
from treadle.context.rules import normalise
from treadle.core.entries import Draft, Flags, FragmentMark, Origin
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    OutputText,
    Part,
    Reasoning,
    encode_item,
)
from treadle.core.provenance import InputProvenance
from treadle.policy.repair import note_for, repairs_for, unanswered_message
from treadle.prompt.announcements import TurnAborted, Unanswered

POLICIES: list[tuple[Repair, ...]] = [
    (),
    repairs_for("mistral", "chat"),
    repairs_for("groq", "chat"),
    repairs_for("vllm", "chat"),
    repairs_for("anthropic", "messages"),
]
PNG = "data:image/png;base64," + "A" * 4096
SAID = (InputText("Fix the tests."),)


def row(item: Item, *, seq: int = 1, turn: int = 1, **facts: object) -> Row:
    draft = Draft(body=encode_item(item), turn=turn, id=f"itm_{seq}")
    return msgspec.structs.replace(Row.of_draft(draft, seq), **facts)


def user(*parts: Part, **facts: object) -> Row:
    return row(Message(role="user", content=parts), **facts)  # type: ignore[arg-type]


def repair_rows(rows: Sequence[Row], repairs: Sequence[Repair]) -> list[Row]:
    """The rows as a request shows them."""
    shown = (repair_row(each, repairs) for each in rows)
    return normalise([each for each in shown if each is not None])


ANSWER = row(Message(role="assistant", content=(OutputText("Done."),)), seq=2)
CALL = row(FunctionCall(name="look", arguments='{"path":"a"}', call_id="call_12345"), seq=3)
OUTPUT = row(FunctionCallOutput(call_id="call_12345", output="fine"), seq=4)
TOLD = row(Message(role="user", content=(InputText("<note>"),)), flags=Flags.CONTEXTUAL)


@pytest.mark.parametrize(
    ("prompt", "is_said"),
    [
        ("Now the docs.", True),
        ("Fix the tests.", False),
        ("Please:\nFix the tests.\nThanks.", False),
        ("Do not Fix the tests. yet", True),
    ],
)
def test_a_message_that_the_prompt_repeats_in_a_line_needs_no_note(prompt, is_said):
    assert (note_for([user(*SAID)], prompt) is not None) is is_said


@pytest.mark.parametrize("parts", [(), (InputText("  \n"),)])
def test_a_message_that_says_nothing_needs_no_note(parts):
    assert note_for([user(*parts)], "Hello.") is None


def test_a_picture_says_something_that_no_prompt_repeats():
    assert note_for([user(InputImage(PNG))], "Hello.") == Unanswered()
    assert note_for([user(*SAID, InputImage(PNG))], "Fix the tests.") == Unanswered()


@pytest.mark.parametrize("kind", ["inter_session", "internal_system"])
def test_what_no_person_said_gives_way_to_a_prompt(kind):
    said = user(*SAID, provenance=InputProvenance(kind=kind, source_tool="subagent_announce"))
    assert note_for([said], "Hello.") is None
    assert note_for([said], "") == Unanswered()


def test_the_last_message_without_an_answer_is_found():
    last = user(*SAID, seq=9, turn=2)
    assert unanswered_message([user(InputText("Hi")), ANSWER, last]) is last
    assert unanswered_message([user(InputText("Hi")), ANSWER, last, TOLD]) is last


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [TOLD],
        [user(*SAID), ANSWER],
        [user(*SAID), CALL, OUTPUT],
        [user(*SAID), row(Reasoning())],
    ],
)
def test_what_was_answered_or_never_asked_is_not_unanswered(rows):
    assert unanswered_message(rows) is None
    assert note_for(rows, "Go on.") is None


@pytest.mark.parametrize("name", [TurnAborted.id, Unanswered.id])
def test_what_the_model_was_told_about_is_not_told_again(name):
    said = msgspec.structs.replace(TOLD, fragments=(FragmentMark(id=name, part=0),))
    assert note_for([user(*SAID), said], "Go on.") is None


def test_a_note_says_how_an_unanswered_message_is_to_be_taken():
    note = note_for([user(*SAID)], "Now the docs.")
    assert note == Unanswered()
    assert note.render() == snapshot(
        "<unanswered_input>\n"
        "The last user message above came in a turn that ended without an answer. "
        "It is kept as context only; go on with the message below.\n"
        "</unanswered_input>"
    )


def test_there_is_no_note_where_the_prompt_repeats_the_message_or_nobody_said_it():
    assert note_for([user(*SAID)], "Fix the tests.") is None
    internal = InputProvenance(kind="internal_system")
    assert note_for([user(*SAID, provenance=internal)], "Go on.") is None
    mark = FragmentMark(id="hook_context", part=0)
    assert note_for([user(*SAID, fragments=(mark,))], "Go on.") is None


@pytest.mark.parametrize(
    ("provider", "api", "expected"),
    [
        ("openai", "responses", ()),
        ("codex", "responses", ()),
        ("anthropic", "messages", ("plain_call_ids",)),
        ("vllm", "chat", ("object_arguments",)),
        (
            "mistral",
            "chat",
            ("nine_call_ids", "no_reasoning", "object_arguments"),
        ),
        ("groq", "chat", ("no_reasoning", "object_arguments")),
    ],
)
def test_each_provider_has_its_repairs(provider, api, expected):
    assert repairs_for(provider, api) == expected


def test_call_ids_are_made_to_fit_a_call_and_its_output_alike():
    shown = repair_rows([CALL, OUTPUT], repairs_for("mistral", "chat"))
    ids = {each.shape.call_id for each in shown}
    assert len(ids) == 1
    assert re.fullmatch("[A-Za-z0-9]{9}", ids.pop() or "")
    assert CALL.shape.call_id == "call_12345"


def test_ids_that_fit_are_kept():
    assert repair_row(CALL, repairs_for("anthropic", "messages")) is CALL
    odd = row(FunctionCall(name="look", arguments="{}", call_id="a.b:c"))
    fitting = repair_row(odd, repairs_for("anthropic", "messages"))
    assert fitting is not None
    assert re.fullmatch("call_[0-9a-f]{24}", fitting.shape.call_id or "")


@pytest.mark.parametrize("arguments", ['{"path":', "[1]", "plain words"])
def test_arguments_that_are_no_object_become_one(arguments):
    broken = row(FunctionCall(name="look", arguments=arguments, call_id="c"))
    shown = repair_row(broken, repairs_for("vllm", "chat"))
    assert shown is not None
    assert isinstance(shown.item, FunctionCall)
    assert msgspec.json.decode(shown.item.arguments) == {"arguments": arguments}
    assert repair_row(broken, ()) is broken


def test_reasoning_is_not_shown_to_servers_that_refuse_it():
    thought = row(Reasoning(encrypted_content="x"), origin=Origin("groq", "chat"))
    assert repair_row(thought, repairs_for("groq", "chat")) is None
    assert repair_row(thought, repairs_for("openai", "responses")) is thought


def test_a_repair_that_is_not_known_changes_nothing():
    assert repair_row(CALL, ("sing",)) is CALL


@given(any_rows)
def test_at_openai_nothing_but_pairing_is_repaired(rows):
    assert repair_rows(rows, repairs_for("openai", "responses")) == normalise(rows)


@given(any_rows, st.sampled_from(POLICIES))
def test_repairing_again_changes_nothing(rows, repairs):
    once = repair_rows(rows, repairs)
    assert repair_rows(once, repairs) == once


@given(any_rows, st.sampled_from(POLICIES))
def test_what_is_stored_is_never_touched(rows, repairs):
    before = [msgspec.json.encode(each.body.decode()) for each in rows]
    repair_rows(rows, repairs)
    assert [msgspec.json.encode(each.body.decode()) for each in rows] == before


@given(any_rows, st.sampled_from(POLICIES), st.integers(0, 12))
def test_a_row_is_repaired_by_itself(rows, repairs, cut):
    whole = [repair_row(each, repairs) for each in rows]
    assert [repair_row(each, repairs) for each in rows[:cut]] == whole[:cut]


@given(any_rows, st.sampled_from(POLICIES))
def test_calls_and_outputs_find_each_other_as_before(rows, repairs):
    kept = [each for each in rows if each.shape.type != "reasoning"]
    assert [each.seq for each in repair_rows(kept, repairs)] == [
        each.seq for each in normalise(kept)
    ]
