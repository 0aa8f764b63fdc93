from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from inline_snapshot import snapshot

from .terminal import Treadle


class Provider(BaseHTTPRequestHandler):
    """Lists models for one key, and gives a new pair for one refresh token."""

    def do_GET(self) -> None:
        good = self.headers["authorization"] in ("Bearer sk-planted-good", "Bearer planted-new")
        self._answer(200 if good else 401, {"data": [], "was": self.headers["authorization"]})

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"]))
        good = b"refresh_token=planted-refresh" in asked
        pair = {"access_token": "planted-new", "refresh_token": "planted-next", "expires_in": 3600}
        self._answer(200 if good else 400, pair if good else {"error": "invalid_grant"})

    def _answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def add(treadle: Treadle, *names: str) -> None:
    for name in names:
        treadle("auth", "add", "openai", "--name", name, stdin=b"sk-planted-key\n")


def pair(url: str, **more: object) -> bytes:
    tokens = {"access": "planted-old", "refresh": "planted-refresh", "expires": 1}
    return json.dumps({**tokens, "token_url": f"{url}/token", **more}).encode()


def test_profiles_of_every_kind_are_kept_and_listed_without_their_secrets(treadle):
    said = [treadle("auth", "add", "openai", stdin=b"sk-planted-key\n")]
    said.append(
        treadle("auth", "add", "openai", "--name", "sub", "--token", stdin=b"planted-token")
    )
    tokens = pair("https://example.org", email="me@example.org")
    said.append(treadle("auth", "add", "anthropic", "--oauth", "--json", stdin=tokens))
    assert said[2].json == {
        "profile": "anthropic:me@example.org",
        "provider": "anthropic",
        "kept": True,
        "place": "file",
    }
    said += [treadle("auth"), treadle("auth", "list", "--json")]
    assert said[3].text == snapshot(
        """\
PROFILE                   KIND     FROM  STATE
anthropic:me@example.org  oauth    file  expired
openai:default            api_key  file  ready
openai:sub                token    file  ready
"""
    )
    assert said[4].json[0] == {
        "profile": "anthropic:me@example.org",
        "provider": "anthropic",
        "kind": "oauth",
        "key": "kept",
        "place": "file",
        "variable": "ANTHROPIC_API_KEY",
        "state": "expired",
        "email": "me@example.org",
        "expires": "1970-01-01T00:00:00Z",
    }
    assert [done for done in said if "planted" in done.text + done.err] == []


def test_what_is_no_secret_is_refused_without_being_shown(treadle):
    said = [
        treadle.refused("auth", "add", "openai", stdin=b"planted with words"),
        treadle.refused("auth", "add", "openai", "--oauth", stdin=b"planted"),
        treadle.refused("auth", "add", "openai", "--oauth", stdin=pair("http://example.org")),
        treadle.refused("auth", "add", "openai", "--name", "../x", stdin=b"planted"),
        treadle.refused("auth", "add", "openai", "--in", "keyring", stdin=b"planted"),
    ]
    assert "planted" not in "".join(said)
    assert "there is no keyring to use" in said[4]
    assert not (treadle.home / "auth.json").exists()
    assert "exclude each other" in treadle.refused(
        "auth", "add", "openai", "--token", "--oauth", code=2
    )


def test_the_order_of_profiles_is_shown_set_and_left_to_treadle_again(treadle):
    assert treadle("auth", "order", "openai").text == (
        "no profiles of openai are known; `treadle auth add openai` stores one\n"
    )
    add(treadle, "a", "b", "c")

    def order(*args: str) -> list[str]:
        return [row["profile"] for row in treadle("auth", "order", "openai", "--json", *args).json]

    assert order() == ["openai:a", "openai:b", "openai:c"]
    assert order("c", "openai:a") == ["openai:c", "openai:a"]
    assert order() == ["openai:c", "openai:a"]
    (treadle.home / "config.toml").write_text('[providers.openai]\nprofiles = ["openai:b"]\n')
    assert order() == ["openai:c", "openai:a"]
    assert order("--clear") == ["openai:b"]
    said = treadle.refused("auth", "order", "openai", "none")
    assert said == "treadle: no profile of openai 'none'; `treadle auth` lists them\n"
    assert "did you mean 'openai'" in treadle.refused("auth", "order", "opnai")


@pytest.mark.usefixtures("worked")
def test_a_thread_is_pinned_and_let_go(treadle):
    add(treadle, "a", "b")
    assert "has no pinned profile" in treadle("auth", "pin", "last").text
    assert "uses openai:b (you chose it)" in treadle("auth", "pin", "last", "openai:b").text
    pin = treadle("auth", "pin", "last", "--json").json
    assert (pin["profile"], pin["source"]) == ("openai:b", "user")
    assert "there is no profile" in treadle.refused("auth", "pin", "last", "openai:none")
    assert "has no pinned profile" in treadle("auth", "pin", "last", "--clear").text


