"""Calls that are written as text are read strictly, and never shown as text on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.catalog import Catalog
from treadle.models.text_calls import ALL_FORMS, HeldText, TextCall, WrittenCalls, find_calls

TOOLS: dict[str, Any] = {
    "look": {"properties": {"path": {"type": "string"}, "lines": {"type": "number"}}},
    "run": {"properties": {"cmd": {"type": "string"}}},
}
LOOK = '{"name": "look", "arguments": {"path": "a"}}'
RUN = '{"name": "run", "parameters": {"cmd": "ls; pwd"}}'
ELEMENTS = (
    "<tool_call>\n<function=look>\n<parameter=path>\na\n</parameter>\n"
    "<parameter=lines>\n3\n</parameter>\n</function>\n</tool_call>"
)
READ = TextCall("look", '{"path":"a"}')
RAN = TextCall("run", '{"cmd":"ls; pwd"}')


def found(text: str, *forms: str) -> WrittenCalls:
    return find_calls(text, forms or ALL_FORMS, TOOLS)


@pytest.mark.parametrize(
    ("form", "text", "calls"),
    [
        ("tags", f"<tool_call>\n{LOOK}\n</tool_call>", (READ,)),
        ("tags", f"<tool_call>{LOOK}</tool_call>\n<tool_call>{RUN}</tool_call>\n", (READ, RAN)),
        ("tags", f"<tool_call>{LOOK}", (READ,)),
        (
            "tags",
            ELEMENTS,
            (TextCall("look", '{"path":"a","lines":3}'),),
        ),
        ("tags", "<function=run><parameter=cmd>7</parameter></function>", "7"),
        ("json", LOOK, (READ,)),
        ("json", f" [{LOOK}, {RUN}]\n", (READ, RAN)),
        ("json", f'{{"type": "function", "function": {LOOK}}}', (READ,)),
        ("json", '{"name": "look", "arguments": "{\\"path\\": \\"a\\"}"}', (READ,)),
        ("json", f"```json\n{LOOK}\n```", (READ,)),
        ("json", f"```\n{LOOK}\n```\n", (READ,)),
        ("mistral", f"[TOOL_CALLS][{LOOK}]", (READ,)),
        ("python_tag", f"<|python_tag|>{LOOK}; {RUN}", (READ, RAN)),
    ],
)
def test_each_form_is_read_for_models_that_have_it_only(form, text, calls):
    if calls == "7":
        calls = (TextCall("run", '{"cmd":"7"}'),)
    assert found(text, form) == WrittenCalls("", calls)
    others = [each for each in ALL_FORMS if each != form]
    assert found(text, *others).calls == ()
    assert found(f"I look.\n{text}", form).calls == (
        () if form == "json" and text[0] != "`" else calls
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"name": "ls", "arguments": {}}', "there is no tool 'ls'"),
        ('<tool_call>{"name": "look", "arguments": {"path"</tool_call>', "cannot be read"),
        (f"<tool_call>{LOOK}</tool_call> and then", "text follows the call"),
        ('<tool_call>{"tool": "look"}</tool_call>', "needs the keys name and arguments"),
        ('{"name": "look", "arguments": [1]}', "are no JSON object"),
        ("<tool_call><function=look><x></function>", "no parameter"),
        ("[TOOL_CALLS][{]", "cannot be read"),
    ],
)
def test_what_looks_like_a_call_and_is_none_stays_text_with_a_reason(text, problem):
    result = found(text)
    assert (result.said, result.calls) == (text, ())
    assert problem in result.problem


@pytest.mark.parametrize(
    "text",
    [
        "Nothing to call.",
        '{"name": "Bob", "age": 3}',
        '{"name": "Bob", "arguments": {}, "age": 3}',
        "Write `<tool_call>` around it.",
        f"An example:\n```json\n{LOOK}\n```\nThat is how it looks.",
        '```json\n{"port": 1}\n```',
        "[1, 2",
        "{not json",
    ],
)
def test_other_text_is_left_alone(text):
    assert found(text) == WrittenCalls(text)


@given(st.data())
def test_text_is_held_from_where_a_call_may_begin_however_it_is_cut(data: st.DataObject):
    said = data.draw(
        st.sampled_from(["", "Hm. ", "a < b `` and [x] ", "See ```python\nx\n``` so "])
    )
    rest = data.draw(
        st.sampled_from([f"<tool_call>{LOOK}</tool_call>", f"```json\n{LOOK}\n```", "the end."])
    )
    text, held, shown = said + rest, HeldText(ALL_FORMS, TOOLS), ""
    while text:
        size = data.draw(st.integers(1, 9))
        shown, text = shown + held.feed(text[:size]), text[size:]
    if rest == "the end.":
        assert said + rest == shown + held.take()
    else:
        assert shown == said
        assert held.take_calls().calls == (READ,)


def test_the_catalog_says_which_models_write_which_form():
    catalog = Catalog.load()
    forms = {
        name: catalog.profile(name).text_calls
        for name in ("qwen2.5-coder:7b", "llama3.2", "gemma3", "gpt-5.5", "claude-opus-5")
    }
    assert forms == {
        "qwen2.5-coder:7b": ("tags", "json"),
        "llama3.2": ("python_tag", "json"),
        "gemma3": ("json",),
        "gpt-5.5": (),
        "claude-opus-5": (),
    }
    assert catalog.profile("local:mystery").text_calls == ALL_FORMS
    assert catalog.profile("openrouter:mystery").text_calls == ()
