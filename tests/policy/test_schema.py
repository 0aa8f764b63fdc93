from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from treadle.core.specs import (
    SPECS,
    CustomTool,
    FunctionTool,
    Namespace,
    TextFormat,
    ToolSpec,
    WebSearchTool,
    parameters,
    spec_name,
)
from treadle.core.wire import json_bytes
from treadle.models.catalog import Catalog
from treadle.policy.schema import NO_PARAMETERS, Diagnostic, Inventory, normalise
from treadle.policy.schema_flaws import MOST_BYTES, MOST_LEVELS
from treadle.policy.target import Target, target_of
from treadle.tools.builtin_tools import builtin_tools

OPENAI = Target(provider="openai", model="gpt-5.5", native=True)
CHATGPT = target_of(
    Catalog.load().profile("openai:gpt-5.5"),
    api="responses",
    base_url="https://chatgpt.com/backend-api/codex",
)
PROXY = target_of(
    Catalog.load().profile("openai:gpt-5.5"), api="responses", base_url="https://proxy.example/v1"
)
OTHERS = [
    PROXY,
    Target(provider="openrouter", model="gpt-5.5", api="chat"),
    Target(provider="anthropic", model="claude-opus-5", api="messages", native=True),
    Target(provider="openai", model="gpt-5.5", native=True, harness="codex"),
]

N = b'{"type":"object","properties":{},"required":[],"additionalProperties":false}'  # the one form
STRICT = (
    b'{"type":"object","properties":{"path":{"type":"string"}},'
    b'"required":["path"],"additionalProperties":false}'
)
PERMISSIVE = (
    b'{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":true}'
)


def function(schema: object, name: str = "look") -> FunctionTool:
    data = schema if isinstance(schema, bytes) else json_bytes(schema)
    return FunctionTool(name=name, description="Looks.", parameters=Raw(data))


def encoded(inventory: Inventory) -> list[bytes]:
    return [SPECS.encode(spec) for spec in inventory.specs]


def schemas(inventory: Inventory) -> list[bytes]:
    return [bytes(spec.parameters) for spec in inventory.specs if isinstance(spec, FunctionTool)]


def strictness(inventory: Inventory) -> list[bool]:
    return [spec.strict for spec in inventory.specs if isinstance(spec, FunctionTool)]


@pytest.mark.parametrize("target", [OPENAI, CHATGPT])
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"properties": {}, "additionalProperties": False},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    ],
)
def test_a_tool_without_parameters_has_one_form_at_openai(schema, target):
    inventory = normalise([function(schema)], target)
    assert inventory == Inventory(
        specs=(
            FunctionTool(name="look", description="Looks.", strict=True, parameters=NO_PARAMETERS),
        ),
        strict=True,
    )
    assert schemas(inventory) == [N]


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("schema", [b"{}", STRICT, PERMISSIVE, b'{"x-odd":1}', b'{"anyOf":[{}]}'])
def test_others_get_the_very_same_tools(schema, target):
    specs = (function(schema), function(b" { } ", "wait"))
    inventory = normalise(specs, target)
    assert inventory == Inventory(specs=specs)
    assert inventory.specs is specs


def test_a_permissive_schema_is_kept_and_nothing_is_said_about_it():
    specs = (function(PERMISSIVE),)
    inventory = normalise(specs, OPENAI)
    assert inventory == Inventory(specs=specs)
    assert inventory.specs is specs


def test_one_permissive_tool_makes_the_whole_inventory_permissive():
    inventory = normalise([function(STRICT), function(PERMISSIVE, "write")], OPENAI)
    assert (inventory.strict, strictness(inventory)) == (False, [False, False])
    assert schemas(inventory) == [STRICT, PERMISSIVE]


def test_strictness_that_was_asked_for_one_tool_alone_is_taken_back():
    asked = FunctionTool(name="look", description="", strict=True, parameters=Raw(STRICT))
    assert strictness(normalise([asked, function(PERMISSIVE, "write")], OPENAI)) == [False, False]


def test_members_of_namespaces_count_and_other_kinds_of_tools_do_not():
    free = CustomTool(name="apply_patch", description="", format=TextFormat())
    others: tuple[ToolSpec, ...] = (free, WebSearchTool())
    closed = Namespace(name="files", description="", tools=(function({}), free))
    inventory = normalise((function(STRICT), *others, closed), OPENAI)
    assert inventory.strict
    assert SPECS.encode(inventory.specs[-1]) == SPECS.encode(
        Namespace(
            name="files",
            description="",
            tools=(
                FunctionTool(name="look", description="Looks.", strict=True, parameters=Raw(N)),
                free,
            ),
        )
    )
    assert inventory.specs[1:3] == others
    opened = Namespace(name="files", description="", tools=(function(PERMISSIVE), free))
    assert not normalise((function(STRICT), *others, opened), OPENAI).strict


