from __future__ import annotations

import msgspec
import pytest

from treadle import Routing, sync
from treadle.core.errors import ConfigError
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
from treadle.models.contract import AuthFailed
from treadle.policy.auth import ApiKey, CredentialStore, Token
from treadle.policy.turn_plan import Authority, TurnPlan
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer
from treadle.testing.thread_keywords import open_keywords
from treadle.thread.thread import Thread


async def foreseen(tmp_path, **options) -> TurnPlan:
    async with Thread.open(
        **open_keywords(cwd=tmp_path, home=tmp_path / "home", **options)
    ) as thread:
        plan = await thread.foresee()
        assert (thread.plan, thread.view.upto) == (None, 0)
        return plan


async def test_what_was_foreseen_is_what_the_turn_goes_by(tmp_path):
    model = ScriptedModel([Answer(text="Done.")])
    async with Thread.open(model=model, cwd=tmp_path, home=tmp_path / "home") as thread:
        plan = await thread.foresee()
        async for _ in thread.run("go"):
            pass
        assert thread.plan == plan == await thread.foresee()
    await model.close()


async def test_a_missing_key_is_told_and_the_turn_says_the_same(tmp_path):
    async with Thread.open(
        model="openai:gpt-5.5", cwd=tmp_path, home=tmp_path / "home", routing=Routing(environ={})
    ) as thread:
        plan = await thread.foresee()
        with pytest.raises(AuthFailed) as refused:
            async for _ in thread.run("go"):
                pass
    assert plan.auth == Authority(missing=str(refused.value))
    assert (plan.target.api, plan.target.native) == ("responses", True)


@pytest.mark.parametrize(
    "options",
    [
        {"model": "openai:gpt-5.5", "environ": {"OPENAI_API_KEY": "sk-test"}},
        {"model": "ollama:llama", "environ": {}},
        {"model": "codex:gpt-5.5", "environ": {}},
    ],
    ids=lambda options: options["model"],
)
async def test_nothing_is_missing_where_a_request_can_be_sent(tmp_path, options):
    assert (await foreseen(tmp_path, **options)).auth.missing == ""


SUBSCRIBED = Token(provider="openai", token="opaque", account_id="acc_1")
KEYED = ApiKey(provider="openai", key="sk-planted")


@pytest.mark.parametrize(
    ("given", "decided"),
    [
        (("openai:gpt-5.5", KEYED, "private"), ("api-key", "")),
        (("openai:gpt-5.5", SUBSCRIBED, "private"), ("profile", "")),
        (("openai:gpt-5.5", SUBSCRIBED, "user"), ("native", "")),
        (("openai:gpt-5.5", KEYED, "user"), ("api-key", "")),
        (("codex:gpt-5.5", SUBSCRIBED, "private"), ("profile", "")),
        (("codex:gpt-5.5", KEYED, "private"), ("", "the subscription route of 'openai' needs")),
    ],
)
async def test_how_codex_will_sign_in_is_decided_in_the_plan(tmp_path, given, decided):
    (model, credential, home), (login, missing) = given, decided
    environ = {"PATH": "", "HOME": str(tmp_path)}
    credentials = CredentialStore(tmp_path / "home", keyring=None)
    credentials.secrets.put("openai:me", credential)
    codex = CodexHarness(CodexOptions(home=home), home=tmp_path / "home", environ=environ)
    async with Thread.open(
        **open_keywords(
            model=model,
            harness=codex,
            cwd=tmp_path,
            home=tmp_path / "home",
            environ=environ,
            credentials=credentials,
        )
    ) as thread:
        await credentials.pin(thread.id, "openai:me")
        auth = (await thread.foresee()).auth
    assert (auth.profile, auth.login) == ("openai:me", login)
    assert auth.missing.startswith(missing)
    assert bool(auth.missing) is bool(missing)


async def test_a_missing_key_is_told_also_where_others_would_be_asked(tmp_path):
    plan = await foreseen(tmp_path, model="openai:gpt-5.5", fallbacks=("ollama:llama",), environ={})
    assert plan.auth.missing.startswith("no key for the provider 'openai'")
    assert plan.outcome.models == ("openai:gpt-5.5", "ollama:llama")


async def test_parameters_are_looked_up_anew_for_another_model(tmp_path):
    params = {"openai": {"textVerbosity": "high"}, "openai:gpt-5.4": {"verbosity": "medium"}}
    async with Thread.open(
        model="openai:gpt-5.5",
        cwd=tmp_path,
        home=tmp_path / "home",
        routing=Routing(environ={}, params=params),
    ) as thread:
        assert (await thread.foresee()).params.verbosity == "high"
        thread.use("openai:gpt-5.4")
        assert (await thread.foresee()).params.verbosity == "medium"
        routing = Routing(environ={}, params={"gpt-5.4": {"parallelToolCalls": "maybe"}})
        thread.policy.options = thread.policy.options.with_changes(routing=routing)
        with pytest.raises(ConfigError, match="'parallel_tool_calls' cannot be 'maybe'; use true"):
            await thread.foresee()


def test_scripts_foresee_too(tmp_path):
    model = ScriptedModel([])
    with sync.Thread.open(model=model, cwd=tmp_path, home=tmp_path / "home") as thread:
        plan = thread.foresee()
    assert msgspec.json.encode(plan.to_builtins()) == msgspec.json.encode(plan.to_builtins())
    assert plan.harness.reason == "auto_treadle"
