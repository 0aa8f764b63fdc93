from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec import Raw

from treadle.core import items, specs
from treadle.core.ids import item_prefix
from treadle.core.items import (
    ITEMS,
    PARTS,
    FunctionCallOutput,
    InputText,
    Message,
    OutputText,
    Unknown,
    decode_item,
    encode_item,
    item_type,
    text_of,
)
from treadle.core.specs import SPECS, CustomTool, FunctionTool, Grammar, Namespace, WebSearchTool
from treadle.core.wire import json_bytes

META = Raw(b'{"turn_id":"t"}')
TEXT = InputText("hi")

EVERY_ITEM: list[items.Item] = [
    Message(id="msg_1", role="user", content=(TEXT,), phase="commentary", metadata=META),
    items.AgentMessage(
        id="amsg_1",
        author="a",
        recipient="b",
        content=(TEXT, items.EncryptedContent("e")),
        metadata=META,
    ),
    items.Reasoning(
        id="rs_1",
        summary=(items.SummaryText("s"),),
        content=(items.ReasoningText("r"), items.PlainText("p")),
        encrypted_content="e",
        metadata=META,
    ),
    items.Reasoning(),
    items.LocalShellCall(
        id="lsh_1", call_id="c", status="completed", action=items.ExecAction(command=("ls", "-l"))
    ),
    items.FunctionCall(
        id="fc_1",
        name="f",
        namespace="n",
        arguments='{"a":1}',
        encrypted_function_args=("a",),
        call_id="c",
    ),
    FunctionCallOutput(id="fco_1", call_id="c", name="f", namespace="n", output="done"),
    FunctionCallOutput(
        call_id="c",
        output=(
            TEXT,
            items.InputImage("data:image/png;base64,AA", "original"),
            items.InputAudio("data:audio/wav;base64,AA"),
            items.EncryptedContent("e"),
        ),
    ),
    items.CustomToolCall(
        id="ctc_1", status="completed", call_id="c", name="apply_patch", namespace="n", input="*"
    ),
    items.CustomToolCallOutput(id="ctco_1", call_id="c", name="apply_patch", output="ok"),
    items.ToolSearchCall(id="tsc_1", execution="client", arguments=Raw(b'{"query":"x"}')),
    items.ToolSearchOutput(
        id="tso_1", call_id="c", status="completed", execution="client", tools=(Raw(b"{}"),)
    ),
    items.WebSearchCall(
        id="ws_1", status="completed", action=items.WebSearch(query="q", queries=("q",))
    ),
    items.WebSearchCall(action=items.OpenPage("https://example.org")),
    items.WebSearchCall(action=items.FindInPage("https://example.org", "p")),
    items.ImageGenerationCall(id="ig_1", status="completed", revised_prompt="p", result="AA=="),
    items.Compaction(id="cmp_1", encrypted_content="e"),
    items.ContextCompaction(id="cmp_1", encrypted_content="e"),
    items.CompactionTrigger(),
    items.AdditionalTools(id="at_1", role="developer", tools=(Raw(b'{"type":"function"}'),)),
    Message(
        role="assistant",
        content=(OutputText("hi", Raw(b"[]"), Raw(b"[]")), items.Refusal("no")),
        status="completed",
    ),
]


