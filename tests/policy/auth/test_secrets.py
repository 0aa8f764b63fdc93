from __future__ import annotations

import json
import os
import stat

import pytest

from treadle.policy.auth import (
    ApiKey,
    AuthError,
    Credential,
    OAuth,
    Profile,
    ProfileUnusable,
    Token,
)
from treadle.policy.auth.secrets import LARGEST_SECRET_FILE, SecretStore, hold_lock, try_lock

from .scenes import Child

KEY = ApiKey(provider="openai", key="sk-planted")


def store(home) -> SecretStore:
    return SecretStore(home, keyring=None)


def write(home, body: str | bytes, mode: int = 0o600) -> None:
    path = home / "auth.json"
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    path.chmod(mode)


def test_credentials_of_every_kind_come_back_as_they_were_put(tmp_path):
    kept: dict[str, Credential] = {
        "openai:default": KEY,
        "openai:sub": Token(provider="openai", token="planted-token", expires=9),
        "anthropic:me@example.org": OAuth(
            provider="anthropic", access="a-planted", refresh="r-planted", expires=5
        ),
    }
    for name, credential in kept.items():
        store(tmp_path).put(name, credential)
    assert {name: store(tmp_path).get(name) for name in kept} == kept
    assert store(tmp_path).profiles() == (
        Profile(id="anthropic:me@example.org", provider="anthropic", kind="oauth", expires=5),
        Profile(id="openai:default", provider="openai", kind="api_key"),
        Profile(id="openai:sub", provider="openai", kind="token", expires=9),
    )


def test_the_file_and_its_home_belong_to_their_owner_only(tmp_path):
    home = tmp_path / "new"
    before = os.umask(0)
    try:
        store(home).put("openai:default", KEY)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.iterdir())}
    assert modes == {"new": 0o700, "auth.json": 0o600, "auth.lock": 0o600}


def test_a_file_of_the_first_version_works_and_is_migrated_without_a_loss(tmp_path):
    write(tmp_path, '{"version":1,"keys":{"openai":"sk-old","odd one":"k-odd"},"note":[1, 2]}')
    assert [each.id for each in store(tmp_path).profiles()] == ["odd one:default", "openai:default"]
    assert store(tmp_path).get("openai:default").bearer == "sk-old"
    untouched = (tmp_path / "auth.json").read_bytes()
    assert b'"keys"' in untouched
    store(tmp_path).put("openai:work", KEY)
    assert json.loads((tmp_path / "auth.json").read_bytes()) == {
        "version": 2,
        "note": [1, 2],
        "realm": "",
        "profiles": {
            "openai:default": {"type": "api_key", "provider": "openai", "key": "sk-old"},
            "odd one:default": {"type": "api_key", "provider": "odd one", "key": "k-odd"},
            "openai:work": {"type": "api_key", "provider": "openai", "key": "sk-planted"},
        },
    }
    assert store(tmp_path).get("openai:default").bearer == "sk-old"


def test_what_a_newer_version_wrote_stays_in_the_file(tmp_path):
    passkey = {"type": "passkey", "provider": "openai", "blob": "x" * 9}
    write(tmp_path, json.dumps({"version": 2, "later": {"a": 1}, "profiles": {"o:p": passkey}}))
    assert store(tmp_path).profiles() == ()
    store(tmp_path).put("openai:default", KEY)
    kept = json.loads((tmp_path / "auth.json").read_bytes())
    assert (kept["profiles"]["o:p"], kept["later"]) == (passkey, {"a": 1})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"sk-planted",
        b"[1]",
        b"\xff\xfe\x00planted",
        b'{"keys": {"openai": 12345}}',
        b'{"profiles": ["sk-planted"]}',
        b'{"version": 99}',
        b'{"version": 2, "profiles": {"openai:default": {"type": "api_key", "key": ["planted"]}}}',
        b'{"version": 2, "profiles": {"openai:default": "planted"}}',
        b"[" * 100_000,
    ],
)
def test_hostile_contents_are_refused_without_being_quoted_or_changed(tmp_path, body):
    write(tmp_path, body)
    with pytest.raises(AuthError, match=r"auth\.json") as caught:
        store(tmp_path).profiles()
    assert "planted" not in str(caught.value)
    assert "12345" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert (tmp_path / "auth.json").read_bytes() == body


