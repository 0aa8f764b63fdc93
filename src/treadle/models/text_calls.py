"""Calls written as text: models that were asked to call a tool and wrote the call down instead.

Owns the forms that are read, which docs/models.md describes, and how far text is held back while
it may be one. Invariants: a form is read for models whose profile names it only; a call is taken
where it is whole, nothing but calls follows, and its tool is offered; whatever else looks like a
call stays text, with a reason that the model can be told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..core.wire import UNREADABLE, json_bytes

__all__ = ["ALL_FORMS", "HeldText", "TextCall", "WrittenCalls", "find_calls"]

ALL_FORMS = ("tags", "json", "mistral", "python_tag")
"""Every form, for models that nobody knows."""

_TAG, _END, _FUNCTION = "<tool_call>", "</tool_call>", "<function="
_MISTRAL, _PYTHON = "[TOOL_CALLS]", "<|python_tag|>"
_FENCE = re.compile(r"```(?:json|tool_call|tool)?[ \t]*\n?\s*(?=[\[{])")
_FENCE_GROWS = re.compile(r"```[a-z_]*\s*$")
_LAST_FENCE = re.compile(r"```(?:json|tool_call|tool)?[ \t]*\n(?P<inside>\s*[\[{].*?)\n?[ \t]*```")
_TAGGED = re.compile(r"<tool_call>\s*(?=\{|<function=)")
_XML_CALL = re.compile(r"<function=(?P<name>[\w.-]+)>(?P<inside>.*?)</function>", re.DOTALL)
_XML_VALUE = re.compile(r"<parameter=(?P<name>[\w.-]+)>\n?(?P<value>.*?)\n?</parameter>", re.DOTALL)
_LONGEST_NAME = 60


class TextCall(Struct, frozen=True):
    """One call."""

    name: str
    arguments: str
    """An object as JSON."""


class WrittenCalls(Struct, frozen=True):
    """What a text comes to: what was said before the calls, and the calls."""

    said: str
    calls: tuple[TextCall, ...] = ()
    problem: str = ""
    """Why something that looks like a call is none; then all of it was said."""


class _Unusable(Exception):
    """It looks like a call and is none."""


def find_calls(text: str, forms: Iterable[str], tools: Mapping[str, Any]) -> WrittenCalls:
    """Return the calls that a whole message holds; `tools` are schemas by name."""
    for form in forms:
        found = _READERS[form](text)
        if found is None:
            continue
        said, calls = found
        try:
            whole = tuple(_checked(call, tools) for call in calls)
        except _Unusable as error:
            return WrittenCalls(text, problem=str(error))
        if whole:
            return WrittenCalls(said.rstrip(), whole)
    return WrittenCalls(text)


class HeldText:
    """Holds back what may be the beginning of a call, so that users never see one."""

    def __init__(self, forms: Sequence[str], tools: Mapping[str, Any]) -> None:
        self._forms, self._tools = forms, tools
        self._markers = tuple(_markers(forms))
        self._begun = False
        """Something but white space was said."""
        self._held = ""
        self._holds = False

    def feed(self, text: str) -> str:
        """Return what can be shown of all that has come."""
        self._held += text
        if self._holds:
            return ""
        at = self._start()
        self._holds = at is not None
        shown, self._held = self._held[: self._safe(at)], self._held[self._safe(at) :]
        self._begun = self._begun or bool(shown.strip())
        return shown

    def take(self) -> str:
        """Return what is held, and hold it no longer."""
        held, self._held, self._holds = self._held, "", False
        self._begun = self._begun or bool(held.strip())
        return held

    def take_calls(self) -> WrittenCalls:
        """Return what the held text comes to, now that the message is whole."""
        return find_calls(self.take(), self._forms, self._tools)

    def _start(self) -> int | None:
        """Return where a call may begin."""
        found = [self._held.find(marker) for marker in self._markers]
        if "json" in self._forms:
            fence = _FENCE.search(self._held)
            found.append(fence.start() if fence else -1)
            if not self._begun and self._held.lstrip()[:1] in ("{", "["):
                found.append(0)
        return min((at for at in found if at >= 0), default=None)

    def _safe(self, start: int | None) -> int:
        """Return how much can be shown: what is not a marker, nor the first half of one."""
        if start is not None:
            return start
        size = len(self._held)
        if "json" in self._forms:
            if not self._begun and not self._held.strip():
                return 0
            if growing := _FENCE_GROWS.search(self._held):
                size = growing.start()
        markers = (*self._markers, "```") if "json" in self._forms else self._markers
        for marker in markers:
            for length in range(min(len(marker) - 1, len(self._held)), 0, -1):
                if self._held.endswith(marker[:length]):
                    size = min(size, len(self._held) - length)
                    break
        return size


def _markers(forms: Sequence[str]) -> Iterator[str]:
    if "tags" in forms:
        yield from (_TAG, _FUNCTION)
    if "mistral" in forms:
        yield _MISTRAL
    if "python_tag" in forms:
        yield _PYTHON


_Call = tuple[str, Any]
"""A name and arguments, neither of them checked."""


class _Elements(dict[str, Any]):
    """Arguments that were elements: each is text, whatever the tool takes."""


def _checked(call: _Call, tools: Mapping[str, Any]) -> TextCall:
    name, arguments = call
    if name not in tools:
        raise _Unusable(f"there is no tool {name[:_LONGEST_NAME]!r}")
    if isinstance(arguments, str):
        arguments = _decode(arguments)
    if isinstance(arguments, _Elements):
        arguments = {key: _typed(tools[name], key, each) for key, each in arguments.items()}
    if not isinstance(arguments, dict):
        raise _Unusable(f"the arguments of {name!r} are no JSON object")
    return TextCall(name, json_bytes(arguments).decode())


def _typed(schema: Any, name: str, value: str) -> Any:
    """Return the value of an element as its tool takes it."""
    kind = schema.get("properties", {}).get(name, {}).get("type")
    return value if kind in (None, "string") else _decode(value)


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip())
    except (*UNREADABLE, ValueError) as error:
        raise _Unusable(f"its JSON cannot be read ({error})") from error


def _json_call(value: Any) -> _Call | None:
    """Return the call that a JSON value is, in the shapes that models use; else None."""
    if not isinstance(value, dict):
        return None
    value = value["function"] if isinstance(value.get("function"), dict) else value
    inside = {"arguments", "parameters"} & value.keys()
    name = value.get("name")
    if len(inside) != 1 or not isinstance(name, str) or value.keys() - {
        "name", "id", "type", *inside
    }:  # fmt: skip
        return None
    return name, value[inside.pop()]


def _json_calls(text: str, *, surely: bool) -> list[_Call] | None:
    """Return the calls that a JSON text is; None where it is other JSON, unless it is `surely`."""
    try:
        value = _decode(text)
    except _Unusable:
        if surely:
            raise
        return None
    found = [_json_call(each) for each in (value if isinstance(value, list) else [value])]
    calls = [each for each in found if each is not None]
    if len(calls) == len(found) and calls:
        return calls
    if surely:
        raise _Unusable("it needs the keys name and arguments, and no others")
    return None


def _read_tags(text: str) -> tuple[str, Iterable[_Call]] | None:
    """Hermes and Qwen: calls between tags, as JSON or as elements."""
    if found := _TAGGED.search(text):
        return text[: found.start()], _tagged_calls(text[found.start() :])
    if found := _XML_CALL.search(text):
        return text[: found.start()], _xml_calls(text[found.start() :])
    return None


def _tagged_calls(text: str) -> Iterator[_Call]:
    while text.strip():
        if not text.lstrip().startswith(_TAG):
            raise _Unusable("text follows the call")
        inside, _, text = text.lstrip()[len(_TAG) :].partition(_END)
        if inside.lstrip().startswith(_FUNCTION):
            yield from _xml_calls(inside)
        else:
            yield from _json_calls(inside, surely=True) or ()


def _xml_calls(text: str) -> Iterator[_Call]:
    rest = _XML_CALL.sub("", text).replace(_END, "")
    if rest.strip():
        raise _Unusable("its elements are not closed, or text follows them")
    for call in _XML_CALL.finditer(text):
        values = call["inside"]
        if _XML_VALUE.sub("", values).strip():
            raise _Unusable("an element of it is no parameter")
        found = {each["name"]: each["value"] for each in _XML_VALUE.finditer(values)}
        yield call["name"], _Elements(found)


def _read_json(text: str) -> tuple[str, Iterable[_Call]] | None:
    """Many small models: the whole message is the call, or its last block of code."""
    whole = text.strip()
    if whole[:1] in ("{", "["):
        calls = _json_calls(whole, surely=False)
        return None if calls is None else ("", calls)
    blocks = list(re.finditer(_LAST_FENCE.pattern, text, re.DOTALL))
    if not blocks or text[blocks[-1].end() :].strip():
        return None
    calls = _json_calls(blocks[-1]["inside"], surely=False)
    return None if calls is None else (text[: blocks[-1].start()], calls)


def _read_mistral(text: str) -> tuple[str, Iterable[_Call]] | None:
    """Mistral: a list of calls after its mark."""
    said, _, calls = text.partition(_MISTRAL)
    return (said, _surely(calls)) if calls.lstrip()[:1] in {"{", "["} else None


def _read_python_tag(text: str) -> tuple[str, Iterable[_Call]] | None:
    """Llama: calls after its mark, parted by semicolons."""
    said, _, calls = text.partition(_PYTHON)
    if not calls.lstrip().startswith("{"):
        return None
    return said, (each for one in re.split(r";\s*(?=\{)", calls) for each in _surely(one))


def _surely(text: str) -> Iterator[_Call]:
    yield from _json_calls(text, surely=True) or ()


_READERS: Mapping[str, Callable[[str], tuple[str, Iterable[_Call]] | None]] = {
    "tags": _read_tags,
    "json": _read_json,
    "mistral": _read_mistral,
    "python_tag": _read_python_tag,
}