def test_every_item_is_written_in_its_wire_order():
    assert "\n".join(encode_item(item).decode() for item in EVERY_ITEM) == snapshot("""\
{"type":"message","id":"msg_1","role":"user","content":[{"type":"input_text","text":"hi"}],"phase":"commentary","internal_chat_message_metadata_passthrough":{"turn_id":"t"}}
{"type":"agent_message","id":"amsg_1","author":"a","recipient":"b","content":[{"type":"input_text","text":"hi"},{"type":"encrypted_content","encrypted_content":"e"}],"internal_chat_message_metadata_passthrough":{"turn_id":"t"}}
{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":"r"},{"type":"text","text":"p"}],"encrypted_content":"e","internal_chat_message_metadata_passthrough":{"turn_id":"t"}}
{"type":"reasoning","summary":[],"content":null,"encrypted_content":null}
{"type":"local_shell_call","id":"lsh_1","call_id":"c","status":"completed","action":{"type":"exec","command":["ls","-l"],"timeout_ms":null,"working_directory":null,"env":null,"user":null}}
{"type":"function_call","id":"fc_1","name":"f","namespace":"n","arguments":"{\\"a\\":1}","encrypted_function_args":["a"],"call_id":"c"}
{"type":"function_call_output","id":"fco_1","call_id":"c","name":"f","namespace":"n","output":"done"}
{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:image/png;base64,AA","detail":"original"},{"type":"input_audio","audio_url":"data:audio/wav;base64,AA"},{"type":"encrypted_content","encrypted_content":"e"}]}
{"type":"custom_tool_call","id":"ctc_1","status":"completed","call_id":"c","name":"apply_patch","namespace":"n","input":"*"}
{"type":"custom_tool_call_output","id":"ctco_1","call_id":"c","name":"apply_patch","output":"ok"}
{"type":"tool_search_call","id":"tsc_1","call_id":null,"execution":"client","arguments":{"query":"x"}}
{"type":"tool_search_output","id":"tso_1","call_id":"c","status":"completed","execution":"client","tools":[{}]}
{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q","queries":["q"]}}
{"type":"web_search_call","action":{"type":"open_page","url":"https://example.org"}}
{"type":"web_search_call","action":{"type":"find_in_page","url":"https://example.org","pattern":"p"}}
{"type":"image_generation_call","id":"ig_1","status":"completed","revised_prompt":"p","result":"AA=="}
{"type":"compaction","id":"cmp_1","encrypted_content":"e"}
{"type":"context_compaction","id":"cmp_1","encrypted_content":"e"}
{"type":"compaction_trigger"}
{"type":"additional_tools","id":"at_1","role":"developer","tools":[{"type":"function"}]}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"no"}],"status":"completed"}\
""")


@pytest.mark.parametrize("item", EVERY_ITEM, ids=item_type)
def test_every_item_comes_back_equal(item):
    assert decode_item(encode_item(item)) == item


def test_every_item_type_is_covered_here():
    assert {type(item) for item in EVERY_ITEM} | {Unknown} == set(items.Item.__args__)


EVERY_SPEC: list[specs.ToolSpec] = [
    FunctionTool(
        name="f", description="d", defer_loading=True, parameters=specs.parameters({"b": {}})
    ),
    CustomTool(name="c", description="d", format=Grammar(syntax="lark", definition="start:/x/")),
    CustomTool(name="c", description="d", format=specs.TextFormat()),
    Namespace(
        name="n",
        description="d",
        tools=(FunctionTool(name="f", description="d", parameters=Raw(b"{}")),),
    ),
    specs.ToolSearchTool(execution="client", description="d", parameters=Raw(b"{}")),
    WebSearchTool(
        external_web_access=True,
        indexed_web_access=False,
        filters=specs.SearchFilters(("example.org",)),
        user_location=specs.UserLocation(country="FR"),
        search_context_size="low",
        search_content_types=("text", "image"),
    ),
    specs.ImageGenerationTool(output_format="png"),
    specs.LocalShellTool(),
]


def test_every_tool_is_written_in_its_wire_order():
    assert "\n".join(SPECS.encode(spec).decode() for spec in EVERY_SPEC) == snapshot("""\
{"type":"function","name":"f","description":"d","strict":false,"defer_loading":true,"parameters":{"type":"object","properties":{"b":{}},"additionalProperties":false}}
{"type":"custom","name":"c","description":"d","format":{"type":"grammar","syntax":"lark","definition":"start:/x/"}}
{"type":"custom","name":"c","description":"d","format":{"type":"text"}}
{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f","description":"d","strict":false,"parameters":{}}]}
{"type":"tool_search","execution":"client","description":"d","parameters":{}}
{"type":"web_search","external_web_access":true,"indexed_web_access":false,"filters":{"allowed_domains":["example.org"]},"user_location":{"type":"approximate","country":"FR"},"search_context_size":"low","search_content_types":["text","image"]}
{"type":"image_generation","output_format":"png"}
{"type":"local_shell"}\
""")


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=specs.spec_name)
def test_every_tool_comes_back_equal(spec):
    assert SPECS.decode(SPECS.encode(spec)) == spec


