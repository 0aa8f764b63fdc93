from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.scenes import call, hear, last, of
from tests.policy.auth.scenes import HOUR, TokenEndpoint, oauth
from treadle import Thread
from treadle.core.redact import RedactingFilter
from treadle.harness.events import AttemptFailed
from treadle.harness.loop import LoopHarness
from treadle.models.catalog import Catalog
from treadle.models.contract import AuthFailed
from treadle.models.endpoint import HttpModel
from treadle.models.providers import ProviderConfig
from treadle.models.retry import Backoff
from treadle.policy.auth import ApiKey, CredentialStore, OAuth
from treadle.policy.auth.order import Pin
from treadle.policy.auth.subscription import SUBSCRIPTION_URL
from treadle.policy.routes import Routes
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Break, Script, ScriptedError
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.decorator import tool

MODEL = "alpha:gpt-5.5"
LONG = int(time.time() * 1000) + 24 * HOUR
REFUSED = Answer(error=ScriptedError(status=401, message="who are you"))


@tool(description="Changes the world.")
async def change() -> str:
    return "changed"


def credentials_at(place: Path) -> CredentialStore:
    return CredentialStore(place / "home", keyring=None)


@asynccontextmanager
async def opened(
    place: Path, *answers: Answer, **options: Any
) -> AsyncIterator[tuple[Thread, FakeServer]]:
    (place / "project").mkdir(exist_ok=True)
    async with FakeServer(Script(answers=answers)) as server:
        alpha = ProviderConfig(api="responses", base_url=server.base_url, retries=0)
        given: dict[str, Any] = {
            "model": MODEL,
            "home": place / "home",
            "cwd": place / "project",
            "environ": {},
            "providers": {"alpha": alpha},
            "harness": LoopHarness(backoff=Backoff(retries=0)),
            "tools": (),
        }
        async with Thread.open(**open_keywords(**(given | options))) as thread:
            yield thread, server


def bearers(server: FakeServer) -> list[str]:
    return [each.headers["authorization"].removeprefix("Bearer ") for each in server.requests]


async def test_a_pair_of_tokens_that_is_refused_in_the_middle_of_a_turn_is_renewed(tmp_path):
    credentials = credentials_at(tmp_path)
    answers = (Answer(calls=(call("change"),)), REFUSED, Answer(text="hello"))
    async with TokenEndpoint() as endpoint:
        credentials.secrets.put("alpha:me", oauth(endpoint.url, LONG, "alpha"))
        async with opened(tmp_path, *answers, credentials=credentials, tools=(change,)) as (
            thread,
            server,
        ):
            events = await hear(thread, "hi")
            ended = last(events)
        assert (ended.status, ended.text, ended.tried) == ("completed", "hello", ())
        assert bearers(server) == ["planted-access-0", "planted-access-0", "planted-access-1"]
        assert server.requests[1].body == server.requests[2].body
        assert len(endpoint.asked) == 1


async def test_a_pair_that_is_about_to_end_is_renewed_before_it_is_sent(tmp_path):
    credentials = credentials_at(tmp_path)
    async with TokenEndpoint() as endpoint:
        credentials.secrets.put("alpha:me", oauth(endpoint.url, 1, "alpha"))
        async with opened(tmp_path, Answer(text="hello"), credentials=credentials) as (
            thread,
            server,
        ):
            assert last(await hear(thread, "hi")).text == "hello"
        assert bearers(server) == ["planted-access-1"]


async def test_a_refusal_after_the_first_word_is_not_answered_with_the_request_again(tmp_path):
    credentials = credentials_at(tmp_path)
    cut = Answer(text="hel", cut=Break(events=3))
    async with TokenEndpoint() as endpoint:
        credentials.secrets.put("alpha:me", oauth(endpoint.url, LONG, "alpha"))
        async with opened(tmp_path, cut, Answer(text="hello"), credentials=credentials) as (
            thread,
            server,
        ):
            assert last(await hear(thread, "hi")).status == "failed"
        assert (len(server.requests), endpoint.asked) == (1, [])


async def test_a_provider_that_takes_no_token_is_asked_twice_and_the_next_profile_pays(tmp_path):
    credentials = credentials_at(tmp_path)
    async with TokenEndpoint() as endpoint:
        credentials.secrets.put("alpha:a", oauth(endpoint.url, LONG, "alpha"))
        credentials.secrets.put("alpha:b", ApiKey(provider="alpha", key="sk-planted-b"))
        answers = (REFUSED, REFUSED, Answer(text="hello"))
        async with opened(tmp_path, *answers, credentials=credentials) as (thread, server):
            ended = last(await hear(thread, "hi"))
        assert [(each.profile, each.reason) for each in ended.tried] == [("alpha:a", "auth")]
        assert bearers(server) == ["planted-access-0", "planted-access-1", "sk-planted-b"]


