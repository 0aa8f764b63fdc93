from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.entries import Draft, Flags, FragmentMark
from treadle.core.errors import FragmentError
from treadle.core.items import FunctionCall, InputImage, InputText, Message, encode_item
from treadle.prompt import Fragment, Markers, default_registry
from treadle.prompt.announcements import HookContext, TurnAborted

REGISTRY = default_registry()


def test_markers_match_whatever_the_case_and_the_space_around():
    markers = Markers("<example>", "</example>")
    assert markers.matches("  <EXAMPLE>\nbody\n</Example> \n")
    assert markers.matches("<example></example>")


@pytest.mark.parametrize(
    "text",
    ["", "<example>", "</example>", "a <example></example>", "<example></example> b", "<example/>"],
)
def test_markers_match_only_at_both_ends(text: str):
    assert not Markers("<example>", "</example>").matches(text)


@given(st.text())
@settings(deadline=None)
def test_blank_markers_match_nothing(text: str):
    assert not Markers("", "").matches(text)
    assert not Markers("<a>", " ").matches(text)


@pytest.mark.parametrize(
    ("role", "text", "expected"),
    [
        (
            "user",
            "# AGENTS.md instructions for /r\n\n<INSTRUCTIONS>\nx</INSTRUCTIONS>",
            "agents_md",
        ),
        ("user", "# agents.md instructions\n\n<instructions>x</instructions>", "agents_md"),
        ("user", "# AGENTS.md instructions are what I ask about", None),
        ("user", "# AGENTS.md instructions, ending in </INSTRUCTIONS>", None),
        ("user", "<environment_context>\n  <cwd>/r</cwd>\n</environment_context>", "environment"),
        ("developer", "<environment_context></environment_context>", None),
        ("developer", "<permissions instructions>x</permissions instructions>", "permissions"),
        ("developer", 'Approved command prefix saved:\n- ["ls"]', "approved_prefixes"),
        ("user", "<external_page>x</external_page>", "external_context"),
        ("user", "<external_page>x</external_other>", None),
        ("user", "<subagents>\n- a: b\n</subagents>", "subagents"),
        ("user", "<js_repl_instructions>x</js_repl_instructions>", "js_repl_instructions"),
        ("user", "<user_instructions>\n\nx\n\n</user_instructions>", "user_instructions"),
        ("user", "<goal_context>x</goal_context>", "goal_context"),
        ("developer", "<child_agents_instructions>x</child_agents_instructions>", None),
        ("user", '<hook_prompt hook_run_id="1">go on</hook_prompt>', "hook_prompt"),
        ("developer", "<skills_instructions>x</skills_instructions>", "skills_instructions"),
        ("developer", "<multi_agent_mode>x</multi_agent_mode>", "multi_agent_mode"),
        ("user", "Warning: Your account was flagged for x", "account_warning"),
        ("user", "Warning: apply_patch was requested via shell.", None),
        ("user", "Fix <skill>this</skill> please", None),
        ("assistant", "<skill>x</skill>", None),
    ],
)
def test_imported_texts_are_recognised(role: str, text: str, expected: str | None):
    assert REGISTRY.recognise(role, text) == expected


def test_tags_with_attributes_and_long_warnings_are_recognised():
    goal = '<codex_internal_context source="goal">\nx\n</codex_internal_context>'
    assert REGISTRY.recognise("user", goal) == "codex_internal_context"
    start, end = "Warning: apply_patch was requested via ", "Use the apply_patch tool instead of "
    assert REGISTRY.recognise("user", f"{start}x. {end}exec_command.") == "apply_patch_warning"


def test_what_has_disappeared_is_read_and_never_written():
    written = {cls.markers.start for cls in REGISTRY.fragments if cls.markers}
    gone = {"js_repl_instructions", "child_agents_instructions", "user_instructions"}
    assert not {f"<{tag}>" for tag in gone} & written
    for tag in gone:
        assert REGISTRY.recognise("user", f"<{tag}>x</{tag}>") == tag


def message(role: str, *texts: str) -> Message:
    return Message(role=role, content=tuple(InputText(text=text) for text in texts))


def test_one_recognised_part_makes_a_message_contextual():
    env = "<environment_context></environment_context>"
    assert REGISTRY.is_contextual(message("user", "hello", env))
    assert not REGISTRY.is_contextual(message("user", "hello"))
    assert not REGISTRY.is_contextual(FunctionCall(name="ls", arguments="{}", call_id="c1"))
    picture = Message(role="user", content=(InputImage(image_url="data:image/png;base64,"),))
    assert not REGISTRY.is_contextual(picture)


def test_an_imported_message_names_the_states_it_tells_once():
    told = message(
        "user",
        "<user_instructions>x</user_instructions>",
        "<environment_context></environment_context>",
        "<environment_context></environment_context>",
        "<skill>x</skill>",
    )
    assert REGISTRY.recognise_states(told) == ("agents_md", "environment")


def test_a_fragment_becomes_a_part_a_message_and_an_entry():
    fragment = TurnAborted("Stopped.")
    text = "<turn_aborted>\nStopped.\n</turn_aborted>"
    expected = Message(role="user", content=(InputText(text=text),))
    assert fragment.render() == text
    assert fragment.content_item() == InputText(text=text)
    assert fragment.message() == expected
    assert fragment.input_item() == Draft(
        body=encode_item(expected),
        flags=Flags.CONTEXTUAL,
        fragments=(FragmentMark(id="turn_aborted", part=0),),
    )


def test_a_developer_fragment_has_the_developers_role():
    assert HookContext("x").message() == Message(role="developer", content=(InputText(text="x"),))


def test_a_fragment_without_a_body_says_so():
    class Bodiless(Fragment, frozen=True):
        id = "bodiless"
        role = "developer"

    with pytest.raises(FragmentError, match="Bodiless must define body"):
        Bodiless().render()