def test_parameters_are_sorted_and_closed():
    schema = specs.parameters({"b": {"type": "string"}, "a": {"type": "number"}}, ("b", "a"))
    assert bytes(schema).decode() == snapshot(
        '{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string"}},"required":["a","b"],"additionalProperties":false}'
    )


def test_tools_go_by_their_name_or_their_type():
    assert [specs.spec_name(spec) for spec in EVERY_SPEC] == [
        *("f", "c", "c", "n", "tool_search", "web_search", "image_generation", "local_shell")
    ]
    assert specs.spec_name(SPECS.decode(b'{"type":"mystery"}')) == "mystery"


# What is not known survives ------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
field_names = st.sampled_from(
    [
        "id",
        "role",
        "content",
        "output",
        "action",
        "call_id",
        "name",
        "status",
        "summary",
        "execution",
        "result",
        "recipient",
        "author",
        "arguments",
        "tools",
        "encrypted_content",
        "·extra",
        "payload",
        "brand_new",
        "text",
    ]
)
part_types = st.sampled_from(
    [
        "input_text",
        "input_image",
        "output_text",
        "encrypted_content",
        "exec",
        "search",
        "·unknown",
        "newfangled",
    ]
)
parts = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    part_types,
    st.dictionaries(
        st.sampled_from(["text", "image_url", "detail", "query", "command", "zest"]),
        json_values,
        max_size=3,
    ),
)
item_types = st.sampled_from(
    [*filter(None, (item_type(item) for item in EVERY_ITEM)), "compaction_summary", "unheard_of"]
)
members = st.dictionaries(
    field_names, json_values | parts | st.lists(parts, max_size=3), max_size=6
)
foreign_objects = st.builds(lambda kind, rest: {"type": kind, **rest}, item_types, members)
changed_items = st.builds(
    lambda item, rest: {**json.loads(encode_item(item)), **rest},
    st.sampled_from(EVERY_ITEM),
    members,
)
objects = foreign_objects | changed_items

WRITTEN_ANYWAY: tuple[object, ...] = ([], None, False)


def gained_nothing_but_defaults(before: Any, after: Any) -> bool:
    """Whether `after` is `before`, but for nulls dropped and defaults spelled out."""
    if isinstance(before, dict) and isinstance(after, dict):
        kept = all(
            gained_nothing_but_defaults(value, after[key]) if key in after else value is None
            for key, value in before.items()
            if key != "type"
        )
        return kept and all(after[key] in WRITTEN_ANYWAY for key in after.keys() - before.keys())
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return all(map(gained_nothing_but_defaults, before, after))
    return bool(before == after)


@given(objects, st.booleans())
def test_any_object_survives_decoding_and_encoding(value, ascii_only):
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    item = decode_item(data)
    again = encode_item(item)
    if isinstance(item, Unknown):
        assert again == data
    else:
        assert gained_nothing_but_defaults(value, json.loads(again))
    assert encode_item(decode_item(again)) == again


@given(objects)
def test_a_decoded_item_has_the_types_it_declares(value):
    item = decode_item(json.dumps(value).encode())
    if isinstance(item, Message | items.AgentMessage | items.Reasoning):
        assert item.content is None or isinstance(item.content, tuple)
    if isinstance(item, FunctionCallOutput | items.CustomToolCallOutput):
        assert isinstance(item.output, str | tuple)


@given(json_values)
def test_any_json_can_be_read_as_an_item_a_part_or_a_tool(value):
    data = json.dumps(value).encode()
    for codec in (ITEMS, PARTS, SPECS):
        decoded = codec.decode(data)
        assert isinstance(decoded, Unknown)
        assert codec.encode(decoded) == data


