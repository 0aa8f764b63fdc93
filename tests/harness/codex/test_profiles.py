from __future__ import annotations

import asyncio
import base64
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.harness.codex.scenes import Stage, hear, last, of, open_stage
from tests.harness.codex.test_model import ONLY_CODEX, Asking
from tests.policy.auth.scenes import HOUR, TokenEndpoint
from treadle.core.errors import CannotCompact
from treadle.harness.contract import Identity
from treadle.harness.events import AttemptFailed, Retrying
from treadle.models.providers import ProviderConfig
from treadle.policy.auth import ApiKey, CredentialStore, OAuth, Token
from treadle.policy.auth.accounts import decide_login
from treadle.policy.auth.credential import ProfileUnusable, RouteRefused, profile_of
from treadle.policy.auth.subscription import SUBSCRIPTION_URL
from treadle.testing.script import Answer, Call, ScriptedError
from treadle.tools.decorator import tool

LONG = int(time.time() * 1000) + 24 * HOUR
REFUSED = Answer(error=ScriptedError(status=401, code="token_expired", message="who are you?"))


def jwt(name: str, **claims: Any) -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return ".".join((part({"alg": "none"}), part({"name": name, **claims}), f"planted{name}"))


class JwtEndpoint(TokenEndpoint):
    """Gives pairs whose access is a JWT, as OpenAI's are."""

    def _turn(self, asked: dict[str, str]) -> tuple[int, bytes]:
        status, body = super()._turn(asked)
        if status == 200:
            pair = {**json.loads(body), "access_token": jwt(f"second{self.number}")}
            body = json.dumps(pair).encode()
        return status, body


def credentials_at(stage: Stage, **credentials: ApiKey | Token | OAuth) -> CredentialStore:
    store = CredentialStore(stage.place / "treadle", keyring=None)
    for name, credential in credentials.items():
        store.secrets.put(f"openai:{name}", credential)
    return store


def keyless(stage: Stage) -> dict[str, ProviderConfig]:
    """The server without a key of its own, so that profiles pay."""
    stage.providers = {
        name: structs.replace(config, key=None) for name, config in stage.providers.items()
    }
    stage.harness.servers.providers = stage.providers
    return stage.providers


def subscription(url: str = "", access: str = "", **more: Any) -> OAuth:
    given: dict[str, Any] = {"account_id": "acct-1", "expires": LONG, "client_id": "treadle-tests"}
    return OAuth(
        provider="openai",
        access=access or jwt("first"),
        refresh="planted-refresh-0",
        token_url=url,
        **(given | more),
    )


def bearers(stage: Stage) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in stage.requests]


def files_with(place: Path, *secrets: str) -> list[str]:
    # Codex removes its locks whenever it closes a thread.
    left_out = ("auth.json", "*.lock")
    paths = [path for path in place.rglob("*") if not any(map(path.match, left_out))]
    found = [path for path in paths if path.is_file()]
    return [
        str(path.relative_to(place))
        for path in found
        if any(secret.encode() in path.read_bytes() for secret in secrets)
    ]


@tool(description="Changes the world.")
async def change() -> str:
    return "changed"


async def test_the_key_of_a_profile_pays_and_the_next_one_where_it_is_refused(tmp_path):
    async with open_stage(tmp_path, REFUSED, Answer(text="hello"), Answer(text="again")) as stage:
        keyless(stage)
        keys = {name: ApiKey(provider="openai", key=f"sk-planted-{name}") for name in ("a", "b")}
        credentials = credentials_at(stage, **keys)
        async with stage.thread(credentials=credentials) as thread:
            events = await hear(thread, "hi")
            assert last(events).text == "hello"
            (failed,) = of(events, AttemptFailed)
            assert (failed.tried.profile, failed.tried.reason) == ("openai:a", "auth")
            assert last(await hear(thread, "more")).text == "again"
            binding = await stage.harness.threads.load_binding(thread.log)
        assert bearers(stage) == ["sk-planted-a", "sk-planted-b", "sk-planted-b"]
        assert binding is not None
        assert binding.profile == ""
        assert files_with(tmp_path, "sk-planted-") == []


@pytest.mark.parametrize("kind", ["oauth", "token"])
async def test_a_subscription_signs_the_server_in_and_its_binding_says_as_whom(tmp_path, kind):
    async with open_stage(tmp_path, Answer(text="hello")) as stage:
        keyless(stage)
        credential: OAuth | Token = subscription()
        if kind == "token":
            claims = {"https://api.openai.com/auth": {"chatgpt_account_id": "acct-1"}}
            credential = Token(provider="openai", token=jwt("first", **claims), expires=LONG)
        async with stage.thread(credentials=credentials_at(stage, me=credential)) as thread:
            assert last(await hear(thread, "hi")).text == "hello"
            binding = await stage.harness.threads.load_binding(thread.log)
        (request,) = stage.requests
        assert request.headers["authorization"] == f"Bearer {credential.bearer}"
        assert request.headers["chatgpt-account-id"] == "acct-1"
        assert binding is not None
        assert binding.profile == "openai:me"
        assert files_with(tmp_path, "plantedfirst", "planted-refresh") == []


async def test_a_subscription_that_ends_in_the_middle_of_a_turn_loses_nothing(tmp_path):
    answers = (Answer(calls=(Call(name="change"),)), REFUSED, Answer(text="hello"))
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(JwtEndpoint())
        stage = await stack.enter_async_context(open_stage(tmp_path, *answers))
        keyless(stage)
        credentials = credentials_at(stage, me=subscription(endpoint.url))
        thread = await stack.enter_async_context(
            stage.thread(credentials=credentials, tools=(change,))
        )
        events = await hear(thread, "hi")
        ended = last(events)
        assert (ended.status, ended.text, ended.tried) == ("completed", "hello", ())
        assert len(of(events, Retrying)) == 1
        assert bearers(stage) == [jwt("first"), jwt("first"), jwt("second1")]
        asked = json.dumps(stage.requests[-1].payload["input"])
        assert (asked.count('"hi"'), asked.count("changed")) == (1, 1)
        assert files_with(tmp_path, "plantedfirst", "plantedsecond", "planted-refresh") == []


