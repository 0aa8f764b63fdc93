from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, field

import pytest

from treadle.core.install import install_command
from treadle.policy.auth import ApiKey, AuthError, OAuth, ProfileUnusable
from treadle.policy.auth.keyring import SystemKeyring, find_keyring
from treadle.policy.auth.secrets import SecretStore

from .scenes import Child

KEY = ApiKey(provider="openai", key="sk-planted")
PAIR = OAuth(provider="openai", access="a-planted", refresh="r-planted", expires=5)


@dataclass
class Backend:
    """A backend as the package `keyring` knows them."""

    kept: dict[tuple[str, str], str] = field(default_factory=dict)
    locked: bool = False

    def get_password(self, realm: str, name: str) -> str | None:
        self._check()
        return self.kept.get((realm, name))

    def set_password(self, realm: str, name: str, secret: str) -> None:
        self._check(secret)
        self.kept[realm, name] = secret

    def delete_password(self, realm: str, name: str) -> None:
        del self.kept[realm, name]

    def _check(self, secret: str = "") -> None:
        if self.locked:
            raise RuntimeError(f"locked, while it was given {secret}")


def store(home, backend: Backend) -> SecretStore:
    return SecretStore(home, SystemKeyring(backend))


@pytest.mark.parametrize("credential", [KEY, PAIR])
def test_a_secret_in_the_keyring_is_not_in_the_file(tmp_path, credential):
    backend = Backend()
    profile = store(tmp_path, backend).put("openai:me", credential)
    assert (profile.place, len(backend.kept)) == ("keyring", 1)
    assert b"planted" not in (tmp_path / "auth.json").read_bytes()
    assert store(tmp_path, backend).get("openai:me") == credential
    assert store(tmp_path, backend).remove("openai:me")
    assert backend.kept == {}


def test_a_secret_stays_where_it_was_unless_it_is_asked_elsewhere(tmp_path):
    backend = Backend()
    SecretStore(tmp_path, None).put("openai:old", KEY)
    assert store(tmp_path, backend).put("openai:old", KEY).place == "file"
    assert store(tmp_path, backend).put("openai:old", KEY, "keyring").place == "keyring"
    assert store(tmp_path, backend).put("openai:old", KEY).place == "keyring"
    assert store(tmp_path, backend).put("openai:old", KEY, "file").place == "file"


def test_a_home_that_is_moved_finds_its_secrets_again_and_homes_do_not_share(tmp_path):
    backend = Backend()
    for home in ("one", "two"):
        store(tmp_path / home, backend).put("openai:me", KEY)
    (tmp_path / "one").rename(tmp_path / "moved")
    assert store(tmp_path / "moved", backend).get("openai:me") == KEY
    assert store(tmp_path / "two", backend).remove("openai:me")
    assert store(tmp_path / "moved", backend).get("openai:me") == KEY


def test_a_keyring_that_fails_lets_the_secret_go_to_the_file_and_says_so(tmp_path, caplog):
    profile = store(tmp_path, Backend(locked=True)).put("openai:me", KEY)
    assert profile.place == "file"
    assert SecretStore(tmp_path, None).get("openai:me") == KEY
    assert "'openai:me' is stored in a file: the keyring cannot be used" in caplog.text
    assert "planted" not in caplog.text


def test_a_keyring_that_was_asked_for_and_fails_is_an_error_without_the_secret(tmp_path):
    with pytest.raises(AuthError, match="failed with RuntimeError; unlock it") as caught:
        store(tmp_path, Backend(locked=True)).put("openai:me", KEY, "keyring")
    assert "planted" not in str(caught.value)
    with pytest.raises(AuthError, match="there is no keyring to use"):
        SecretStore(tmp_path, None).put("openai:me", KEY, "keyring")


def test_a_locked_keyring_makes_its_profiles_unusable_for_now(tmp_path):
    backend = Backend()
    store(tmp_path, backend).put("openai:me", KEY)
    backend.locked = True
    with pytest.raises(ProfileUnusable, match="unlock it") as caught:
        store(tmp_path, backend).get("openai:me")
    assert not caught.value.permanent
    with pytest.raises(ProfileUnusable, match="its secret is in the keyring") as caught:
        SecretStore(tmp_path, None).get("openai:me")
    assert not caught.value.permanent
    with pytest.raises(ProfileUnusable, match="the keyring has lost its secret") as caught:
        store(tmp_path, Backend()).get("openai:me")
    assert caught.value.permanent


def test_without_the_package_it_is_said_how_to_get_it(tmp_path):
    code = "from treadle.policy.auth.keyring import find_keyring\nprint(find_keyring())"
    (tmp_path / "keyring.py").write_text("raise ImportError")
    said = Child(code, tmp_path, path=tmp_path).end()
    assert install_command("keyring") in said


PACKAGE = """
import threading
class Backend:
    priority = {priority}
    def get_password(self, realm, name):
        {answer}
    set_password = delete_password = get_password
def get_keyring():
    return Backend()
"""


def package(tmp_path, answer: str, priority: str = "5") -> None:
    text = PACKAGE.format(answer=answer, priority=priority)
    (tmp_path / "keyring.py").write_text(textwrap.dedent(text))


def test_a_keyring_that_hangs_is_given_up_and_does_not_keep_the_process(tmp_path):
    package(tmp_path, "threading.Event().wait()")
    code = """
from treadle.policy.auth import ApiKey
from treadle.policy.auth.secrets import SecretStore
from treadle.policy.auth.keyring import find_keyring
keyring, why = find_keyring()
keyring.timeout = 0.1
kept = SecretStore(home, keyring).put("openai:me", ApiKey(provider="openai", key="sk-planted"))
print(kept.place)
kept = SecretStore(home, keyring).put("openai:two", ApiKey(provider="openai", key="sk-planted"))
print(kept.place)
"""
    assert Child(code, tmp_path, path=tmp_path).end() == "file\nfile\n"


def test_a_package_without_a_backend_counts_as_none(tmp_path):
    package(tmp_path, "return None", priority="0")
    code = "from treadle.policy.auth.keyring import find_keyring\nprint(find_keyring())"
    assert Child(code, tmp_path, path=tmp_path).end() == (
        "(None, 'no backend works on this machine')\n"
    )


def test_looking_for_a_keyring_gives_one_or_a_reason():
    keyring, why = find_keyring()
    assert (keyring is None) == bool(why)


def test_what_the_file_says_of_a_secret_in_the_keyring(tmp_path):
    store(tmp_path, Backend()).put("openai:me", PAIR)
    assert json.loads((tmp_path / "auth.json").read_bytes())["profiles"] == {
        "openai:me": {"type": "oauth", "provider": "openai", "keyring": True, "expires": 5}
    }
