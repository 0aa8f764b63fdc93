"""Drivers of transport: the parameters of requests, as decided and as sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from ....context.head import Choices
from ....core.errors import ConfigError
from ....core.loopback import LoopbackRequest
from ....core.typed import convert
from ....core.wire import json_bytes
from ....harness.events import NoticeRaised, TurnCompleted
from ....models.catalog import Catalog
from ....models.contract import Capabilities
from ....models.profile import ModelProfile
from ....models.providers import ProviderConfig
from ....policy.effort import turn_effort, wire_effort
from ....policy.target import Target
from ....policy.transport import asked_of, canonical, extra_params, resolve
from ....tools.decorator import tool
from ...script import Answer, Script
from ...scripted import ScriptedModel
from ..fixture import SECRET, MatrixFixture, answers

__all__ = [
    "adapter",
    "defaults",
    "efforts",
    "resolve_params",
    "settings",
    "spelling",
    "turn",
]

Given: TypeAlias = Mapping[str, Any]


async def defaults(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the default parameters of models."""
    del fixture
    found = [extra_params(_profile(name), _target(name)) for name in given["models"]]
    return {"params": ["none" if each is None else each for each in found]}


async def spelling(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return parameters in their canonical spelling."""
    del fixture
    once = canonical(given["params"])
    return {"params": once, "stable": canonical(once) == once}


async def settings(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the parameters that settings give a model."""
    del fixture
    provider, _, model = given["model"].partition(":")
    return {"params": asked_of(given["params"], provider, model)}


async def efforts(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the effort that each level means, for Codex and in our requests."""
    del fixture
    profile = _profile(given["model"])
    if "declared" in given:
        profile = profile.override(efforts=tuple(given["declared"]))
    levels: Sequence[str] = given["levels"]
    return {
        "codex": [turn_effort(profile, level) or "" for level in levels],
        "treadle": [wire_effort(profile, level) or "" for level in levels],
    }


async def resolve_params(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the parameters that follow from choices, or the error."""
    del fixture
    choices = convert(given.get("choices", {}), Choices)
    name, harness = given["model"], given.get("harness", "treadle")
    target = msgspec.structs.replace(_target(name, harness), api=given.get("api", "responses"))
    try:
        params = resolve(_profile(name), target, choices, given.get("params"))
    except ConfigError as error:
        return {"error": str(error)}
    fields = msgspec.structs.asdict(params)
    return {"error": "", **{name: _UNSET_PARAM if v is None else v for name, v in fields.items()}}


async def turn(given: Given, fixture: MatrixFixture) -> Given:
    """Run turns with choices; return the parameters of their requests, or why there was none."""
    fixture.play(*answers(given))
    wishes: Sequence[Given] = given.get("wishes", ({},))
    statuses: list[str] = []
    errors: list[str] = []
    notices: list[str] = []
    async with fixture.open_thread(**_thread_options(given, fixture)) as thread:
        for each in wishes:
            thread.log.setup.choices = convert(each, Choices)
            try:
                events = await fixture.run_turn(thread, "Go on.")
            except ConfigError as error:
                statuses.append("refused")
                errors.append(str(error))
                continue
            notices += [event.text for event in events if isinstance(event, NoticeRaised)]
            end = events[-1]
            assert isinstance(end, TurnCompleted)
            statuses.append(end.status)
    return {
        "statuses": statuses,
        "errors": errors,
        "notices": notices,
        "searches": [_offers_search(asked) for asked in fixture.requests],
        **{
            field: [_request_value(asked, field) for asked in fixture.requests] for field in _FIELDS
        },
    }


def _offers_search(asked: LoopbackRequest) -> bool:
    """Return whether a request offers the search that its provider runs."""
    return any(tool.get("type") == "web_search" for tool in asked.payload.get("tools", ()))


async def adapter(given: Given, fixture: MatrixFixture) -> Given:
    """Run a turn with a host's own model, which says what it can do and what its API takes."""
    script = Script(answers=(Answer(text="{}" if "schema" in given else "Done."),))
    model = _HostModel(script, given.get("metadata", {}), Capabilities(**given["takes"]))
    statuses: list[str] = []
    schema = Raw(json_bytes(given["schema"])) if "schema" in given else msgspec.UNSET
    async with fixture.open_thread(
        model=model, choices=convert(given["wishes"], Choices)
    ) as thread:
        try:
            end = (await fixture.run_turn(thread, "Go on.", schema=schema))[-1]
            assert isinstance(end, TurnCompleted)
            statuses.append(end.status)
        except ConfigError:
            statuses.append("refused")
        window = thread.log.setup.profile.context_window
    await model.close()
    asked = [each for each in model.requests if each.method == "POST"]
    return {
        "statuses": statuses,
        "window": window,
        "keyed": ["prompt_cache_key" in each.payload for each in asked],
        "freeform": [
            sum(tool["type"] == "custom" for tool in each.payload["tools"]) for each in asked
        ],
        **{field: [_request_value(each, field) for each in asked] for field in _FIELDS},
    }


class _HostModel(ScriptedModel):
    """A model of a host, with facts of its own."""

    def __init__(self, script: Script, metadata: Mapping[str, object], takes: Capabilities) -> None:
        super().__init__(script, "tiny")
        self.metadata = metadata
        self._takes = takes

    @property
    def name(self) -> str:
        """Return the name of a model that no catalog knows."""
        return "attic:tiny"

    @property
    def capabilities(self) -> Capabilities:
        """Return what the row says."""
        return self._takes


@tool(description="Looks around.", replay_safe=True)
async def look() -> str:
    """See nothing."""
    return "nothing"


def _thread_options(given: Given, fixture: MatrixFixture) -> dict[str, Any]:
    """Return the options of a thread, with a model that has a format of its own if need be."""
    options: dict[str, Any] = {"params": given.get("params")}
    if name := given.get("model"):
        provider = ProviderConfig(base_url=fixture.server.base_url, key=SECRET, retries=0)
        reached = {**fixture.providers, name.partition(":")[0]: provider}
        options |= {"model": name, "providers": reached, "tools": [look]}
    return options


_UNSET_PARAM = "unsaid"
"""Stands for a parameter that a request does not hold."""
_FIELDS = {
    "effort": ("reasoning", "effort"),
    "summary": ("reasoning", "summary"),
    "verbosity": ("text", "verbosity"),
    "parallel": ("parallel_tool_calls",),
    "tier": ("service_tier",),
    "most": ("max_output_tokens",),
    "temperature": ("temperature",),
    "retention": ("prompt_cache_retention",),
    "lifetime": ("prompt_cache_options", "ttl"),
    "one_call": ("tool_choice", "disable_parallel_tool_use"),
}


def _request_value(asked: LoopbackRequest, field: str) -> Any:
    """Return the value of a parameter in a request."""
    value: Any = asked.payload
    for name in _FIELDS[field]:
        value = value.get(name) if isinstance(value, dict) else None
    return _UNSET_PARAM if value is None else value


def _profile(name: str) -> ModelProfile:
    return Catalog.load().profile(name)


def _target(name: str, harness: str = "treadle") -> Target:
    profile = _profile(name)
    return Target(
        provider=profile.provider,
        model=profile.slug,
        native=True,
        harness=harness,
        told=_told_params(harness),
    )


def _told_params(harness: str) -> tuple[str, ...] | None:
    """Return the parameters that a harness can be told; None where the request is ours."""
    if harness != "codex":
        return None
    from ....harness.codex.harness import CODEX_TRAITS

    return tuple(sorted(CODEX_TRAITS.params or ()))