async def test_a_key_that_was_replaced_meanwhile_is_used_at_once(tmp_path):
    answers = (Answer(calls=(Call(name="replace"),)), REFUSED, Answer(text="hello"))
    async with open_stage(tmp_path, *answers) as stage:
        keyless(stage)
        credentials = credentials_at(stage, me=ApiKey(provider="openai", key="sk-planted-old"))

        @tool(description="Replaces the key.")
        async def replace() -> str:
            new = ApiKey(provider="openai", key="sk-planted-new")
            await asyncio.to_thread(credentials.secrets.put, "openai:me", new)
            return "replaced"

        async with stage.thread(credentials=credentials, tools=(replace,)) as thread:
            ended = last(await hear(thread, "hi"))
        assert (ended.text, ended.tried) == ("hello", ())
        assert bearers(stage) == ["sk-planted-old", "sk-planted-old", "sk-planted-new"]
        asked = json.dumps(stage.requests[-1].payload["input"])
        assert (asked.count('"hi"'), asked.count('"replaced"')) == (1, 1)


async def test_a_subscription_without_an_account_starts_nothing(tmp_path):
    async with open_stage(tmp_path) as stage:
        keyless(stage)
        credentials = credentials_at(stage, me=subscription(access="opaque-token", account_id=""))
        async with stage.thread(credentials=credentials) as thread:
            ended = last(await hear(thread, "hi"))
        assert ended.status == "failed"
        assert "names no account" in (ended.error or "")
        assert (stage.requests, stage.harness.servers.servers) == ([], ())


async def test_profiles_of_others_are_refused_and_a_users_home_keeps_its_login(tmp_path):
    foreign = ApiKey(provider="anthropic", key="sk-planted-foreign")
    async with open_stage(tmp_path) as stage:
        keyless(stage)
        servers = stage.harness.servers
        with pytest.raises(RouteRefused, match="has no key"):
            decide_login("openai", "codex", profile_of("anthropic:me", foreign))
        with pytest.raises(ProfileUnusable, match="nobody has decided"):
            servers.access("openai", Identity(profile="anthropic:me", credential=foreign))
        mine = profile_of("openai:me", subscription())
        kept = decide_login("openai", "codex", mine, keeps_login=True)
        used = decide_login("openai", "codex", mine)
        me = Identity(profile="openai:me", credential=subscription(), login=kept)
        assert servers.access("openai", me).route is None
        servers.providers = {}
        route = servers.access("openai", structs.replace(me, login=used)).route
        assert route is not None
        assert (route.base_url, route.env_key, route.uses_account) == (SUBSCRIPTION_URL, None, True)


async def test_codex_compacts_only_with_the_profile_that_a_thread_is_bound_to(tmp_path):
    async with open_stage(tmp_path, Answer(text="hello")) as stage:
        keyless(stage)
        credentials = credentials_at(stage, a=subscription(), b=subscription(access=jwt("other")))
        async with stage.thread(credentials=credentials) as thread:
            await credentials.pin(thread.id, "openai:a")
            await hear(thread, "hi")
            await credentials.pin(thread.id, "openai:b")
            with pytest.raises(CannotCompact, match="bound to profile 'openai:a'"):
                await thread.compact()
            assert last(await hear(thread, "more")).text == "fine"
            binding = await stage.harness.threads.load_binding(thread.log)
        assert binding is not None
        assert (binding.profile, binding.reason) == ("openai:b", "auth-profile-mismatch")
        assert bearers(stage) == [jwt("first"), jwt("other")]


async def test_a_usage_limit_blocks_a_profile_until_it_resets(tmp_path):
    reset = int(time.time()) + 7200
    body = {"error": {"type": "usage_limit_reached", "message": "spent", "resets_at": reset}}
    headers = {
        "x-codex-primary-used-percent": "100",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": str(reset),
        "content-type": "application/json",
    }
    spent = Answer(error=ScriptedError(status=429, body=json.dumps(body), headers=headers))
    async with open_stage(tmp_path, spent, Answer(text="hello")) as stage:
        keyless(stage)
        credentials = credentials_at(stage, a=subscription(), b=subscription(access=jwt("other")))
        async with stage.thread(credentials=credentials) as thread:
            ended = last(await hear(thread, "hi"))
        assert (ended.text, [each.reason for each in ended.tried]) == ("hello", ["usage_limit"])
        until = (await asyncio.to_thread(credentials.state.health))["openai:a"].blocked_until
        assert abs(until - reset * 1000) < 120_000


async def test_a_chosen_profile_pays_for_models_of_codex_and_for_what_engines_ask_them(tmp_path):
    engine = Asking()
    answers = (Answer(text="a"), Answer(text="It rained."))
    async with open_stage(tmp_path, *answers) as stage:
        credentials = credentials_at(
            stage, me=subscription(), key=ApiKey(provider="openai", key="sk-decoy")
        )
        options: dict[str, Any] = {
            "model": ONLY_CODEX,
            "engine": engine,
            "providers": keyless(stage),
        }
        async with stage.thread(credentials=credentials, **options) as thread:
            await credentials.pin(thread.id, "openai:me")
            assert last(await hear(thread, "one")).status == "completed"
    assert engine.answered == ["It rained."]
    assert bearers(stage) == [jwt("first"), jwt("first")]
