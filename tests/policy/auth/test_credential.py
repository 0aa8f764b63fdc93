from __future__ import annotations

import pickle

import msgspec
import pytest
from rich.console import Console
from rich.pretty import pretty_repr

from treadle.policy.auth import (
    ApiKey,
    AuthError,
    Credential,
    OAuth,
    Profile,
    ProfileUnusable,
    Token,
    profile_id,
)
from treadle.policy.auth.credential import profile_of, provider_in

SECRETS = ("sk-planted-key", "planted-token", "planted-access", "planted-refresh")
CREDENTIALS: tuple[Credential, ...] = (
    ApiKey(provider="openai", key=SECRETS[0]),
    Token(provider="openai", token=SECRETS[1], expires=5),
    OAuth(
        provider="openai",
        access=SECRETS[2],
        refresh=SECRETS[3],
        expires=7,
        email="me@example.org",
        account_id="acc",
    ),
)


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_a_credential_shows_its_secret_to_nobody_who_prints_it(credential):
    with Console(record=True, quiet=True) as console:
        console.print(credential)
    shown = [repr(credential), str(credential), f"{credential}", pretty_repr(credential)]
    shown += [repr([credential]), console.export_text(), repr(ValueError(credential))]
    assert [text for text in shown if "planted" in text] == []


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_a_credential_survives_its_own_encoding(credential):
    data = msgspec.json.encode(credential)
    assert msgspec.json.decode(data, type=ApiKey | Token | OAuth) == credential
    assert pickle.loads(pickle.dumps(credential)) == credential


def test_what_is_told_of_a_credential_holds_no_secret():
    told = [profile_of(f"openai:{n}", each) for n, each in enumerate(CREDENTIALS)]
    assert told == [
        Profile(id="openai:0", provider="openai", kind="api_key"),
        Profile(id="openai:1", provider="openai", kind="token", expires=5),
        Profile(
            id="openai:2",
            provider="openai",
            kind="oauth",
            expires=7,
            email="me@example.org",
            account_id="acc",
        ),
    ]
    assert "planted" not in repr(told)
    assert [each.is_expired(6) for each in told] == [False, True, False]


def test_credentials_are_written_in_the_common_spelling():
    assert msgspec.to_builtins(CREDENTIALS[2]) == {
        "type": "oauth",
        "provider": "openai",
        "access": "planted-access",
        "refresh": "planted-refresh",
        "expires": 7,
        "email": "me@example.org",
        "accountId": "acc",
    }


def test_an_id_is_a_provider_and_a_name():
    assert profile_id("openai") == "openai:default"
    assert profile_id("openai", "me+x@example.org") == "openai:me+x@example.org"
    assert provider_in("openai:me@example.org") == "openai"


@pytest.mark.parametrize(
    ("provider", "name"),
    [("", "a"), ("a", ""), ("a b", "c"), ("a", "../x"), ("a", "x\n"), ("a:b", "c"), ("a", "é")],
)
def test_what_can_be_no_id_is_refused_with_what_can(provider, name):
    with pytest.raises(AuthError, match="use letters, digits"):
        profile_id(provider, name)


def test_an_unusable_profile_says_which_one_and_whether_waiting_helps():
    error = ProfileUnusable("openai:work", "its token has expired; add it again", permanent=True)
    assert (error.profile, error.permanent) == ("openai:work", True)
    assert str(error) == (
        "profile 'openai:work' cannot be used: its token has expired; add it again"
    )