def test_a_provider_is_asked_whether_it_accepts_a_profile(treadle):
    with provider() as url:
        treadle.environ["OPENAI_BASE_URL"] = url
        treadle("auth", "add", "openai", "--name", "good", stdin=b"sk-planted-good")
        treadle("auth", "add", "openai", "--name", "old", "--oauth", stdin=pair(url))
        assert treadle("auth", "test").text == snapshot(
            """\
PROFILE      WORKS  WHY
openai:good  yes    the provider accepts it
openai:old   yes    the provider accepts it
"""
        )
        listed = treadle("auth", "list", "--json").json
        assert [row.get("last_good", False) for row in listed] == [False, True]
        treadle("auth", "add", "openai", "--name", "bad", stdin=b"sk-planted-bad")
        done = treadle.attempt("auth", "test", "openai:bad", "--json")
        assert (done.code, done.json) == (
            1,
            [
                {
                    "profile": "openai:bad",
                    "works": False,
                    "said": "the provider refuses it (401)",
                }
            ],
        )
        broken = pair(url, refresh="planted-other")
        treadle("auth", "add", "openai", "--name", "dead", "--oauth", stdin=broken)
        done = treadle.attempt("auth", "test", "openai:dead")
        assert (done.code, done.err) == (1, "")
        assert "its token endpoint answered 400 ('invalid_grant'); log in again" in done.text
    listed = treadle("auth").text
    assert "openai:bad   api_key  file  cooldown until " in listed
    assert "openai:dead  oauth    file  disabled until " in listed
    assert "planted" not in listed + done.text + done.err
    assert "planted-new" in (treadle.home / "auth.json").read_text()


def test_a_provider_that_is_not_there_leaves_it_unknown(treadle):
    with provider() as url:
        pass
    treadle.environ["OPENAI_BASE_URL"] = url
    add(treadle, "a")
    tried = treadle("auth", "test", "openai:a", "--json").json
    assert [(each["profile"], each["works"]) for each in tried] == [("openai:a", None)]
    assert treadle("auth").lines[1].split() == ["openai:a", "api_key", "file", "ready"]


def test_a_subscriptions_token_is_not_sent_to_the_api_that_keys_pay_for(treadle):
    treadle("auth", "add", "openai", "--token", stdin=b"planted-token")
    (tried,) = treadle("auth", "test", "--json").json
    assert (tried["works"], tried["said"]) == (
        None,
        "a subscription's token is tried by a turn only; nothing was sent",
    )


def test_a_new_secret_starts_in_good_health(treadle):
    with provider() as url:
        treadle.environ["OPENAI_BASE_URL"] = url
        treadle("auth", "add", "openai", stdin=b"sk-planted-bad")
        treadle.attempt("auth", "test")
        assert "cooldown" in treadle("auth").text
        treadle("auth", "add", "openai", stdin=b"sk-planted-good")
        assert "cooldown" not in treadle("auth").text


def test_a_profile_is_removed_by_id_or_by_its_provider_when_it_is_the_only_one(treadle):
    add(treadle, "a", "b")
    said = treadle.refused("auth", "remove", "openai")
    assert said == "treadle: no profile 'openai'; there are openai:a, openai:b\n"
    assert treadle("auth", "remove", "openai:a").text == "removed openai:a\n"
    assert treadle("auth", "remove", "openai").text == "removed openai:b\n"
    assert "no keys are known" in treadle("auth").text


def test_a_keyring_keeps_secrets_when_there_is_one_and_is_said_to_fail_when_it_does(treadle):
    package = treadle.project / "packages"
    package.mkdir()
    (package / "keyring.py").write_text(
        f"""
import json, pathlib
store = pathlib.Path({str(package / "kept.json")!r})
class Backend:
    priority = 5
    def get_password(self, realm, name):
        return json.loads(store.read_text()).get(realm + name) if store.exists() else None
    def set_password(self, realm, name, secret):
        if name == "openai:refused":
            raise RuntimeError(secret)
        store.write_text(json.dumps({{realm + name: secret}}))
    def delete_password(self, realm, name):
        store.unlink()
def get_keyring():
    return Backend()
"""
    )
    treadle.environ["PYTHONPATH"] = str(package)
    done = treadle("auth", "add", "openai", stdin=b"sk-planted-good")
    assert done.text == "stored openai:default in the keyring\n"
    assert "planted" not in (treadle.home / "auth.json").read_text()
    assert "sk-planted-good" in (package / "kept.json").read_text()
    with provider() as url:
        treadle.environ["OPENAI_BASE_URL"] = url
        assert treadle("auth", "test", "--json").json[0]["works"] is True
    done = treadle("auth", "add", "openai", "--name", "refused", stdin=b"sk-planted-other")
    assert done.text == "stored openai:refused in the file\n"
    assert "is stored in a file: the keyring cannot be used" in done.err
    assert "planted" not in done.err
    treadle("auth", "remove", "openai:default")
    assert not (package / "kept.json").exists()
