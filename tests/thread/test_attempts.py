from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.scenes import call, hear, last, of
from treadle import Thread
from treadle.harness.events import AttemptFailed, TurnCompleted, TurnStarted
from treadle.harness.loop import LoopHarness
from treadle.hooks import Hooks
from treadle.hooks.payloads import OnTurnStart
from treadle.models.providers import ProviderConfig
from treadle.models.retry import Backoff
from treadle.policy.auth.credential import ApiKey
from treadle.policy.auth.credential_store import CredentialStore
from treadle.policy.fallback import Attempt, Tried
from treadle.policy.overlays import Overlays
from treadle.prompt.contributions import Audience, Contribution
from treadle.prompt.prompt_context import PromptContext
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script, ScriptedError
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.decorator import tool

FIRST, SECOND = "alpha:gpt-5.5", "beta:gpt-5.4"
BUSY = Answer(error=ScriptedError(status=500, code="oops", message="it broke"))


@tool(description="Changes the world.")
async def change() -> str:
    return "changed"


@tool(description="Looks at the world.", replay_safe=True)
async def look() -> str:
    return "seen"


class Notes:
    id = "notes"

    def contribute(self, audience: Audience, settings: PromptContext) -> Contribution | None:
        del settings
        return Contribution(dynamic_suffix=f"Notes for {audience.provider}.")


@asynccontextmanager
async def opened(
    place: Path, first: Script, second: Script, **options: Any
) -> AsyncIterator[tuple[Thread, FakeServer, FakeServer]]:
    (place / "project").mkdir(exist_ok=True)
    async with FakeServer(first) as alpha, FakeServer(second) as beta:
        keys: dict[str, Any] = {"key_required": False, "retries": 0}
        providers = {
            "alpha": ProviderConfig(api="responses", base_url=alpha.base_url, **keys),
            "beta": ProviderConfig(api="responses", base_url=beta.base_url, **keys),
            "gamma": ProviderConfig(api="responses", **keys),  # nobody knows where it is
        }
        async with Thread.open(
            **open_keywords(
                model=FIRST,
                home=place / "home",
                cwd=place / "project",
                environ={},
                providers=providers,
                harness=LoopHarness(backoff=Backoff(retries=0)),
                **{"tools": (), "fallbacks": (SECOND,)} | options,
            )
        ) as thread:
            yield thread, alpha, beta


def script(*answers: Answer) -> Script:
    return Script(answers=answers)


async def test_a_model_that_fails_is_followed_by_another_for_this_turn(tmp_path):
    first, second = script(BUSY, Answer(text="back")), script(Answer(text="hello"))
    async with opened(tmp_path, first, second) as (thread, alpha, beta):
        events = await hear(thread, "hi")
        (failed,) = of(events, AttemptFailed)
        assert (failed.tried.model, failed.tried.reason) == (FIRST, "server")
        assert failed.next == Attempt(model=SECOND, final=True)
        (started,) = of(events, TurnStarted)
        assert (failed.harness, failed.harness_reason) == ("treadle", started.harness_reason)
        assert failed.transport == started.transport == "https+sse"
        ended = last(events)
        assert (ended.status, ended.text, len(ended.tried)) == ("completed", "hello", 1)
        assert beta.requests[0].payload["model"] == "gpt-5.4"
        assert thread.model == FIRST
        assert last(await hear(thread, "again")).text == "back"
        assert [len(server.requests) for server in (alpha, beta)] == [2, 1]


async def test_an_answer_that_says_nothing_is_asked_for_elsewhere(tmp_path):
    first, second = script(Answer(reasoning="hm")), script(Answer(text="hello"))
    async with opened(tmp_path, first, second) as (thread, _, _):
        ended = last(await hear(thread, "hi"))
        assert (ended.text, ended.tried[0].code) == ("hello", "reasoning_only_result")
        (turn,) = await thread.store.turns(thread.id)
        assert turn.state == "completed"


async def test_after_something_was_done_nobody_else_is_asked(tmp_path):
    first = script(Answer(calls=(call("change"),)), BUSY)
    async with opened(tmp_path, first, script(), tools=(change,)) as (thread, _, beta):
        ended = last(await hear(thread, "hi"))
        assert (ended.status, ended.tried, beta.requests) == ("failed", (), [])
        assert "it broke" in (ended.error or "")


