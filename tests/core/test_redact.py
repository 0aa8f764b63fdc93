from __future__ import annotations

import base64
import json
import logging
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.redact import BLANK, RedactingFilter, Redactor, add_secrets, redact, redact_logs

SECRETS = st.text(min_size=6, max_size=40).filter(
    lambda text: len(text.strip()) >= 6 and BLANK not in text
)


@given(SECRETS, st.text(), st.text())
def test_a_known_secret_never_comes_through(secret, before, after):
    said = Redactor([secret])(f"{before}{secret}{after}")
    assert secret.strip() not in said


@given(st.lists(SECRETS, max_size=4), st.text())
def test_redacting_twice_changes_nothing_more(secrets, text):
    redactor = Redactor(secrets)
    once = redactor(" ".join([text, *secrets]))
    assert redactor(once) == once


def test_a_known_secret_is_found_as_programs_spell_it():
    secret = 'pl"anted/secret=1'
    redactor = Redactor([secret])
    spelled = [
        secret,
        quote(secret, safe=""),
        json.dumps({"x": secret}),
        base64.b64encode(secret.encode()).decode(),
    ]
    assert [text for text in map(redactor, spelled) if "anted" in text or "cGwi" in text] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-proj-abcdefgh1234 refused", "key … refused"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer …"),
        ("https://me:pass@host/x", "https://…@host/x"),
        ('{"refresh_token": "abcd1234", "n": 1}', '{"refresh_token": "…", "n": 1}'),
        ('"{\\"api_key\\": \\"abcd1234\\"}"', '"{\\"api_key\\": \\"…\\"}"'),
        ("OPENAI_API_KEY=abcd1234 treadle", "OPENAI_API_KEY=… treadle"),
        ("password: hunter22; next", "password: …; next"),
        ("ghp_abcdefghijkl and xoxb-12345678", "… and …"),
        ("AKIAABCDEFGHIJKLMNOP", "…"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0", "…"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- x", "… x"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text, shown):
    assert Redactor()(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        '"input_tokens": 1900, "cached": true',
        "max_tokens=4096",
        "the token: none",
        "ask-me-anything-about-it",
        "read src/treadle/tokens.py:12 and https://host/path@2x.png",
        "password reset was requested",
    ],
)
def test_what_is_no_secret_stays(text):
    assert Redactor()(text) == text


def test_words_too_short_to_be_secrets_are_left_in_peace():
    redactor = Redactor(["sk", "  ", "", "abcde"])
    assert redactor("ask for abcde") == "ask for abcde"


def test_hostile_text_is_redacted_in_bounded_work():
    for unit in ("eyJ-", "token", "sk-", "-----BEGIN ", "://", "a" * 50 + "_", "key=key="):
        Redactor(["planted-secret"])(unit * 20_000)


def test_a_redactor_forgets_the_oldest_and_shows_none():
    redactor = Redactor(f"planted-{n:06}" for n in range(5000))
    assert "planted" not in repr(redactor)
    assert "planted-004999" not in redactor("planted-004999")


def test_log_records_lose_their_secrets_in_words_arguments_and_tracebacks(caplog):
    add_secrets("planted-in-the-log")
    logger = logging.getLogger("treadle.test_redaction")
    redact_logs()
    redact_logs()
    assert [type(each) for each in logger.filters] == [RedactingFilter]
    try:
        int("planted-in-the-log")
    except ValueError:
        logger.exception("said %s", "planted-in-the-log")
    logger.warning("stack of planted-in-the-log", stack_info=True)
    assert "planted-in-the-log" not in caplog.text
    assert "Traceback" in caplog.text
    assert [record.getMessage() for record in caplog.records] == ["said …", "stack of …"]


def test_every_part_of_the_process_shares_what_is_known():
    add_secrets("planted-everywhere")
    assert redact("it said planted-everywhere twice") == "it said … twice"