def test_unknown_fields_and_parts_keep_their_bytes_in_place():
    data = (
        b'{"type":"message","role":"user","content":[{"type":"input_text","text":"a","zest":1.0},'
        b'{"type":"hologram", "depth":[1 ,2]}],"mood":{"x" : 1}}'
    )
    message = decode_item(data)
    assert message == Message(
        role="user",
        content=(
            InputText("a", extra={"zest": Raw(b"1.0")}),
            Unknown(Raw(b'{"type":"hologram", "depth":[1 ,2]}')),
        ),
        extra={"mood": Raw(b'{"x" : 1}')},
    )
    assert encode_item(message) == data


def test_an_unknown_item_keeps_every_byte():
    data = b'{ "type" : "hologram","z":1.50,"a":"\\u00e9" }'
    item = decode_item(data)
    assert (item, item_type(item), encode_item(item)) == (Unknown(Raw(data)), "hologram", data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"message","role":"user","content":"text"}',
        b'{"type":"message","role":"user","content":{"type":"input_text","text":"x"}}',
        b'{"type":"message","content":[]}',
        b'{"type":"function_call_output","call_id":"c","output":{"type":"input_text","text":"x"}}',
        b'{"type":"web_search_call","action":[{"type":"search"}]}',
        b'{"type":7}',
        b"[]",
    ],
)
def test_a_known_type_in_a_foreign_shape_is_unknown(data):
    assert decode_item(data) == Unknown(Raw(data))


@pytest.mark.parametrize(
    "data",
    [
        '{"type":"message","role":"user","content":[],"·extra":{"role":"system"}}',
        '{"type":"message","role":"user","content":[],"\\u00b7extra":{"role":"system"}}',
        '{"type":"message","role":"user","content":[{"type":"·unknown","payload":{"type":"x"}}]}',
        '{"type":"message","role":"user","content":[{"type":"\\u00B7unknown","payload":1}]}',
    ],
)
def test_nobody_outside_can_use_our_private_names(data):
    again = encode_item(decode_item(data.encode()))
    assert json.loads(again) == json.loads(data)


def test_text_that_looks_like_a_private_name_is_only_text():
    message = Message(role="user", content=(InputText("·extra"), InputText('"·unknown"')))
    assert decode_item(encode_item(message)) == message


def test_an_older_spelling_of_a_type_is_read():
    item = decode_item(b'{"type":"compaction_summary","encrypted_content":"e"}')
    assert item == items.Compaction(encrypted_content="e")
    assert encode_item(item) == b'{"type":"compaction","encrypted_content":"e"}'


def test_what_a_tool_list_does_not_know_survives():
    for data in (
        b'{"type":"mcp","server":"x"}',
        b'{"type":"web_search","filters":{"allowed_domains":["a"],"blocked":["b"]}}',
        b'{"type":"namespace","name":"n","description":"d","tools":[{"type":"odd"}]}',
        b'{"type":"custom","name":"c","description":"d","format":{"type":"odd","x":1}}',
        b'{"type":"function","name":"f","description":"d","strict":true,"parameters":{ },"x":1}',
    ):
        assert SPECS.encode(SPECS.decode(data)) == data


def test_malformed_json_is_an_error():
    with pytest.raises(msgspec.DecodeError):
        decode_item(b'{"type":')


def test_values_cannot_be_changed():
    with pytest.raises(AttributeError):
        TEXT.text = "other"  # type: ignore[misc]


def test_text_is_joined_from_parts_that_have_some():
    assert text_of("plain") == "plain"
    parts = (TEXT, items.InputImage("u"), InputText(" \n"), OutputText("there"))
    assert text_of(parts) == "hi\nthere"


def test_every_item_type_has_the_prefix_of_its_ids():
    prefixes = {
        item_type(item): str(item.id).partition("_")[0]  # type: ignore[union-attr]
        for item in EVERY_ITEM
        if getattr(item, "id", None)
    }
    assert {kind: item_prefix(kind) for kind in prefixes} == prefixes
    assert item_prefix("hologram") == "itm"


def test_json_is_compact_and_keeps_the_order_of_fields():
    assert json_bytes({"b": 1, "a": [True, None]}) == b'{"b":1,"a":[true,null]}'
