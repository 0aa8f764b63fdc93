"""What the formats of APIs share that know functions only: tools, calls and media.

Owns the flat name of a tool (`namespace__name`), how a freeform tool becomes a function with
one string, and the order that these APIs demand: nothing stands between calls and their
outputs. Invariants: reading a call back with the same specifications gives the tool that was
meant, under its own name; `StepOrder` takes nothing back that it handed on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct, field

from ...core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    Message,
    Part,
    Reasoning,
    Refusal,
    ToolSearchCall,
    ToolSearchOutput,
    Unknown,
)
from ...core.specs import SPECS, CustomTool, FunctionTool, Grammar, Namespace, ToolSpec
from ...core.wire import UNREADABLE, Json, json_bytes

__all__ = [
    "INPUT",
    "DataUrl",
    "FlatTool",
    "StepOrder",
    "answered_call_id",
    "call_id_of",
    "call_item",
    "data_url",
    "flat_name",
    "flat_tools",
    "freeform_arguments",
    "freeform_input",
    "part_texts",
]

INPUT = "input"
"""The one argument of a freeform tool."""

_FREEFORM_SCHEMA = Raw(
    json_bytes(
        {
            "type": "object",
            "properties": {INPUT: {"type": "string", "description": "The whole input as text."}},
            "required": [INPUT],
            "additionalProperties": False,
        }
    )
)
_DATA_URL = re.compile(r"(?i)data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")


class FlatTool(Struct, frozen=True, kw_only=True):
    """One tool as a plain function; `name` is its name in the API."""

    name: str
    tool: str
    namespace: str | None = None
    description: str
    parameters: Json
    strict: bool = False
    freeform: bool = False


def flat_tools(tools: tuple[Json, ...]) -> tuple[FlatTool, ...]:
    """Return the functions in `tools`, in order, without what a provider would have to run."""
    flat: list[FlatTool] = []
    for encoded in tools:
        spec = SPECS.decode(encoded)
        if isinstance(spec, Namespace):
            members = (_flat_tool(member, spec.name) for member in spec.tools)
            flat += [tool for tool in members if tool is not None]
        elif (tool := _flat_tool(spec, None)) is not None:
            flat.append(tool)
    return tuple(flat)


def flat_name(name: str, namespace: str | None) -> str:
    """Return the name of a tool where there are no namespaces."""
    return f"{namespace}__{name}" if namespace else name


def freeform_arguments(text: str) -> str:
    """Return the arguments that carry a freeform input."""
    return json_bytes({INPUT: text}).decode()


def freeform_input(arguments: str) -> str:
    """Return the freeform input in `arguments`, or all of `arguments` if there is none."""
    try:
        value = msgspec.json.decode(arguments, type=dict[str, object]).get(INPUT)
    except (*UNREADABLE, UnicodeError):
        return arguments
    return value if isinstance(value, str) else arguments


def call_item(
    tools: Mapping[str, FlatTool], name: str, arguments: str, call_id: str
) -> FunctionCall | CustomToolCall:
    """Return a model's call by a flat name as an item of the tool that was meant."""
    tool = tools.get(name)
    if tool is None:
        return FunctionCall(name=name, arguments=arguments, call_id=call_id)
    if tool.freeform:
        text = freeform_input(arguments)
        return CustomToolCall(name=tool.tool, namespace=tool.namespace, input=text, call_id=call_id)
    return FunctionCall(
        name=tool.tool, namespace=tool.namespace, arguments=arguments, call_id=call_id
    )


def _flat_tool(spec: ToolSpec | Unknown, namespace: str | None) -> FlatTool | None:
    match spec:
        case FunctionTool():
            return FlatTool(
                name=flat_name(spec.name, namespace),
                tool=spec.name,
                namespace=namespace,
                description=spec.description,
                parameters=spec.parameters,
                strict=spec.strict,
            )
        case CustomTool():
            return FlatTool(
                name=flat_name(spec.name, namespace),
                tool=spec.name,
                namespace=namespace,
                description=_with_grammar(spec),
                parameters=_FREEFORM_SCHEMA,
                freeform=True,
            )
        case _:
            return None


def _with_grammar(spec: CustomTool) -> str:
    """Return the description with the grammar, which a function cannot enforce."""
    if not isinstance(spec.format, Grammar):
        return spec.description
    grammar = spec.format
    return (
        f"{spec.description}\n\n"
        f"`{INPUT}` must follow this {grammar.syntax} grammar:\n{grammar.definition}"
    )


def call_id_of(item: Item) -> str | None:
    """Return the id by which the call `item` is answered; None for what is no call."""
    match item:
        case FunctionCall() | CustomToolCall():
            return item.call_id
        case LocalShellCall() | ToolSearchCall():
            return item.call_id or item.id
        case _:
            return None


def answered_call_id(item: Item) -> str | None:
    """Return the id of the call that `item` answers; None for what answers none."""
    if isinstance(item, FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput):
        return item.call_id
    return None


class StepOrder(Struct):
    """Puts items into an order in which outputs directly follow their calls.

    It holds back what comes while calls wait for their outputs. `text_after_calls` says
    whether the model's own words may stand after its calls.
    """

    text_after_calls: bool
    _open: set[str] = field(default_factory=set)
    _answering: bool = False
    _held: list[Item] = field(default_factory=list)

    def add(self, item: Item) -> list[Item]:
        """Return the items that may be written now that `item` has come."""
        if (answered := answered_call_id(item)) is not None:
            return self._add_output(item, answered)
        if not self._open:
            return self._begin(item)
        if self._answering or not self._joins(item):
            self._held.append(item)
            return []
        return self._begin(item)

    def copy(self) -> StepOrder:
        """Return an independent order that continues from here."""
        return StepOrder(self.text_after_calls, set(self._open), self._answering, list(self._held))

    def _begin(self, item: Item) -> list[Item]:
        if (call := call_id_of(item)) is not None:
            self._open.add(call)
        return [item]

    def _joins(self, item: Item) -> bool:
        """Return whether `item` belongs to the same model output as the open calls."""
        if call_id_of(item) is not None:
            return True
        is_output = isinstance(item, Reasoning | Unknown) or (
            isinstance(item, Message) and item.role == "assistant"
        )
        return self.text_after_calls and is_output

    def _add_output(self, item: Item, answered: str) -> list[Item]:
        if answered not in self._open:
            if any(call_id_of(held) == answered for held in self._held):
                self._held.append(item)
            return []
        self._open.discard(answered)
        self._answering = bool(self._open)
        return [item] if self._open else [item, *self._release()]

    def _release(self) -> list[Item]:
        held, self._held = self._held, []
        return [released for item in held for released in self.add(item)]


class DataUrl(Struct, frozen=True):
    """The parts of a data URL: a media type and base64."""

    mime: str
    data: str


def data_url(url: str) -> DataUrl | None:
    """Return the parts of a base64 data URL; None for any other URL."""
    found = _DATA_URL.match(url)
    if found is None:
        return None
    return DataUrl((found[1] or "application/octet-stream").lower(), url[found.end() :])


def part_texts(parts: tuple[Part, ...]) -> list[str]:
    """Return the texts in `parts`, refusals included; empty ones too."""
    return [
        part.refusal if isinstance(part, Refusal) else getattr(part, "text", "") for part in parts
    ]
