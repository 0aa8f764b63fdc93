from __future__ import annotations

import asyncio
import json

import pytest

from treadle.models.transport import AsyncTransport
from treadle.policy.auth import AuthError, OAuth, ProfileUnusable, Token
from treadle.policy.auth.oauth import Refresher, parse_tokens
from treadle.policy.auth.secrets import SecretStore

from .scenes import HOUR, Child, Clock, TokenEndpoint, oauth

NAME = "openai:me"


def refresher(home, clock: Clock) -> Refresher:
    return Refresher(SecretStore(home, None), AsyncTransport, clock)


def put(home, credential) -> None:
    SecretStore(home, None).put(NAME, credential)


async def test_a_pair_that_has_ended_is_replaced_and_kept_before_it_is_used(tmp_path):
    clock = Clock()
    async with TokenEndpoint() as endpoint:
        put(tmp_path, oauth(endpoint.url))
        fresh = await refresher(tmp_path, clock).fresh(NAME)
    assert endpoint.asked == [
        {
            "grant_type": "refresh_token",
            "refresh_token": "planted-refresh-0",
            "client_id": "treadle-tests",
        }
    ]
    assert isinstance(fresh, OAuth)
    assert (fresh.access, fresh.refresh) == ("planted-access-1", "planted-refresh-1")
    assert fresh.expires == clock() + HOUR
    assert SecretStore(tmp_path, None).get(NAME) == fresh


async def test_a_good_pair_is_used_as_it_is_and_one_that_ends_in_a_moment_is_not(tmp_path):
    clock = Clock()
    async with TokenEndpoint() as endpoint:
        put(tmp_path, oauth(endpoint.url, expires=clock() + 60_001))
        assert (await refresher(tmp_path, clock).fresh(NAME)).bearer == "planted-access-0"
        clock.at += 1
        assert (await refresher(tmp_path, clock).fresh(NAME)).bearer == "planted-access-1"


async def test_a_pair_that_was_refused_is_replaced_once_for_all_who_were_refused(tmp_path):
    clock = Clock()
    async with TokenEndpoint() as endpoint:
        put(tmp_path, oauth(endpoint.url, expires=clock() + HOUR))
        asking = refresher(tmp_path, clock)
        found = await asyncio.gather(
            *(asking.fresh(NAME, rejected="planted-access-0") for _ in range(8))
        )
    assert ({each.bearer for each in found}, endpoint.number) == ({"planted-access-1"}, 1)


async def test_many_processes_refresh_a_profile_once(tmp_path):
    code = """
import asyncio
from treadle.policy.auth.oauth import Refresher
from treadle.policy.auth.secrets import SecretStore
from treadle.models.transport import AsyncTransport
asking = Refresher(SecretStore(home, None), AsyncTransport, lambda: 1_700_000_000_000)
print(asyncio.run(asking.fresh("openai:me")).bearer)
"""
    async with TokenEndpoint() as endpoint:
        put(tmp_path, oauth(endpoint.url))
        children = [Child(code, tmp_path) for _ in range(4)]
        said = await asyncio.gather(*(child.ended() for child in children))
    assert (said, endpoint.number) == (["planted-access-1\n"] * 4, 1)


async def test_a_process_killed_between_refresh_and_write_leaves_the_old_pair_whole(tmp_path):
    code = """
import asyncio, os
from treadle.policy.auth.oauth import Refresher
from treadle.policy.auth.secrets import SecretStore
from treadle.models.transport import AsyncTransport
class Dies(SecretStore):
    def put(self, *given):
        os.kill(os.getpid(), 9)
asking = Refresher(Dies(home, None), AsyncTransport, lambda: 1_700_000_000_000)
asyncio.run(asking.fresh("openai:me"))
"""
    async with TokenEndpoint() as endpoint:
        old = oauth(endpoint.url)
        put(tmp_path, old)
        child = Child(code, tmp_path)
        await asyncio.to_thread(child.process.communicate, timeout=60)
        assert (child.process.returncode, endpoint.number) == (-9, 1)
        assert SecretStore(tmp_path, None).get(NAME) == old
        endpoint.good = "planted-refresh-0"
        lenient = await refresher(tmp_path, Clock()).fresh(NAME)
        assert lenient.bearer == "planted-access-2"
        put(tmp_path, old)
        with pytest.raises(ProfileUnusable, match=r"answered 400 \('invalid_grant'\)") as caught:
            await refresher(tmp_path, Clock()).fresh(NAME)
    assert caught.value.permanent
    assert "planted" not in str(caught.value)


async def test_an_asker_that_is_cancelled_does_not_lose_the_new_pair(tmp_path):
    reached = asyncio.Event()
    go_on = asyncio.Event()

    async def hold() -> None:
        reached.set()
        await go_on.wait()

    async with TokenEndpoint() as endpoint:
        endpoint.before = hold
        put(tmp_path, oauth(endpoint.url))
        asking = asyncio.create_task(refresher(tmp_path, Clock()).fresh(NAME))
        await reached.wait()
        asking.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert SecretStore(tmp_path, None).get(NAME).bearer == "planted-access-1"


