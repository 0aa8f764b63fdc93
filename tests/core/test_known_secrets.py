from __future__ import annotations

import base64
import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw, Struct

from treadle.core.known_secrets import (
    BLANK,
    KnownSecrets,
    byte_blanker,
    is_unmistakable,
    text_blanker,
)

KEY = "sk-PLANTED-0123456789"
LONGER = f"{KEY}-and-more"
ODD = 'npm_"odd\\0123456'
KNOWN = KnownSecrets([KEY, LONGER, ODD])

WORDS = st.lists(
    st.sampled_from([KEY, LONGER, ODD, KEY[:-1], ODD[1:], "\n", "s", "sk", "n", "\\", '"', " é "])
).map("".join)


def values() -> st.SearchStrategy[object]:
    leaves = st.none() | st.booleans() | st.integers() | WORDS
    return st.recursive(
        leaves, lambda each: st.lists(each, max_size=3) | st.dictionaries(WORDS, each, max_size=3)
    )


def holds_key(value: object) -> bool:
    if isinstance(value, str):
        return any(key in value for key in (KEY, LONGER, ODD))
    if isinstance(value, dict):
        return any(map(holds_key, (*value, *value.values())))
    return isinstance(value, list) and any(map(holds_key, value))


def each_text_blanked(value: object) -> object:
    if isinstance(value, str):
        return KNOWN.blank_text(value)
    if isinstance(value, dict):
        return {each_text_blanked(key): each_text_blanked(value[key]) for key in value}
    return [each_text_blanked(each) for each in value] if isinstance(value, list) else value


@given(WORDS, st.lists(st.integers(0, 200)))
def test_the_borders_of_pieces_hide_nothing(text, borders):
    cuts = sorted({0, len(text), *(min(each, len(text)) for each in borders)})
    pieces = [text[a:b] for a, b in pairwise(cuts)]
    whole = KNOWN.text.sub(text)
    told = text_blanker()
    assert "".join([*(told.feed(each, KNOWN) for each in pieces), told.finish(KNOWN)]) == whole
    data = byte_blanker()
    parts = [data.feed(each.encode(), KNOWN) for each in pieces]
    assert b"".join([*parts, data.finish(KNOWN)]).decode() == whole


@given(WORDS)
def test_no_more_is_held_back_than_the_beginning_of_a_secret(text):
    blanker = text_blanker()
    told = blanker.feed(text, KNOWN)
    held = blanker.finish(None)
    assert not held or any(key.startswith(held) for key in KNOWN.text.wanted)
    assert KNOWN.text.sub(told) == told


@given(values(), st.booleans())
@example({"arguments": json.dumps({"cmd": f"echo {ODD}", "n": "\n" + ODD[1:]})}, True)
@example({"a": json.dumps({"b": json.dumps({"c": ODD})})}, False)
def test_json_stays_json_and_all_else_in_it_stays(value, ascii_only):
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    blanked = KNOWN.blank_json(data)
    assert not holds_key(json.loads(blanked))
    assert json.loads(blanked) == each_text_blanked(value)


def test_numbers_and_blanks_stay_byte_for_byte():
    data = f'{{ "n" : 1.50e+3, "big": 123456789012345678901234567890, "k": "{KEY}" }}'.encode()
    assert KNOWN.blank_json(data) == data.replace(KEY.encode(), BLANK.encode())


@pytest.mark.parametrize("key", [KEY, ODD])
def test_every_letter_may_be_escaped_at_any_depth(key):
    text = "".join(f"\\u{ord(each):04x}" for each in key)
    for _ in range(3):
        text = json.dumps({"x": f"{text}"}) if text.startswith("{") else f'{{"x":"{text}"}}'
        assert json.loads(KNOWN.blank_json(text.encode())) != json.loads(text)
        inner: object = json.loads(KNOWN.blank_json(text.encode()))
        while isinstance(inner, dict):
            inner = inner["x"]
            inner = json.loads(inner) if isinstance(inner, str) and inner[:1] == "{" else inner
        assert inner == BLANK


@pytest.mark.parametrize("user", ["", "u", "me", "you", "user:"])
def test_basic_credentials_hold_no_secret(user):
    coded = base64.b64encode(f"{user}{KEY}!".encode()).decode()
    blanked = KNOWN.blank_text(f"Basic {coded}")
    assert BLANK in blanked
    assert coded[8:20] not in blanked


class Sample(Struct, frozen=True):
    text: str = ""
    body: bytes = b""
    raw: Raw = Raw(b"{}")
    parts: tuple[object, ...] = ()
    named: dict[str, object] = {}
    number: int = 1


def test_a_value_without_secrets_is_the_same_object():
    sample = Sample("a", b'{"b":"\\u0063"}', Raw(b'"c"'), ("d", Sample()), {"e": ["f"]})
    assert KNOWN.blank_value(sample) is sample


def test_a_secret_leaves_every_part_of_a_value():
    inner = Sample(KEY)
    sample = Sample(KEY, json.dumps([KEY]).encode(), Raw(f'"{KEY}"'.encode()), (inner,), {KEY: KEY})
    blanked = KNOWN.blank_value(sample)
    assert KEY not in repr(blanked)
    assert msgspec.json.decode(blanked.raw) == BLANK
    assert blanked.named == {BLANK: BLANK}
    assert blanked.parts == (Sample(BLANK),)


@pytest.mark.parametrize("word", ["ollama", "lm-studio", "not-needed", "changeme", "a1b2c3d"])
def test_words_of_ordinary_texts_are_no_secrets(word):
    assert not is_unmistakable(word)


@pytest.mark.parametrize(
    "secret", ["a1b2c3d4", "sk-proj-4471", "AbCdEfGhIj", "correct horse battery"]
)
def test_what_nobody_writes_by_accident_is_one(secret):
    assert is_unmistakable(secret)
