from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from treadle.context.outbound import outbound
from treadle.context.row import Row
from treadle.core.entries import Draft, Head, Origin
from treadle.core.items import (
    AgentMessage,
    Compaction,
    ContextCompaction,
    CustomToolCall,
    CustomToolCallOutput,
    EncryptedContent,
    ExecAction,
    FunctionCall,
    FunctionCallOutput,
    ImageGenerationCall,
    InputImage,
    InputText,
    Item,
    LocalShellCall,
    Message,
    OutputText,
    PlainText,
    Reasoning,
    ReasoningText,
    SummaryText,
    ToolSearchCall,
    ToolSearchOutput,
    WebSearchCall,
    decode_item,
    encode_item,
)

HOME = Head(model="gpt-5.5", audio=True)
ABROAD = Head(provider="acme", model="tiny", audio=True)
OTHER_ACCOUNT = Head(model="gpt-5.5", account="someone else", audio=True)
ORIGIN = Origin("openai", "responses", "gpt-5.5", "", "treadle")
EXTRA = {"new_field": Raw(b'{"a": 1}')}
METADATA = Raw(b'{"turn_id":"t"}')


def row(item: Item | bytes, origin: Origin | None = ORIGIN) -> Row:
    body = item if isinstance(item, bytes) else encode_item(item)
    return Row.of_draft(Draft(body=body, origin=origin), 1)


def sent(item: Item | bytes, head: Head, origin: Origin | None = ORIGIN) -> Item | None:
    data = outbound(row(item, origin), head)
    return None if data is None else decode_item(data)


TEXT = OutputText(text="hi")
SEALED = EncryptedContent(encrypted_content="sealed")
ACTION = ExecAction(command=("ls",))
TOOLS = (Raw(b'{"type":"function","name":"f"}'),)

TRAVELS: list[tuple[Item, Item]] = [
    (
        Message(id="msg_1", role="assistant", content=(TEXT, SEALED), extra=EXTRA),
        Message(role="assistant", content=(TEXT,)),
    ),
    (
        FunctionCall(
            id="fc_1",
            name="f",
            arguments="{}",
            encrypted_function_args=("sealed",),
            call_id="a",
            extra=EXTRA,
        ),
        FunctionCall(name="f", arguments="{}", call_id="a"),
    ),
    (
        FunctionCallOutput(id="fco_1", call_id="a", output=(InputText(text="x"), SEALED)),
        FunctionCallOutput(call_id="a", output=(InputText(text="x"),)),
    ),
    (
        FunctionCallOutput(id="fco_1", call_id="a", output=(SEALED,)),
        FunctionCallOutput(call_id="a", output=""),
    ),
    (
        CustomToolCall(id="ctc_1", call_id="a", name="f", input="x", extra=EXTRA),
        CustomToolCall(call_id="a", name="f", input="x"),
    ),
    (
        CustomToolCallOutput(id="ctco_1", call_id="a", output="x", extra=EXTRA),
        CustomToolCallOutput(call_id="a", output="x"),
    ),
    (
        LocalShellCall(id="lsh_1", call_id="a", status="completed", action=ACTION),
        LocalShellCall(call_id="a", status="completed", action=ACTION),
    ),
    (
        LocalShellCall(id="lsh_1", call_id=None, status="completed", action=ACTION),
        LocalShellCall(call_id="lsh_1", status="completed", action=ACTION),
    ),
    (
        ToolSearchCall(id="tsc_1", call_id="a", execution="client", arguments=Raw(b"{}")),
        ToolSearchCall(call_id="a", execution="client", arguments=Raw(b"{}")),
    ),
    (
        ToolSearchOutput(
            id="tso_1", call_id="a", status="completed", execution="client", tools=TOOLS
        ),
        ToolSearchOutput(call_id="a", status="completed", execution="client", tools=TOOLS),
    ),
]
"""What can be shown to anyone, and what is left of it."""

STAYS: list[Item | bytes] = [
    Message(role="assistant", content=(SEALED,)),
    Reasoning(id="rs_1", summary=(SummaryText(text="thought"),), encrypted_content="sealed"),
    Compaction(id="cmp_1", encrypted_content="sealed"),
    ContextCompaction(id="cmp_1", encrypted_content="sealed"),
    AgentMessage(id="amsg_1", author="a", recipient="b", content=(SEALED,)),
    WebSearchCall(id="ws_1", status="completed"),
    ImageGenerationCall(id="ig_1", status="completed", result="AAAA"),
    ToolSearchCall(id="tsc_1", call_id=None, execution="server", arguments=Raw(b"{}")),
    ToolSearchOutput(id="tso_1", call_id=None, status="completed", execution="server", tools=TOOLS),
    b'{"type":"hologram","id":"h_1","depth":3}',
]
"""What only its origin may see."""


@pytest.mark.parametrize(("item", "left"), TRAVELS)
@pytest.mark.parametrize("head", [ABROAD, OTHER_ACCOUNT])
def test_elsewhere_an_item_goes_without_its_opaque_parts(item, left, head):
    assert sent(item, head) == left


