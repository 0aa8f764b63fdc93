from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.errors import ConfigError
from treadle.delivery.silence import (
    SilenceFilter,
    could_become_silent,
    is_artifact,
    is_envelope,
    is_silent_text,
    is_token,
    starts_with_token,
    strip_leading_token,
    strip_token,
    strip_trailing_token,
)

OTHER = "HEARTBEAT_OK"

EXACT = [
    "NO_REPLY",
    "  NO_REPLY  ",
    "\n\nNO_REPLY\n",
    "No_Reply",
    "no_reply",
    "NO_REPLY NO_REPLY",
    "NO_REPLY\nNO_REPLY\nNO_REPLY",
    "*NO_REPLY*",
    "**NO_REPLY**",
    "`NO_REPLY`",
    "NO_REPLY.",
    "…NO_REPLY!",
    '"NO_REPLY"',
    '"no_reply"',
    "“NO_REPLY”",
]
ENVELOPES = [
    '{"action":"NO_REPLY"}',
    '{"action": "NO_REPLY"}',
    '  { "action" : " NO_REPLY " }\n',
    '{\n  "action": "NO_REPLY"\n}',
]
REASONED = [
    "think\nNobody asked me, so I should stay silent.NO_REPLY",
    "<think>The two of them are talking.</think>\nNO_REPLY",
    "<think>The two of them are talking.</think>NO_REPLY",
    '<thinking effort="low">Not for me.</thinking>\n\nNO_REPLY',
    "<thinking>hm</thinking> <thought>hm</thought> no_reply",
    "<mm:think>hm</mm:think>NO_REPLY",
    "<antthinking>hm</antthinking>NO_REPLY.",
    "<think>They have it.</think> No reply is needed. NO_REPLY",
    "<think>They have it. I will stay quiet.\nNO_REPLY",
    "<think>NO_REPLY",
    "thinking\nNO_REPLY",
    "Reasoning:\nShe thanked him.\nThere is nothing to add.\nNO_REPLY",
    "analysis\nShe thanked him.\n...\nNO_REPLY",
]
HEARD = [
    "",
    "   ",
    "Here is the answer. NO_REPLY",
    "NO_REPLY but I have more to say",
    "The token NO_REPLY means silence.",
    "I think this is helpful. NO_REPLY",
    "thinking about it. NO_REPLY",
    "think\nFirst this.\nThen that.\nFinal thought.NO_REPLY",
    "<think>hm</think>The answer is 4.\nNO_REPLY",
    "think\nThey ask for a sum.\nHere is the sum: 4.\nNO_REPLY",
    "think\nYou can retry now.\nI should stay silent. NO_REPLY",
    "I should stay silent. NO_REPLY",
    "<think>hm</think>Yes, and no reply is needed. NO_REPLY",
    "😄 NO_REPLY",
    '{"action":"no_reply"}',
    '{"action":"NO_REPLY","why":"x"}',
    '{"Action":"NO_REPLY"}',
    '["NO_REPLY"]',
    '[{"action":"NO_REPLY"}]',
    '```json\n{"action":"NO_REPLY"}\n```',
    '{"action":"NO_REPLY"} and more',
    "NO_REPLIES",
    "NO REPLY",
]


@pytest.mark.parametrize("text", EXACT)
def test_the_token_is_silent_in_each_of_its_forms(text):
    assert is_token(text)
    assert is_silent_text(text)


@pytest.mark.parametrize("text", ENVELOPES)
def test_the_envelope_is_silent_but_is_not_the_token(text):
    assert (is_envelope(text), is_token(text), is_silent_text(text)) == (True, False, True)


@pytest.mark.parametrize("text", REASONED)
def test_a_token_behind_thought_is_silent_as_a_payload_only(text):
    assert (is_silent_text(text), is_token(text)) == (True, False)


@pytest.mark.parametrize("text", HEARD)
def test_everything_else_is_heard(text):
    assert (is_silent_text(text), is_token(text), is_envelope(text)) == (False, False, False)


def test_another_token_has_the_same_forms_and_takes_the_place_of_ours():
    assert is_token("heartbeat_ok.", OTHER)
    assert is_silent_text('{"action":"HEARTBEAT_OK"}', OTHER)
    assert is_silent_text("<think>fine</think>HEARTBEAT_OK", OTHER)
    assert not is_silent_text("All is well. HEARTBEAT_OK", OTHER)
    assert not is_silent_text("NO_REPLY", OTHER)
    assert strip_trailing_token("Fine. HEARTBEAT_OK", OTHER) == "Fine."