def test_a_damaged_profile_can_be_removed_and_replaced(tmp_path):
    damaged = {"openai:default": {"type": "api_key", "key": 5}, "openai:b": {"type": "token"}}
    write(tmp_path, json.dumps({"version": 2, "profiles": damaged}))
    store(tmp_path).put("openai:default", KEY)
    assert store(tmp_path).remove("openai:b")
    assert [each.id for each in store(tmp_path).profiles()] == ["openai:default"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_reach_is_not_used(tmp_path, mode):
    write(tmp_path, '{"version":2}', mode)
    for act in (store(tmp_path).profiles, lambda: store(tmp_path).put("openai:default", KEY)):
        with pytest.raises(AuthError, match="`chmod 600` it"):
            act()


@pytest.mark.parametrize("secret", ["", " ", "two words", "kéy", "a\nX-Injected: 1", "a\x1bb"])
def test_what_can_be_no_secret_is_not_kept(tmp_path, secret):
    for credential in (
        ApiKey(provider="openai", key=secret),
        OAuth(provider="openai", access="fine", refresh=secret, expires=1),
    ):
        with pytest.raises(AuthError, match="that is not a key for 'openai'") as caught:
            store(tmp_path).put("openai:default", credential)
        assert not secret.strip() or secret not in str(caught.value)
    assert not (tmp_path / "auth.json").exists()


def test_a_secret_is_kept_under_its_own_provider_only(tmp_path):
    with pytest.raises(AuthError, match="cannot hold a secret of 'openai'"):
        store(tmp_path).put("anthropic:default", KEY)
    with pytest.raises(AuthError, match="use letters"):
        store(tmp_path).put("openai:../../x", KEY)


def test_a_profile_that_is_not_kept_is_unusable_for_good(tmp_path):
    with pytest.raises(ProfileUnusable, match="it is not stored") as caught:
        store(tmp_path).get("openai:none")
    assert caught.value.permanent
    assert not store(tmp_path).remove("openai:none")


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    code = """
from treadle.policy.auth.secrets import LARGEST_SECRET_FILE, SecretStore, hold_lock, try_lock
from treadle.policy.auth import ApiKey
for n in range(20):
    name = f"openai:{sys.argv[2]}-{n}"
    SecretStore(home, keyring=None).put(name, ApiKey(provider="openai", key="sk-planted"))
"""
    children = [Child(code, tmp_path, (who,)) for who in "abc"]
    for child in children:
        child.end()
    assert len(store(tmp_path).profiles()) == 60
    assert sorted(path.name for path in tmp_path.iterdir()) == ["auth.json", "auth.lock"]


def test_a_writer_that_was_killed_leaves_the_old_file_and_its_remains_are_swept(tmp_path):
    store(tmp_path).put("openai:default", KEY)
    code = """
import os, tempfile
from treadle.policy.auth import ApiKey
from treadle.policy.auth.secrets import SecretStore
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
SecretStore(home, keyring=None).put("openai:new", ApiKey(provider="openai", key="sk-planted-new"))
"""
    child = Child(code, tmp_path)
    child.process.communicate(timeout=60)
    assert child.process.returncode == -9
    assert [path.name for path in tmp_path.glob(".auth.json-*")] != []
    assert [each.id for each in store(tmp_path).profiles()] == ["openai:default"]
    store(tmp_path).put("openai:other", KEY)
    assert [path.name for path in tmp_path.glob(".auth.json-*")] == []


def test_nobody_waits_for_a_lock_for_ever(tmp_path):
    held = try_lock(tmp_path / "auth.lock")
    assert held is not None
    try:
        with (
            pytest.raises(AuthError, match="another process keeps"),
            hold_lock(tmp_path / "auth.lock", timeout=0.05),
        ):
            pass
    finally:
        os.close(held)
    with hold_lock(tmp_path / "auth.lock", timeout=0.0):
        pass


def test_a_lock_that_is_a_link_to_somewhere_else_is_not_followed(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "auth.lock").symlink_to(tmp_path / "target")
    with pytest.raises(AuthError, match="cannot create the lock file"):
        store(tmp_path).put("openai:default", KEY)


def test_a_pipe_or_a_directory_in_the_place_of_the_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "auth.json", 0o600)
    with pytest.raises(AuthError, match="it is not a file"):
        store(tmp_path).profiles()
    (tmp_path / "auth.json").unlink()
    (tmp_path / "auth.json").mkdir()
    with pytest.raises(AuthError, match="it is not a file"):
        store(tmp_path).profiles()


@pytest.mark.parametrize(
    "profile",
    [
        b'{"type":"api_key","provider":"p","key":"\xff"}',
        b'{"type":"oauth","provider":"p","expires":%b}' % (b"9" * 300),
        b'{"type":"token","provider":"p","token":"t","expires":-1}',
        b'{"type":"token","x":%b}' % (b"[" * 900 + b"]" * 900),
        b"5",
    ],
)
def test_a_profile_that_nobody_can_read_is_named(tmp_path, profile: bytes):
    write(tmp_path, b'{"version":2,"profiles":{"p:default":%b}}' % profile)
    with pytest.raises(AuthError, match=r"'p:default' in .* cannot be read; repair or remove it"):
        store(tmp_path).get("p:default")


def test_a_file_that_is_too_large_to_hold_secrets_is_not_read(tmp_path):
    write(tmp_path, b" " * (LARGEST_SECRET_FILE + 1))
    with pytest.raises(AuthError, match="larger than 4,194,304 bytes; repair or remove it"):
        store(tmp_path).profiles()
