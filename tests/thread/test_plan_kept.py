"""The plan of a thread: made once, and anew when one of its inputs changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from treadle import Hooks, Routing, Thread, ThreadOptions, ToolOptions, tool
from treadle.context.head import Choices
from treadle.hooks.payloads import BeforeToolCall
from treadle.models.providers import ProviderConfig
from treadle.policy.overlays import Overlays
from treadle.prompt.contributions import Contribution
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script

FIRST, SECOND = "alpha:gpt-5.5", "alpha:gpt-5.4"


@tool
def wave() -> str:
    """Wave."""
    return "waved"


class House:
    """An overlay that says something."""

    id = "house"

    def contribute(self, audience: object, settings: object) -> Contribution | None:
        del audience, settings
        return Contribution(stable_prefix="Be brief.")


async def look_away(payload: BeforeToolCall) -> None:
    del payload


def change_options(thread: Thread, **changes: Any) -> None:
    thread.policy.options = thread.policy.options.with_changes(**changes)


def change_routing(thread: Thread, **changes: Any) -> None:
    routing = msgspec.structs.replace(thread.policy.options.routing, **changes)
    change_options(thread, routing=routing)


def change_model(thread: Thread) -> None:
    thread.use(SECOND)


def change_tools(thread: Thread) -> None:
    change_options(thread, tools=ToolOptions(tools=(wave,)))
    thread.policy.offer_tools()


def change_hooks(thread: Thread) -> None:
    hooks = Hooks()
    hooks.on(BeforeToolCall, look_away)
    change_options(thread, hooks=hooks)


def change_overlays(thread: Thread) -> None:
    thread.policy.overlays = Overlays([House()])


def change_choices(thread: Thread) -> None:
    thread.log.setup.choices = Choices(effort="high")


def change_params(thread: Thread) -> None:
    change_routing(thread, params={"alpha": {"parallelToolCalls": False}})


def change_fallbacks(thread: Thread) -> None:
    thread.policy.routes.fallbacks = (SECOND,)


def change_address(thread: Thread) -> None:
    known = thread.policy.routes.providers["alpha"]
    moved = ProviderConfig(api="responses", base_url="https://api.openai.com/v1", key="sk-none")
    assert moved.base_url != known.base_url
    thread.policy.routes.providers = {"openai": moved, "alpha": known}
    thread.use("openai:gpt-5.5")


def change_channels(thread: Thread) -> None:
    change_options(thread, channels={"other": object()})


CHANGES: list[Callable[[Thread], None]] = [
    change_model,
    change_tools,
    change_hooks,
    change_overlays,
    change_choices,
    change_params,
    change_fallbacks,
    change_address,
    change_channels,
]


@asynccontextmanager
async def opened(place: Path) -> AsyncIterator[Thread]:
    async with FakeServer(Script(answers=(Answer(text="Yes."),))) as server:
        alpha = ProviderConfig(
            api="responses", base_url=server.base_url, key_required=False, retries=0
        )
        routing = Routing(environ={}, providers={"alpha": alpha})
        options = ThreadOptions(
            model=FIRST,
            cwd=place,
            home=place / "home",
            tools=ToolOptions(tools=()),
            routing=routing,
        )
        async with Thread.open_with(options) as thread:
            yield thread


async def test_a_plan_is_kept_while_nothing_changes(tmp_path):
    async with opened(tmp_path) as thread:
        async for _ in thread.run("one"):
            pass
        first = thread.plan
        async for _ in thread.run("two"):
            pass
        assert first is not None
        assert thread.plan is first
        assert await thread.foresee() == first


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_a_plan_is_made_anew_when_an_input_changes(tmp_path, change):
    async with opened(tmp_path) as thread:
        before = await thread.foresee()
        assert await thread.foresee() == before
        change(thread)
        assert await thread.foresee() != before
