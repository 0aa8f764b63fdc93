from __future__ import annotations

import asyncio
import logging

import pytest

from treadle.core.redact import redact
from treadle.policy.auth import ApiKey, AuthError, CredentialStore, OAuth, ProfileUnusable, Token
from treadle.policy.auth.cooldowns import ProfileHealth, Reason
from treadle.policy.auth.order import Pin, can_rotate, candidates_to_try

from .scenes import HOUR, Child, Clock, TokenEndpoint, everything_in, oauth


def credentials(home, clock: Clock | None = None, **more) -> CredentialStore:
    return CredentialStore(home, clock=clock or Clock(), keyring=None, **more)


def keys(home, *names: str, provider: str = "openai") -> CredentialStore:
    made = credentials(home)
    for name in names:
        made.secrets.put(f"{provider}:{name}", ApiKey(provider=provider, key=f"sk-planted-{name}"))
    return made


async def order(made: CredentialStore, provider: str = "openai", **more) -> list[str]:
    return [each.profile.id for each in await made.resolve(provider, **more)]


async def test_profiles_of_other_providers_are_never_candidates(tmp_path):
    keys(tmp_path, "a", provider="anthropic")
    made = keys(tmp_path, "b")
    assert await order(made) == ["openai:b"]
    assert await order(made, "codex-cli") == ["openai:b"]
    assert await order(made, "mistral") == []


async def test_a_key_in_the_environment_is_a_profile_that_comes_first(tmp_path):
    keys(tmp_path, "a")
    made = credentials(tmp_path, environ={"OPENAI_API_KEY": " sk-from-environ ", "XAI_API_KEY": ""})
    assert await order(made) == ["openai:environment", "openai:a"]
    assert await order(made, "xai") == []
    assert (await made.credential("openai:environment")).bearer == "sk-from-environ"
    assert redact("it was sk-from-environ") == "it was …"
    await made.note_failure("openai:environment", "auth")
    assert await order(made) == ["openai:a", "openai:environment"]
    with pytest.raises(ProfileUnusable, match="XAI_API_KEY is not set"):
        await made.credential("xai:environment")


async def test_a_configured_order_counts_until_one_is_stored(tmp_path):
    keys(tmp_path, "a", "b", "c")
    made = credentials(tmp_path, orders={"openai": ("openai:c", "openai:b")})
    assert await order(made) == ["openai:c", "openai:b"]
    await asyncio.to_thread(made.state.set_order, "openai", ("openai:b",))
    assert await order(made) == ["openai:b"]


async def test_a_thread_keeps_to_the_profile_that_answered_it(tmp_path):
    made = keys(tmp_path, "a", "b")
    await made.note_success("openai:b", thread="t")
    assert await order(made) == ["openai:a", "openai:b"]
    assert await order(made, thread="t") == ["openai:b", "openai:a"]
    await made.release("t")
    assert await order(made, thread="t") == ["openai:a", "openai:b"]


async def test_a_chosen_pin_survives_reset_rotation_and_success_of_another(tmp_path):
    made = keys(tmp_path, "a", "b")
    await made.pin("t", "openai:b")
    await made.release("t")
    await made.note_failure("openai:b", "billing")
    found = await made.resolve("openai", thread="t")
    assert [(each.profile.id, each.source) for each in found] == [
        ("openai:a", "auto"),
        ("openai:b", "user"),
    ]
    await made.note_success("openai:a", thread="t")
    await made.note_success("openai:b")
    assert await order(made, thread="t") == ["openai:b", "openai:a"]


async def test_a_pin_that_nobody_chose_moves_only_when_its_profile_stays_away(tmp_path):
    made = keys(tmp_path, "a", "b")
    await made.note_success("openai:a", thread="t")
    await made.note_failure("openai:a", "overloaded")
    await made.note_success("openai:b", thread="t")
    assert (await asyncio.to_thread(made.state.pin, "t")) == Pin(
        thread="t", provider="openai", profile="openai:a"
    )
    await made.note_failure("openai:a", "billing")
    await made.note_success("openai:b", thread="t")
    assert (await asyncio.to_thread(made.state.pin, "t")) == Pin(
        thread="t", provider="openai", profile="openai:b"
    )


async def test_a_pin_is_let_go_when_its_profile_is_gone_or_the_provider_is_another(tmp_path):
    made = keys(tmp_path, "a", "b")
    keys(tmp_path, "x", provider="anthropic")
    await made.pin("t", "openai:b")
    assert await order(made, "anthropic", thread="t", temporary=True) == ["anthropic:x"]
    assert (await asyncio.to_thread(made.state.pin, "t")) is not None
    await made.note_success("anthropic:x", thread="t")
    assert (await asyncio.to_thread(made.state.pin, "t")) is not None
    assert await order(made, "anthropic", thread="t") == ["anthropic:x"]
    assert (await asyncio.to_thread(made.state.pin, "t")) is None
    await made.pin("t", "openai:b")
    made.secrets.remove("openai:b")
    assert await order(made, thread="t") == ["openai:a"]
    assert (await asyncio.to_thread(made.state.pin, "t")) is None


async def test_a_thread_cannot_be_pinned_to_what_is_not_there(tmp_path):
    with pytest.raises(AuthError, match="there is no profile 'openai:none'; `treadle auth`"):
        await keys(tmp_path, "a").pin("t", "openai:none")