async def test_after_a_look_somebody_else_may_be_asked(tmp_path):
    first = script(Answer(calls=(call("look"),)), BUSY)
    async with opened(tmp_path, first, script(Answer(text="hello")), tools=(look,)) as found:
        assert last(await hear(found[0], "hi")).text == "hello"


async def test_the_last_error_is_told_with_all_that_was_tried(tmp_path):
    gone = Answer(error=ScriptedError(status=503, message="gone fishing"))
    async with opened(tmp_path, script(BUSY), script(gone)) as (thread, _, _):
        ended = last(await hear(thread, "hi"))
        assert ended.status == "failed"
        assert "gone fishing" in (ended.error or "")
        assert [(each.model, each.reason) for each in ended.tried] == [
            (FIRST, "server"),
            (SECOND, "overloaded"),
        ]


async def test_a_strict_thread_asks_nobody_else(tmp_path):
    async with opened(tmp_path, script(BUSY), script(), strict=True) as (thread, _, beta):
        assert last(await hear(thread, "hi")).status == "failed"
        assert beta.requests == []


async def test_another_profile_is_tried_first_and_the_one_that_failed_rests(tmp_path):
    credentials = CredentialStore(tmp_path / "home", keyring=None)
    for name in ("one", "two"):
        credential = ApiKey(provider="alpha", key=f"sk-{name}")
        credentials.secrets.put(f"alpha:{name}", credential)
    refused = Answer(error=ScriptedError(status=401, message="who are you"))
    first = script(refused, Answer(text="hello"), Answer(text="again"))
    async with opened(tmp_path, first, script(), credentials=credentials) as (thread, alpha, _):
        ended: TurnCompleted = last(await hear(thread, "hi"))
        assert ended.text == "hello"
        assert ended.tried == (
            Tried(
                model=FIRST,
                profile="alpha:one",
                reason="auth",
                code="provider_error",
                error=ended.tried[0].error,
            ),
        )
        assert "sk-" not in ended.tried[0].error
        keys = [request.headers["authorization"] for request in alpha.requests]
        assert keys == ["Bearer sk-one", "Bearer sk-two"]
        await hear(thread, "and again")
        assert alpha.requests[-1].headers["authorization"] == "Bearer sk-two"


async def test_a_candidate_that_cannot_be_asked_is_passed_over_and_recorded(tmp_path):
    first, second = script(BUSY), script(Answer(text="hello"))
    names = ("gamma:gpt-5.5", SECOND)
    async with opened(tmp_path, first, second, fallbacks=names) as (thread, _, _):
        ended = last(await hear(thread, "hi"))
        assert (ended.status, ended.text) == ("completed", "hello")
        assert [(each.model, each.code) for each in ended.tried] == [
            (FIRST, "oops"),
            ("gamma:gpt-5.5", "candidate_unusable"),
        ]
        assert thread.model == FIRST


async def test_a_turn_that_was_broken_off_before_it_was_tried_tells_of_no_attempts(tmp_path):
    hooks = Hooks()
    first, second = script(BUSY), script(Answer(text="hello"))
    async with opened(tmp_path, first, second, hooks=hooks) as (thread, _, _):
        assert len(last(await hear(thread, "hi")).tried) == 1

        async def stop(_: OnTurnStart) -> None:
            thread.interrupt()
            await asyncio.sleep(0)

        hooks.on(OnTurnStart, stop)
        ended = last(await hear(thread, "again"))
        assert (ended.status, ended.tried) == ("interrupted", ())


async def test_whoever_answers_instead_hears_what_is_said_to_its_own_provider(tmp_path):
    first, second = script(BUSY, Answer(text="back")), script(Answer(text="hello"))
    overlays = Overlays((Notes(),))
    async with opened(tmp_path, first, second, overlays=overlays) as (thread, alpha, beta):
        await hear(thread, "hi")
        await hear(thread, "again")
        said = [
            [text for item in request.payload["input"] if "Notes for" in (text := str(item))]
            for request in (*beta.requests, alpha.requests[-1])
        ]
        assert [["beta" in text for text in texts] for texts in said] == [
            [False, True],
            [False, True, False],
        ]