async def test_a_refused_refresh_rests_the_profile_once_and_the_next_one_pays(tmp_path):
    credentials = credentials_at(tmp_path)
    async with TokenEndpoint("another-refresh") as endpoint:
        credentials.secrets.put("alpha:a", oauth(endpoint.url, 1, "alpha"))
        credentials.secrets.put("alpha:b", ApiKey(provider="alpha", key="sk-planted-b"))
        async with opened(tmp_path, Answer(text="hello"), credentials=credentials) as (
            thread,
            server,
        ):
            events = await hear(thread, "hi")
        (failed,) = of(events, AttemptFailed)
        assert (failed.tried.code, failed.tried.reason) == ("profile_unusable", "auth")
        assert bearers(server) == ["sk-planted-b"]
        health = (await asyncio.to_thread(credentials.state.health))["alpha:a"]
        assert health.failures == {"auth_permanent": 1}


async def test_a_model_without_a_key_fails_in_its_turn_where_another_may_answer(tmp_path):
    async with FakeServer(Script(answers=(Answer(text="hello"),))) as server:
        config: dict[str, Any] = {"api": "responses", "base_url": server.base_url}
        providers = {
            "alpha": ProviderConfig(**config),
            "beta": ProviderConfig(**config, key_required=False),
        }
        options: dict[str, Any] = {"providers": providers, "credentials": credentials_at(tmp_path)}
        async with opened(tmp_path, fallbacks=("beta:gpt-5.4",), **options) as (thread, _):
            ended = last(await hear(thread, "hi"))
        assert (ended.text, [each.model for each in ended.tried]) == ("hello", [MODEL])
        async with opened(tmp_path, **options) as (thread, _):
            with pytest.raises(AuthFailed, match="no key for the provider 'alpha'"):
                await hear(thread, "hi")


async def test_reset_and_compaction_let_go_of_a_profile_that_nobody_chose(tmp_path):
    credentials = credentials_at(tmp_path)
    credentials.secrets.put("alpha:a", ApiKey(provider="alpha", key="sk-planted-a"))
    fine = (Answer(text="fine " * 3000), Answer(text="fine", times=0))
    async with opened(tmp_path, *fine, credentials=credentials) as (thread, _):

        async def pin() -> Pin | None:
            return await asyncio.to_thread(credentials.state.pin, thread.id)

        mine = Pin(thread=thread.id, provider="alpha", profile="alpha:a", source="auto")
        await hear(thread, "hi")
        assert await pin() == mine
        await thread.compact()
        assert await pin() is None
        await hear(thread, "hi")
        assert await pin() == mine
        await thread.reset()
        assert await pin() is None
        await credentials.pin(thread.id, "alpha:a")
        await thread.reset()
        kept = await pin()
        assert kept is not None
        assert kept.source == "user"


async def test_loggers_are_guarded_when_a_thread_opens_and_before_each_turn(tmp_path):
    early = logging.getLogger("treadle.of_the_test.early")
    async with opened(tmp_path, Answer(text="fine"), environ={"ALPHA_API_KEY": "sk-x"}) as found:
        assert [type(each) for each in early.filters] == [RedactingFilter]
        late = logging.getLogger("treadle.of_the_test.late")
        await hear(found[0], "hi")
    assert [type(each) for each in late.filters] == [RedactingFilter]


@pytest.mark.parametrize(
    "environ",
    [{}, {"OPENAI_BASE_URL": "https://api.openai.com/v1/"}, {"OPENAI_BASE_URL": ""}],
    ids=["usual", "named", "empty"],
)
async def test_a_subscription_is_asked_at_its_own_address_and_names_its_account(environ):
    found = Routes(thread="thr_1", catalog=Catalog.load(), environ=environ)
    model = found.open_with_account("openai:gpt-5.5", "planted-token", "acct-1")
    assert isinstance(model, HttpModel)
    assert model.endpoint.base_url == SUBSCRIPTION_URL
    assert model.endpoint.headers["chatgpt-account-id"] == "acct-1"
    await model.close()


async def test_a_token_without_an_account_never_leaves_for_openai(tmp_path):
    credentials = credentials_at(tmp_path)
    token = OAuth(provider="openai", access="planted-token", refresh="r", expires=LONG)
    credentials.secrets.put("openai:me", token)
    async with opened(tmp_path, model="openai:gpt-5.5", providers={}, credentials=credentials) as (
        thread,
        _,
    ):
        ended = last(await hear(thread, "hi"))
    assert ended.status == "failed"
    assert "'openai:me' cannot be used: its token names no account" in (ended.error or "")


async def test_an_address_of_the_users_own_is_sent_the_token_and_its_account(tmp_path):
    credentials = credentials_at(tmp_path)
    token = OAuth(
        provider="openai", access="planted-token", refresh="r", expires=LONG, account_id="acct-1"
    )
    credentials.secrets.put("openai:me", token)
    async with FakeServer(Script(answers=(Answer(text="hello"),))) as gateway:
        environ = {"OPENAI_BASE_URL": gateway.base_url}
        async with opened(
            tmp_path,
            model="openai:gpt-5.5",
            providers={},
            credentials=credentials,
            environ=environ,
        ) as (thread, _):
            assert last(await hear(thread, "hi")).text == "hello"
        (request,) = gateway.requests
        assert request.headers["authorization"] == "Bearer planted-token"
        assert request.headers["chatgpt-account-id"] == "acct-1"