def test_an_inventory_without_functions_is_not_strict():
    assert normalise((WebSearchTool(),), OPENAI) == Inventory(specs=(WebSearchTool(),))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        {
            "type": "object",
            "properties": {"a": {"type": "string", "minLength": 1}},
            "required": ["a"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {}},
            "required": ["a"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": True},
            "required": ["a"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {"type": "array"}},
            "required": ["a"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {"type": "object"}},
            "required": ["a"],
            "additionalProperties": False,
        },
    ],
)
def test_what_cannot_be_held_to_is_not_strict(schema):
    inventory = normalise([function(schema)], OPENAI)
    assert (inventory.strict, inventory.diagnostics) == (False, ())


def test_nested_recursive_and_nullable_schemas_can_be_strict():
    tree = {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"], "description": "What it is called."},
            "kind": {"enum": ["leaf", "branch"]},
            "left": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            "rest": {"type": "array", "items": {"$ref": "#/$defs/leaf"}},
        },
        "required": ["name", "kind", "left", "rest"],
        "additionalProperties": False,
        "$defs": {"leaf": {"type": "integer", "minimum": 1}},
    }
    inventory = normalise([function(tree)], OPENAI)
    assert (inventory.strict, inventory.diagnostics) == (True, ())
    assert schemas(inventory) == [json_bytes(tree)]


def test_a_schema_that_leaves_out_that_it_is_an_object_says_so():
    inventory = normalise([function({"properties": {"a": {"type": "string"}}})], OPENAI)
    assert schemas(inventory) == [b'{"type":"object","properties":{"a":{"type":"string"}}}']


def nested(levels: int) -> bytes:
    return b'{"type":"object","not":' * levels + b"{}" + b"}" * levels


HOSTILE = {
    "too_large": json_bytes({"type": "object", "description": "x" * MOST_BYTES}),
    "too_deep": nested(MOST_LEVELS + 1),
    "not_json": b'{"type":',
    "not_an_object": b"[1,2]",
    "root_type": b'{"type":"array","items":{}}',
    "malformed": b'{"type":"object","properties":["a"]}',
    "ref_cycle": json_bytes(
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        }
    ),
    "dangling_ref": b'{"type":"object","properties":{"a":{"$ref":"#/$defs/nowhere"}}}',
}


@pytest.mark.parametrize("target", [OPENAI, *OTHERS])
@pytest.mark.parametrize("code", HOSTILE)
def test_a_hostile_schema_costs_its_own_tool_only(code, target):
    kept = function(STRICT)
    inventory = normalise([function(HOSTILE[code], "hostile"), kept], target)
    assert [spec_name(spec) for spec in inventory.specs] == ["look"]
    (found,) = inventory.diagnostics
    assert (found.tool, found.code, found.consequence) == ("hostile", code, "left_out")
    assert "'hostile'" in found.message
    assert inventory.strict is target.openai


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "\x1b[2J", "l\u0430ok", "x" * 129, "a.b"])
@pytest.mark.parametrize("target", [OPENAI, *OTHERS])
def test_a_name_that_providers_refuse_is_not_offered(name, target):
    inventory = normalise([function({}, name), function(STRICT)], target)
    assert [spec_name(spec) for spec in inventory.specs] == ["look"]
    (found,) = inventory.diagnostics
    assert (found.tool, found.code, found.consequence) == (name, "name", "left_out")
    assert found.message.endswith(f"the tool {name[:128]!r} is not offered")


def test_what_was_left_out_of_a_namespace_is_named_with_it():
    space = Namespace(name="mail", description="", tools=(function(HOSTILE["root_type"], "send"),))
    inventory = normalise([space, function(STRICT)], OPENAI)
    assert inventory.specs == (
        FunctionTool(name="look", description="Looks.", strict=True, parameters=Raw(STRICT)),
    )
    assert inventory.diagnostics == (
        Diagnostic(
            tool="mail.send",
            code="root_type",
            message="the schema of the tool 'mail.send' describes something else than an object; "
            "it is not offered",
            consequence="left_out",
        ),
    )


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf", "enum", "not"])
def test_openai_is_offered_no_branches_at_the_root(word):
    value: object = {} if word == "not" else [{}]
    inventory = normalise([function({"type": "object", word: value})], OPENAI)
    assert inventory.specs == ()
    assert [found.code for found in inventory.diagnostics] == ["root_branches"]


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"type": "object", "properties": {"a": {"x-widget": "slider"}}}, "unknown_words"),
        ({"type": "object", "properties": {"a": {"$ref": "https://x.example/s"}}}, "foreign_ref"),
    ],
)
def test_what_is_merely_odd_is_offered_permissively(schema, code):
    inventory = normalise([function(schema)], OPENAI)
    assert schemas(inventory) == [json_bytes(schema)]
    assert [(found.code, found.consequence) for found in inventory.diagnostics] == [
        (code, "permissive")
    ]
    assert not inventory.strict


def test_a_property_may_be_called_like_nothing_in_json_schema():
    schema = {"type": "object", "properties": {"x-widget": {"type": "string"}}}
    assert normalise([function(schema)], OPENAI).diagnostics == ()