@pytest.mark.parametrize(
    ("status", "body", "permanent"),
    [
        (400, b'{"error": "invalid_grant"}', True),
        (401, b"planted-refresh-0", True),
        (403, b'{"error": "planted refresh 0 is bad"}', True),
        (429, b"{}", False),
        (500, b"<html>planted</html>", False),
        (503, b"", False),
        (200, b"garbage planted", False),
        (200, b"{}", False),
        (200, b'{"access_token": ["planted"]}', False),
        (200, b'{"access_token": "planted\\r\\nX-Injected: 1"}', False),
        (200, b"x" * 300_000, False),
        (200, b"[" * 100_000, False),
    ],
)
async def test_hostile_answers_change_nothing_and_are_not_quoted(tmp_path, status, body, permanent):
    async with TokenEndpoint() as endpoint:
        endpoint.answer = lambda: (status, body)
        old = oauth(endpoint.url)
        put(tmp_path, old)
        with pytest.raises(ProfileUnusable) as caught:
            await refresher(tmp_path, Clock()).fresh(NAME)
    assert caught.value.permanent is permanent
    assert "planted" not in str(caught.value)
    assert SecretStore(tmp_path, None).get(NAME) == old


@pytest.mark.parametrize("said", ["-1", "1e99", "0", "9"])
async def test_an_end_that_makes_no_sense_counts_as_an_hour(tmp_path, said):
    clock = Clock()
    async with TokenEndpoint() as endpoint:
        endpoint.answer = lambda: (
            200,
            b'{"access_token": "fine", "expires_in": %s}' % said.encode(),
        )
        put(tmp_path, oauth(endpoint.url))
        fresh = await refresher(tmp_path, clock).fresh(NAME)
    assert isinstance(fresh, OAuth)
    assert (fresh.expires, fresh.refresh) == (clock() + HOUR, "planted-refresh-0")


async def test_an_endpoint_that_is_down_makes_a_profile_unusable_for_now(tmp_path):
    async with TokenEndpoint() as endpoint:
        gone = endpoint.url
    put(tmp_path, oauth(gone))
    with pytest.raises(ProfileUnusable, match="cannot be reached") as caught:
        await refresher(tmp_path, Clock()).fresh(NAME)
    assert not caught.value.permanent


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https:///x",
        "http://localhost@example.org/",
        "http://example.org/token",
        "ftp://x/y",
        "file:///etc/passwd",
        "https://[",
    ],
)
async def test_tokens_are_sent_only_where_nobody_listens_in(tmp_path, url):
    put(tmp_path, oauth(url))
    with pytest.raises(ProfileUnusable, match="token_url") as caught:
        await refresher(tmp_path, Clock()).fresh(NAME)
    assert caught.value.permanent


async def test_a_token_that_cannot_be_renewed_ends_for_good(tmp_path):
    clock = Clock()
    put(tmp_path, Token(provider="openai", token="planted-token", expires=clock() + 1))
    assert (await refresher(tmp_path, clock).fresh(NAME)).bearer == "planted-token"
    clock.at += 1
    with pytest.raises(ProfileUnusable, match="its token has expired; add it again") as caught:
        await refresher(tmp_path, clock).fresh(NAME)
    assert caught.value.permanent


async def test_nobody_waits_for_ever_for_another_process_that_refreshes(tmp_path):
    async with TokenEndpoint() as endpoint:
        put(tmp_path, oauth(endpoint.url))
        first, second = refresher(tmp_path, Clock()), refresher(tmp_path, Clock())
        second.timeout = 0.0
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            reached.set()
            await go_on.wait()

        endpoint.before = hold
        asking = asyncio.create_task(first.fresh(NAME))
        await reached.wait()
        with pytest.raises(ProfileUnusable, match="for too long"):
            await second.fresh(NAME)
        go_on.set()
        assert (await asking).bearer == "planted-access-1"


def test_tokens_are_read_in_both_spellings():
    url = "https://example.org/token"
    ours = {"access": "a-1", "refresh": "r-1", "expires": 5, "tokenUrl": url, "accountId": "x"}
    theirs = {"access_token": "a-1", "refresh_token": "r-1", "expires_in": 60, "token_url": url}
    expected = OAuth(provider="openai", access="a-1", refresh="r-1", expires=5, token_url=url)
    read = parse_tokens("openai", json.dumps(ours), 0)
    assert read == OAuth(
        provider="openai", access="a-1", refresh="r-1", expires=5, token_url=url, account_id="x"
    )
    read = parse_tokens("openai", json.dumps(theirs), 1000)
    assert (read.expires, read.access, read.token_url) == (61_000, "a-1", expected.token_url)


@pytest.mark.parametrize(
    "text",
    [
        "planted",
        "[]",
        '{"access": 5}',
        '{"access": "planted", "refresh": "planted"}',
        '{"access": "planted", "refresh": "planted", "token_url": "http://example.org"}',
        "[" * 100_000,
    ],
)
def test_a_document_without_tokens_is_refused_without_being_quoted(text):
    with pytest.raises(AuthError) as caught:
        parse_tokens("openai", text, 0)
    assert "planted" not in str(caught.value)


async def test_locks_are_files_of_the_home_and_hold_nothing(tmp_path):
    async with TokenEndpoint() as endpoint:
        put(tmp_path, oauth(endpoint.url))
        await refresher(tmp_path, Clock()).fresh(NAME)
    locks = list((tmp_path / "auth-locks").iterdir())
    assert [path.stat().st_size for path in locks] == [0]