@pytest.mark.parametrize(("item", "left"), TRAVELS)
def test_at_home_an_item_goes_whole(item, left):
    assert outbound(row(item), HOME) == encode_item(item)
    assert sent(left, HOME) == left


@pytest.mark.parametrize("item", STAYS)
@pytest.mark.parametrize("head", [ABROAD, OTHER_ACCOUNT])
def test_what_is_opaque_as_a_whole_goes_home_only(item, head):
    assert outbound(row(item), head) is None
    body = item if isinstance(item, bytes) else encode_item(item)
    assert outbound(row(item), HOME) == body


@pytest.mark.parametrize("item", STAYS)
def test_what_nobody_made_is_at_home_nowhere(item):
    assert outbound(row(item, None), HOME) is None


def test_another_model_of_the_same_house_reads_it_all():
    thought = Reasoning(id="rs_1", encrypted_content="sealed")
    assert sent(thought, Head(model="gpt-5.2")) == thought


def test_unknown_parts_and_fields_stay_at_home():
    body = b'{"type":"message","role":"assistant","content":[{"type":"smell","of":"rain"}],"x":1}'
    assert outbound(row(body), HOME) == body
    assert outbound(row(body), ABROAD) is None


def test_an_id_without_a_prefix_is_not_sent_even_home():
    said = Message(id="42", role="assistant", content=(TEXT,))
    assert sent(said, HOME) == Message(role="assistant", content=(TEXT,))


@pytest.mark.parametrize("head", [HOME, ABROAD])
def test_what_a_harness_passed_along_is_never_sent(head):
    said = Message(role="assistant", content=(TEXT,), metadata=METADATA)
    assert sent(said, head) == Message(role="assistant", content=(TEXT,))
    data = outbound(row(said), head)
    assert data is not None
    assert b"passthrough" not in data


def test_text_that_speaks_of_metadata_and_media_goes_as_it_is():
    text = '"internal_chat_message_metadata_passthrough" "input_image" "encrypted_content"'
    said = Message(role="user", content=(InputText(text=text),))
    for head in (HOME, ABROAD, Head(model="blind", images=False)):
        assert outbound(row(said, None), head) == encode_item(said)


@pytest.mark.parametrize(
    ("thought", "members"),
    [
        (Reasoning(), ["type", "summary", "content", "encrypted_content"]),
        (Reasoning(content=(PlainText(text="x"),)), ["type", "summary", "encrypted_content"]),
        (Reasoning(content=()), ["type", "summary", "encrypted_content"]),
        (
            Reasoning(content=(ReasoningText(text="x"), PlainText(text="y"))),
            ["type", "summary", "content", "encrypted_content"],
        ),
    ],
)
def test_the_content_of_reasoning_is_sent_when_it_is_null_or_raw(thought, members):
    data = outbound(row(thought), HOME)
    assert data is not None
    assert list(msgspec.json.decode(data)) == members


def test_a_model_that_cannot_see_is_told_so():
    blind = Head(model="gpt-5.5", images=False)
    shown = Message(role="user", content=(InputImage(image_url="data:image/png;base64,AA=="),))
    sentence = "image content omitted because you do not support image input"
    told = Message(role="user", content=(InputText(text=sentence),))
    for origin in (None, ORIGIN):
        assert sent(shown, blind, origin) == told
        assert sent(shown, HOME, origin) == shown
    made = ImageGenerationCall(id="ig_1", status="completed", result="AAAA")
    assert sent(made, blind) == ImageGenerationCall(id="ig_1", status="completed", result="")


def test_stored_bytes_are_sent_as_they_are():
    body = (
        b'{ "type" : "message", "role":"user","content":[{"type":"input_text","text":"h\\u0069"}]}'
    )
    assert outbound(row(body, None), HOME) is not None
    assert outbound(row(body, None), HOME) == body


@pytest.mark.parametrize("origin", [ORIGIN, None])
@pytest.mark.parametrize("provider", ["openai", "azure", "codex"])
def test_openai_gets_short_ids_of_calls_the_same_for_a_call_and_its_output(provider, origin):
    head = msgspec.structs.replace(HOME, provider=provider, api="responses")
    for length, fits in ((64, True), (65, False)):
        name = "c" * length
        call = sent(FunctionCall(name="look", arguments="{}", call_id=name), head, origin)
        output = sent(FunctionCallOutput(call_id=name, output="seen"), head, None)
        assert isinstance(call, FunctionCall)
        assert isinstance(output, FunctionCallOutput)
        assert call.call_id == output.call_id
        assert (call.call_id == name) is fits
        assert len(call.call_id) <= 64
        elsewhere = msgspec.structs.replace(head, provider="acme")
        kept = sent(FunctionCallOutput(call_id=name, output="seen"), elsewhere, None)
        assert isinstance(kept, FunctionCallOutput)
        assert kept.call_id == name