def test_brackets_in_strings_do_not_nest():
    schema = {"type": "object", "properties": {"a": {"description": '["\\' * 500}}}
    assert normalise([function(schema)], OPENAI).diagnostics == ()


@pytest.mark.parametrize(
    "data",
    [
        b'"' + b'\\"' * (MOST_BYTES // 2 - 1),
        json_bytes(
            {
                "type": "object",
                "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(6_000)}
                | {"d6000": {}},
            }
        ),
    ],
)
def test_schemas_made_to_cost_time_are_looked_at_once(data):
    assert len(normalise([function(data)], OPENAI).diagnostics) <= 1


WORDS = st.sampled_from(
    ["type", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs"]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(["object", "string", "array", "#", "#/$defs/a", "#/properties/0", "a"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(WORDS, st.sampled_from("ab")), inner, max_size=4),
    ),
    max_leaves=12,
)
SCHEMAS = st.one_of(VALUES.map(json_bytes), st.binary(max_size=40))
INVENTORIES = st.lists(SCHEMAS, max_size=4).map(
    lambda found: [function(data, f"tool{place}") for place, data in enumerate(found)]
)
TARGETS = st.sampled_from([OPENAI, CHATGPT, *OTHERS])


@given(INVENTORIES, TARGETS)
def test_no_schema_is_raised_for_and_what_comes_out_is_sound(specs, target):
    inventory = normalise(specs, target)
    lost = {each.tool for each in inventory.diagnostics if each.consequence == "left_out"}
    assert [spec_name(spec) for spec in inventory.specs] == [
        spec.name for spec in specs if spec.name not in lost
    ]
    for schema in schemas(inventory):
        assert isinstance(json.loads(schema), dict)
    assert set(strictness(inventory)) <= {inventory.strict}


@given(INVENTORIES, TARGETS)
def test_normalising_again_changes_nothing(specs, target):
    once = normalise(specs, target)
    twice = normalise(once.specs, target)
    assert encoded(twice) == encoded(once)
    assert twice.strict == once.strict
    assert not [each for each in twice.diagnostics if each.consequence == "left_out"]


@given(INVENTORIES)
def test_what_others_are_offered_keeps_its_bytes(specs):
    before = {spec.name: SPECS.encode(spec) for spec in specs}
    for target in OTHERS:
        for spec in normalise(specs, target).specs:
            assert SPECS.encode(spec) == before[spec_name(spec)]


@given(INVENTORIES, st.sampled_from([b"{}", STRICT, PERMISSIVE]))
def test_the_order_of_tools_decides_nothing(specs, more):
    tools = [*specs, function(more, "more")]
    forwards, backwards = normalise(tools, OPENAI), normalise(tools[::-1], OPENAI)
    assert encoded(forwards) == encoded(backwards)[::-1]
    assert forwards.strict == backwards.strict


def test_tools_with_optional_parameters_keep_their_bytes_at_openai():
    optional = parameters({"path": {"type": "string"}, "limit": {"type": "integer"}}, ("path",))
    specs = (function(bytes(optional)), CustomTool(name="p", description="", format=TextFormat()))
    assert normalise(specs, OPENAI).specs is specs


@pytest.mark.parametrize("name", ["gpt-5.5", "gpt-5.2", "gpt-5", "o3", "gpt-oss-20b"])
def test_the_tools_that_treadle_brings_keep_their_bytes_at_openai(name):
    specs = tuple(tool.spec for tool in builtin_tools(Catalog.load().profile(name)))
    assert normalise(specs, OPENAI) == Inventory(specs=specs)


@pytest.mark.parametrize(
    ("provider", "url", "native"),
    [
        ("openai", "https://api.openai.com/v1", True),
        ("openai", "https://eu.api.openai.com/v1", True),
        ("openai", "http://api.openai.com/v1", False),
        ("openai", "https://api.openai.com.evil.example/v1", False),
        ("openai", "https://evilapi.openai.com/v1", False),
        ("openai", "http://127.0.0.1:8000/v1", False),
        ("openai", "https://[broken/v1", False),
        ("openai", "", False),
        ("openrouter", "https://api.openai.com/v1", False),
        ("azure", "https://mine.openai.azure.com/openai/v1", True),
        ("anthropic", "https://api.anthropic.com/v1", True),
    ],
)
def test_an_address_is_the_providers_own_or_a_proxys(provider, url, native):
    profile = Catalog.load().profile(f"{provider}:gpt-5.5")
    found = target_of(profile.override(provider=provider), api="responses", base_url=url)
    assert found.native is native


@pytest.mark.parametrize("index", ["9" * 5000, "\u0663", "\u00b2", "-1", "+1", "1_0", " 1"])
def test_a_reference_to_an_index_that_is_none_dangles(index: str):
    schema = {"type": "object", "anyOf": [{}], "properties": {"a": {"$ref": f"#/anyOf/{index}"}}}
    (found,) = normalise([function(schema)], PROXY).diagnostics
    assert found.code == "dangling_ref"
