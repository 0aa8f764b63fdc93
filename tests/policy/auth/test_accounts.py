from __future__ import annotations

import pytest

from treadle.policy.auth.accounts import (
    Forwarding,
    Login,
    Requirement,
    check_bound,
    forwarding,
    harness_login,
)
from treadle.policy.auth.accounts import provider_for_auth as alias
from treadle.policy.auth.credential import Kind, Profile, RouteRefused, Source
from treadle.policy.auth.order import ProfileCandidate


def candidate(name: str, kind: Kind = "oauth", source: Source = "auto") -> ProfileCandidate:
    profile = Profile(id=name, provider=name.partition(":")[0], kind=kind)
    return ProfileCandidate(profile=profile, source=source)


def plan(provider: str, harness: str, *found: ProfileCandidate) -> Forwarding:
    return forwarding(provider, harness, found)


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("openai", "openai"),
        ("openai-codex", "openai"),
        ("codex-cli", "openai"),
        ("codex", "codex"),
        (" OpenAI-Codex ", "openai"),
        ("anthropic", "anthropic"),
    ],
)
def test_names_of_one_account_mean_one_provider(name, means):
    assert alias(name) == means


@pytest.mark.parametrize("provider", ["openai", "openai-codex", "codex-cli"])
@pytest.mark.parametrize("profile", ["openai:work", "openai-codex:work"])
@pytest.mark.parametrize("harness", ["treadle", "codex"])
def test_an_account_serves_every_name_of_its_provider_on_both_harnesses(provider, profile, harness):
    found = plan(provider, harness, candidate(profile))
    assert (found.profile, found.mode, found.candidates) == (profile, "oauth", (profile,))
    assert found.harness_provider == ("openai" if harness == "codex" else None)


@pytest.mark.parametrize("profile", ["openai:work", "openai-codex:work"])
def test_models_that_only_codex_reaches_use_accounts_of_openai(profile):
    found = plan("codex", "codex", candidate(profile, source="user"))
    assert found == Forwarding(
        provider_for_auth="codex",
        harness_provider="openai",
        profile=profile,
        source="user",
        mode="oauth",
        candidates=(profile,),
    )


@pytest.mark.parametrize("harness", ["treadle", "codex", "other"])
@pytest.mark.parametrize("provider", ["anthropic", "claude-cli", "deepseek", "openai-proxy"])
def test_a_profile_never_goes_to_another_provider(provider, harness):
    assert plan(provider, harness, candidate("openai:work", source="user")) == Forwarding(
        provider_for_auth=provider
    )


def test_a_foreign_profile_among_the_candidates_is_left_out():
    found = plan("openai", "codex", candidate("anthropic:a"), candidate("openai:b", "api_key"))
    assert (found.profile, found.candidates, found.mode) == ("openai:b", ("openai:b",), "api_key")


def test_another_provider_on_codex_uses_its_own_key():
    found = plan("deepseek", "codex", candidate("deepseek:default", "api_key"))
    assert (found.harness_provider, found.profile) == (None, "deepseek:default")


@pytest.mark.parametrize("source", ["auto", "user"])
def test_who_chose_a_profile_is_told_to_the_harness(source):
    assert plan("openai", "codex", candidate("openai:a", source=source)).source == source


def login(requirement: Requirement, *found: ProfileCandidate, own_home: bool = True) -> Login:
    profiles = [each.profile for each in found]
    allowed = forwarding("openai", "codex", found)
    return harness_login(requirement, allowed, profiles, own_home=own_home)


def test_a_route_paid_by_key_uses_the_key_also_when_oauth_comes_first():
    found = (candidate("openai:me"), candidate("openai:key", "api_key"))
    assert login("api-key", *found) == Login(how="api-key", profile="openai:key")


@pytest.mark.parametrize("kind", ["oauth", "token"])
def test_a_route_paid_by_subscription_uses_a_profile_with_tokens(kind):
    found = (candidate("openai:key", "api_key"), candidate("openai:me", kind))
    assert login("subscription", *found) == Login(how="profile", profile="openai:me")


@pytest.mark.parametrize("requirement", ["api-key", "subscription"])
def test_an_app_server_in_the_user_s_home_keeps_its_own_login(requirement):
    found = (candidate("openai:key", "api_key"), candidate("openai:me"))
    assert login(requirement, *found, own_home=False) == Login(how="native")


def test_a_route_paid_by_key_without_a_key_is_refused():
    with pytest.raises(RouteRefused, match="API-key route of 'openai' has no key; set its var"):
        login("api-key", candidate("openai:me"))


@pytest.mark.parametrize("found", [(), (candidate("openai:key", "api_key"),)])
def test_a_route_paid_by_subscription_without_tokens_is_refused(found, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-decoy-decoy")
    with pytest.raises(RouteRefused, match="needs an oauth or token profile") as caught:
        login("subscription", *found)
    assert "decoy" not in str(caught.value)


def test_a_decoy_that_is_not_forwarded_is_never_used():
    decoy = candidate("openai:decoy", "api_key").profile
    allowed = forwarding("openai", "codex", [candidate("openai:me")])
    with pytest.raises(RouteRefused):
        harness_login("api-key", allowed, [decoy])


def test_a_thread_is_compacted_by_the_profile_that_it_is_bound_to_only():
    forwarding = plan("openai", "codex", candidate("openai:a"))
    for bound in ("", "openai:a"):
        check_bound(bound, forwarding)
    check_bound("openai:b", plan("openai", "codex"))
    with pytest.raises(RouteRefused, match="bound to profile 'openai:b', and 'openai:a' would"):
        check_bound("openai:b", forwarding)
