from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec import Raw

from tests.strategies import rows as any_rows
from treadle.context.mending import Repair, repair_row
from treadle.context.row import Row
from treadle.context.rules import normalise
from treadle.core.entries import Draft, Flags, FragmentMark, Origin
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputAudio,
    InputImage,
    InputText,
    Item,
    Message,
    OutputText,
    Part,
    Reasoning,
    Unknown,
    encode_item,
)
from treadle.core.provenance import InputProvenance
from treadle.core.wire import json_bytes
from treadle.harness.codex.text_projection import project_text
from treadle.policy.describing import describe_parts
from treadle.policy.repair import (
    MARKER,
    Merged,
    merge_unanswered,
    note_for,
    repair_rows,
    repairs_for,
    unanswered_message,
)
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


ANSWER = row(Message(role="assistant", content=(OutputText("Done."),)), seq=2)
CALL = row(FunctionCall(name="look", arguments='{"path":"a"}', call_id="call_12345"), seq=3)
OUTPUT = row(FunctionCallOutput(call_id="call_12345", output="fine"), seq=4)
TOLD = row(Message(role="user", content=(InputText("<note>"),)), flags=Flags.CONTEXTUAL)


def test_an_unanswered_message_is_told_before_the_next_prompt():
    assert merge_unanswered(SAID, "Now the docs.") == Merged(
        prompt=f"{MARKER}\nFix the tests.\n\nNow the docs.", merged=True
    )


def test_the_marker_is_fixed():
    assert (
        snapshot(
            "[An earlier user message that was never answered; it is kept as context only. "
            "Go on with the active request below.]"
        )
        == MARKER
    )


@pytest.mark.parametrize(
    "prompt",
    ["Fix the tests.", "Please:\nFix the tests.\nThanks.", f"{MARKER}\nFix the tests.\n\nDocs."],
)
def test_what_the_prompt_says_itself_is_not_told_twice(prompt):
    assert merge_unanswered(SAID, prompt) == Merged(prompt=prompt)


def test_half_a_line_is_no_repetition():
    assert merge_unanswered(SAID, "Do not Fix the tests. yet").merged


def test_media_are_named_by_their_addresses():
    parts = (
        InputText("Look:"),
        InputImage("https://x.example/a.png"),
        InputAudio("https://x.example/b.wav"),
    )
    assert merge_unanswered(parts, "And now?").prompt == (
        f"{MARKER}\nLook:\n[image_url] https://x.example/a.png\n"
        "[input_audio] https://x.example/b.wav\n\nAnd now?"
    )


def test_a_data_uri_is_described_and_not_told():
    prompt = merge_unanswered((InputImage(PNG),), "And now?").prompt
    assert prompt == f"{MARKER}\n[image_url] inline data URI (image/png, 4118 chars)\n\nAnd now?"
    assert "data:" not in prompt


def test_a_data_uri_inside_a_text_is_described_too():
    assert describe_parts((InputText(f"![x]({PNG}) here"),)) == (
        "![x](inline data URI (image/png, 4118 chars)) here"
    )


def test_long_addresses_and_foreign_parts_are_cut():
    url = "https://x.example/" + "a" * 400
    assert describe_parts((InputImage(url),)) == f"[image_url] {url[:300]}... (418 chars)"
    deep: object = "end"
    for _ in range(9):
        deep = {"in": deep}
    foreign = {"type": "input_file", "deep": deep, "many": list(range(99)), "uri": PNG}
    assert describe_parts((Unknown(Raw(json_bytes(foreign))),)) == snapshot(
        '[input_file] {"deep":{"in":{"in":{"in":"..."}}},'
        '"many":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15],"type":"input_file",'
        '"uri":"inline data URI (image/png, 4118 chars)"}'
    )


def test_a_part_that_nests_without_end_is_named():
    payload = b'{"type":"odd","in":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert describe_parts((Unknown(Raw(payload)),)) == '[unknown] "..."'


@pytest.mark.parametrize("parts", [(), (InputText("  \n"),)])
def test_a_message_that_says_nothing_is_not_worth_a_place(parts):
    assert merge_unanswered(parts, "Hello.") == Merged(prompt="Hello.", shown=False)


@pytest.mark.parametrize("kind", ["inter_session", "internal_system"])
def test_what_no_person_said_gives_way_to_a_prompt(kind):
    provenance = InputProvenance(kind=kind, source_tool="subagent_announce")
    assert merge_unanswered(SAID, "Hello.", provenance=provenance) == Merged(
        prompt="Hello.", shown=False
    )
    assert merge_unanswered(SAID, "", provenance=provenance).merged


@given(st.text(max_size=60), st.text(max_size=60))
def test_merging_again_changes_nothing_and_the_prompt_stays_whole(earlier, prompt):
    once = merge_unanswered((InputText(earlier),), prompt)
    assert once.prompt.endswith(prompt)
    if once.merged:
        assert merge_unanswered((InputText(earlier),), once.prompt) == Merged(prompt=once.prompt)


@given(st.lists(st.sampled_from([InputImage(PNG), InputAudio(PNG), InputText(f"a {PNG} b")])))
def test_no_description_holds_the_bytes_of_a_medium(parts):
    assert "base64" not in describe_parts(tuple(parts))


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


def test_codex_is_told_what_came_before_without_the_prompt_and_without_media():
    prompt = user(InputText("And now?"), seq=9)
    rows = [user(InputText("older structured context"), InputImage(PNG)), ANSWER, prompt]
    told = project_text(repair_rows(rows, ()), "And now?", request_id=prompt.id).prompt
    assert "[user]\nolder structured context\n[image omitted]\n\n[assistant]\nDone." in told
    assert told.count("And now?") == 1
    assert "base64" not in told


def test_codex_is_told_of_a_message_that_was_only_media():
    rows = repair_rows([user(InputImage(PNG)), ANSWER], ())
    assert "[user]\n[image omitted]\n" in project_text(rows, "And now?").prompt
