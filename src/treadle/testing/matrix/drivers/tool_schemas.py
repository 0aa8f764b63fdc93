"""Drivers of schemas: how tools are offered, as decided and as sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from ....context.head import build_head
from ....context.request import RequestEncoder
from ....context.row import Row
from ....core.entries import Draft
from ....core.items import InputText, Message, encode_item
from ....core.specs import FunctionTool, Namespace, ToolSpec
from ....core.wire import json_bytes
from ....harness.events import HarnessReported, NoticeRaised, TurnCompleted
from ....models.catalog import Catalog
from ....policy.build import PlanInputs, build_plan
from ....policy.fallback import Chain
from ....policy.schema import normalise
from ....policy.target import Target, target_of
from ....policy.turn_plan import HarnessPlan
from ....tools.contract import ToolCall, ToolContext, ToolResult
from ..fixture import MatrixFixture, answers
from .sent_requests import find_tool

__all__ = ["normal", "request", "turns"]

Given: TypeAlias = Mapping[str, Any]

_ADDRESSES = {"openai": "https://api.openai.com/v1", "chatgpt": "https://chatgpt.com/backend-api"}
"""Addresses of OpenAI's own, by the names that rows give them."""


async def normal(given: Given, fixture: MatrixFixture | None) -> Given:
    """Normalise specifications for a target, and then again."""
    del fixture
    specs, target = _specs(given["tools"]), _target(given)
    made = normalise(specs, target)
    functions = _functions(made.specs)
    return {
        "names": [each.name for each in functions],
        "schemas": [msgspec.json.decode(each.parameters) for each in functions],
        "strict": [each.strict for each in functions],
        "held": made.strict,
        "same": made.specs is specs,
        "found": [f"{each.tool} {each.code} {each.consequence}" for each in made.diagnostics],
        "stable": normalise(made.specs, target).specs == made.specs,
    }


async def request(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the tools of a request to each of some addresses."""
    del fixture
    bodies = [_body(given, _ADDRESSES.get(each, each)) for each in given["to"]]
    tools = [msgspec.json.decode(body)["tools"] for body in bodies]
    return {
        "schemas": [[tool["parameters"] for tool in each] for each in tools],
        "strict": [[tool["strict"] for tool in each] for each in tools],
        "same": all(each == tools[0] for each in tools),
    }


async def turns(given: Given, fixture: MatrixFixture) -> Given:
    """Run turns with different tools; return what each request offers."""
    events: list[Any] = []
    name, compacted = None, ""
    fixture.play(*answers(given))
    options: dict[str, Any] = {}
    if given.get("compact"):
        # Other engines fold in ways, and at times, of their own; so do providers.
        reached = {
            name: msgspec.structs.replace(config, remote_compaction="none")
            for name, config in fixture.providers.items()
        }
        options = {"engine": "linear", "providers": reached}
    for tools in given["turns"]:
        own = [_SpecTool(each) for each in _specs(tools)]
        async with fixture.open_thread(name, tools=own, **options) as thread:
            name = thread.id
            events += await fixture.run_turn(thread, "Go on.")
            if given.get("compact"):
                compacted = (await thread.compact()).by
    ends = [event for event in events if isinstance(event, TurnCompleted)]
    notices = [event.text for event in events if isinstance(event, NoticeRaised)]
    reported = [event for event in events if isinstance(event, HarnessReported)]
    return {
        "statuses": [end.status for end in ends],
        "offered": [
            [_offered_schema(each, name) for name in given["look_for"]] for each in fixture.requests
        ],
        "warned": [text for text in notices if "schema" in text],
        "threads": [f"{event.what}: {event.reason}" for event in reported],
        "compacted": bool(compacted),
        "tools_stay": len({json_bytes(each.payload["tools"]) for each in fixture.requests}) == 1,
    }


@dataclass(frozen=True, slots=True)
class _SpecTool:
    """A tool with a schema of the row's."""

    spec: ToolSpec
    parallel: bool = False

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        del call, context
        return ToolResult("fine")


def _specs(tools: Sequence[Given]) -> tuple[ToolSpec, ...]:
    return tuple(map(_spec, tools))


def _spec(given: Given) -> ToolSpec:
    """Return a function, or a namespace. `nested` is the depth of its schema."""
    if "members" in given:
        members = tuple(_function(each) for each in given["members"])
        return Namespace(name=given["name"], description="", tools=members)
    return _function(given)


def _function(given: Given) -> FunctionTool:
    return FunctionTool(
        name=given.get("name", "look"),
        description="Looks.",
        strict=given.get("strict", False),
        parameters=Raw(_schema(given)),
    )


def _schema(given: Given) -> bytes:
    if "nested" in given:
        levels = int(given["nested"])
        return b'{"items":' * levels + b"{}" + b"}" * levels
    if "long" in given:
        return json_bytes({"type": "object", "description": "x" * given["long"]})
    return str(given["raw"]).encode() if "raw" in given else json_bytes(given.get("schema", {}))


def _target(given: Given) -> Target:
    model: str = given.get("model", "openai:gpt-5.5")
    address: str = given.get("to", "openai")
    return target_of(
        Catalog.load().profile(model),
        api=given.get("api", "responses"),
        base_url=_ADDRESSES.get(address, address),
        harness=given.get("harness", "treadle"),
    )


def _body(given: Given, address: str) -> bytes:
    model = given.get("model", "openai:gpt-5.5")
    profile, api = Catalog.load().profile(model), given.get("api", "responses")
    plan = build_plan(
        PlanInputs(
            profile=profile,
            api=api,
            base_url=address,
            harness=HarnessPlan(id="treadle"),
            tools=_specs(given["tools"]),
            candidates=Chain(models=(model,)),
        )
    )
    head = plan.head(build_head(profile, instructions="", tools=plan.tools.specs, api=api))
    body = encode_item(Message(role="user", content=(InputText("Go on."),)))
    row = Row.of_draft(Draft(body=body, turn=1, id="itm_1"), 1)
    return RequestEncoder(head).encode([row], epoch=0, upto=1).body


def _functions(specs: Sequence[ToolSpec]) -> list[FunctionTool]:
    found: list[FunctionTool] = []
    for spec in specs:
        members = spec.tools if isinstance(spec, Namespace) else (spec,)
        found += [each for each in members if isinstance(each, FunctionTool)]
    return found


def _offered_schema(asked: Any, name: str) -> Any:
    """Return the schema of a tool in a request; `absent` if it is not offered."""
    tool = find_tool(asked, name)
    return "absent" if tool is None else tool["parameters"]