@pytest.mark.parametrize("token", ["", "**", "_X", "NO REPLY", "[silent]"])
def test_a_token_that_could_be_punctuation_is_refused(token):
    with pytest.raises(ConfigError, match="cannot be told from an answer"):
        is_token("text", token)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Done. NO_REPLY", "Done."),
        ("Done.\n\nno_reply \n", "Done."),
        ("NO_REPLY is the token", "NO_REPLY is the token"),
        ("😄 NO_REPLY", "😄"),
        ("interject.NO_REPLY", "interject.NO_REPLY"),
        ("NO_REPLY ok NO_REPLY", "NO_REPLY ok"),
        ("NO_REPLY", ""),
        ("  NO_REPLY  ", ""),
        ("**NO_REPLY", ""),
        ("reasoning**NO_REPLY", "reasoning"),
        ("NO", "NO"),
    ],
)
def test_a_trailing_token_is_taken_off_where_it_stands_apart(text, left):
    assert strip_trailing_token(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("NO_REPLYThe user", "The user"),
        ("no_replyThe user", "The user"),
        ("NO_REPLYNO_REPLYThe user", "The user"),
        ("NO_REPLY\nHello", "Hello"),
        ("NO_REPLY  \n\n Hello", "Hello"),
    ],
)
def test_an_answer_is_freed_of_the_token_it_is_glued_to(text, left):
    assert starts_with_token(text)
    assert strip_leading_token(text) == left


@pytest.mark.parametrize(
    "text",
    ["NO_REPLY -- nope", "NO_REPLY: e", "NO_REPLY—note", "NO_REPLY", "NO_REPLY\n", "NO_REPLY but"],
)
def test_a_token_that_an_answer_speaks_of_is_left(text):
    assert not starts_with_token(text)
    assert strip_leading_token(text) == text


def test_tokens_at_both_ends_are_taken_off():
    assert strip_token("NO_REPLYAll is well. NO_REPLY") == "All is well."


def test_marks_of_a_format_and_ruled_lines_are_artifacts():
    assert is_artifact("<|channel|>final<|message|>")
    assert is_artifact("────────\n")
    assert not is_artifact("<|channel|>final answer")
    assert not is_artifact("a ─ b")
    assert not is_artifact("  \n")


SILENT = st.sampled_from([*EXACT, *ENVELOPES, *REASONED, "<|channel|>final<|message|>", "───\n──"])
TEXTS = st.one_of(
    SILENT,
    st.sampled_from(HEARD),
    st.builds(str.__add__, SILENT, st.text(max_size=12)),
    st.text(alphabet='NO_REPLYnothik<>|/{}":acti.* \n', max_size=40),
)


@given(SILENT)
def test_every_beginning_of_a_silent_reply_may_become_one(text):
    assert [could_become_silent(text[:end]) for end in range(len(text) + 1)] == [True] * (
        len(text) + 1
    )


@given(TEXTS, st.lists(st.integers(0, 60), max_size=6))
def test_a_stream_shows_all_of_a_reply_or_nothing_of_a_silent_one(text, cuts):
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    deltas = [text[a:b] for a, b in pairwise(places)]
    stream_filter = SilenceFilter()
    shown = [stream_filter.feed(delta) for delta in deltas]
    early, whole = "".join(shown), "".join((*shown, stream_filter.end()))
    silent = is_silent_text(text) or is_artifact(text)
    assert whole == ("" if silent else text)
    assert text.startswith(early)
    assert stream_filter.pending == ""


@pytest.mark.parametrize(
    "start", ["Hello", "No, ", "The ", '{"answer"', "<div", "Thoughts", "NO_X"]
)
def test_an_answer_is_shown_as_soon_as_it_cannot_be_silent(start):
    stream_filter = SilenceFilter()
    assert (stream_filter.feed(start), stream_filter.feed(" and on"), stream_filter.end()) == (
        start,
        " and on",
        "",
    )


def test_one_filter_serves_one_reply_after_the_other():
    stream_filter = SilenceFilter()
    assert (stream_filter.feed("Hello"), stream_filter.end()) == ("Hello", "")
    assert (stream_filter.feed("NO_"), stream_filter.feed("REPLY"), stream_filter.end()) == (
        "",
        "",
        "",
    )
    assert (stream_filter.feed("NO_"), stream_filter.feed("TE"), stream_filter.end()) == (
        "",
        "NO_TE",
        "",
    )


@pytest.mark.parametrize("text", [*EXACT, *ENVELOPES, *REASONED, "<|channel|>final", "───\n"])
def test_nothing_of_a_silent_reply_is_shown_letter_by_letter(text):
    stream_filter = SilenceFilter()
    assert ("".join(map(stream_filter.feed, text)), stream_filter.end()) == ("", "")


def test_a_long_hostile_text_is_looked_at_in_linear_time():
    for text in (" " * 200_000 + "x", "NO_REPLY " * 20_000 + "x", "*" * 200_000, "<think>" * 5_000):
        assert not is_silent_text(text)
        assert strip_token(text) == text.strip()