async def test_a_profile_that_expires_in_mid_turn_is_refreshed_before_the_next_request(tmp_path):
    clock = Clock()
    async with TokenEndpoint() as endpoint:
        made = credentials(tmp_path, clock)
        made.secrets.put("openai:me", oauth(endpoint.url, expires=clock() + HOUR))
        sent = [(await made.credential("openai:me")).bearer]
        clock.at += HOUR
        sent.append((await made.credential("openai:me")).bearer)
        sent.append((await made.credential("openai:me", rejected=sent[-1])).bearer)
    assert sent == ["planted-access-0", "planted-access-1", "planted-access-2"]
    assert (await asyncio.to_thread(made.state.health)) == {}


async def test_a_profile_that_cannot_be_refreshed_makes_way_for_the_next(tmp_path):
    clock = Clock()
    async with TokenEndpoint(first="another") as endpoint:
        made = credentials(tmp_path, clock)
        made.secrets.put("openai:me", oauth(endpoint.url, expires=clock() + HOUR))
        made.secrets.put("openai:spare", Token(provider="openai", token="planted-spare"))
        assert await order(made) == ["openai:me", "openai:spare"]
        clock.at += HOUR
        with pytest.raises(ProfileUnusable):
            await made.credential("openai:me")
    assert await order(made) == ["openai:spare", "openai:me"]
    assert (await made.credential("openai:spare")).bearer == "planted-spare"
    assert (await asyncio.to_thread(made.state.health))[
        "openai:me"
    ].disabled_reason == "auth_permanent"


async def test_a_busy_provider_costs_one_rotation_and_an_empty_account_all(tmp_path):
    made = keys(tmp_path, "a", "b", "c")

    async def tried(reason: Reason) -> list[str]:
        used: list[str] = []
        while found := [e for e in await made.resolve("openai", model="m") if e.usable]:
            used.append(found[0].profile.id)
            await made.note_failure(used[-1], reason, model="m")
            if not can_rotate(reason, len(used) - 1):
                break
        return used

    assert await tried("rate_limit") == ["openai:a", "openai:b"]
    assert await tried("billing") == ["openai:c"]
    assert len(candidates_to_try(await made.resolve("openai", model="m"))) == 1


async def test_two_processes_that_rotate_the_same_profiles_agree(tmp_path):
    keys(tmp_path, "a", "b")
    code = """
import asyncio
from treadle.policy.auth import CredentialStore
async def turn(credentials):
    for n in range(15):
        found = await credentials.resolve("openai", thread=sys.argv[2], model="m")
        first = found[0].profile.id
        await credentials.credential(first)
        if first == "openai:a":
            await credentials.note_failure(first, "usage_limit", model="m", retry_after=3600)
        else:
            await credentials.note_success(first, thread=sys.argv[2], model="m")
asyncio.run(turn(CredentialStore(home, clock=lambda: 1_700_000_000_000, keyring=None)))
"""
    children = [Child(code, tmp_path, (name,)) for name in ("t1", "t2")]
    await asyncio.gather(*(child.ended() for child in children))
    made = credentials(tmp_path)
    health = await asyncio.to_thread(made.state.health)
    assert health["openai:a"].blocked_until == 1_700_000_000_000 + HOUR
    assert 1 <= health["openai:a"].failures["usage_limit"] <= 2
    assert health["openai:b"] == ProfileHealth(last_used=1_700_000_000_000)
    assert [(await asyncio.to_thread(made.state.pin, name)) for name in ("t1", "t2")] == [
        Pin(thread=name, provider="openai", profile="openai:b") for name in ("t1", "t2")
    ]


async def test_trouble_with_what_is_remembered_never_fails_a_turn(tmp_path, caplog):
    made = keys(tmp_path, "a")
    (tmp_path / "auth-state.db").mkdir()
    assert await order(made, thread="t") == ["openai:a"]
    assert await made.note_failure("openai:a", "auth") == ProfileHealth()
    await made.note_success("openai:a", thread="t")
    await made.release("t")
    assert "the health of profiles cannot be stored or read" in caplog.text


async def test_no_secret_is_in_any_log_error_state_or_repr(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    async with TokenEndpoint() as endpoint:
        made = keys(tmp_path, "a")
        made.secrets.put("openai:me", oauth(endpoint.url))
        made.secrets.put("openai:t", Token(provider="openai", token="planted-t", expires=1))
        for name in ("openai:me", "openai:a", "openai:t", "openai:none"):
            try:
                said.append(repr(await made.credential(name)))
            except AuthError as error:
                said.append(f"{error} {error!r} {error.args}")
        endpoint.answer = lambda: (500, b"planted-refresh-1 and sk-planted-a")
        with pytest.raises(ProfileUnusable) as caught:
            await made.credential("openai:me", rejected="planted-access-1")
        said.append(repr(caught.value))
        said += [
            repr(made),
            repr(await made.resolve("openai")),
            str(await asyncio.to_thread(made.state.health)),
        ]
    assert [text for text in [*said, caplog.text] if "planted" in text] == []
    files = everything_in(tmp_path)
    assert [name for name, body in files.items() if b"planted" in body] == ["auth.json"]
    assert redact("planted-access-1, planted-refresh-1 and sk-planted-a") == "…, … and …"


async def test_a_refreshed_profile_stays_what_it_was(tmp_path):
    async with TokenEndpoint() as endpoint:
        made = credentials(tmp_path)
        before = oauth(endpoint.url)
        made.secrets.put("openai:me", before)
        after = await made.credential("openai:me")
    assert isinstance(after, OAuth)
    assert (after.token_url, after.client_id) == (before.token_url, before.client_id)
    assert await order(made) == ["openai:me"]
