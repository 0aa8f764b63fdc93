"""Passages: what a source says, one piece after the other, ready to be read.

Owns how items become text: media are named, reasoning is its summary, every result
knows its call and how it went. Invariant: a pure function of the source, in its order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ....core.items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    EncryptedContent,
    FunctionCall,
    FunctionCallOutput,
    ImageGenerationCall,
    InputAudio,
    InputImage,
    Item,
    LocalShellCall,
    Message,
    Output,
    Part,
    Reasoning,
    Refusal,
    ToolSearchCall,
    ToolSearchOutput,
    WebSearchCall,
    item_type,
    text_of,
)
from ....core.patterns import regex
from ....core.wire import json_bytes
from .clipping import clip, clip_middle, on_one_line
from .outcomes import outcome, printed
from .source import Source

__all__ = ["Kind", "Passage", "passages", "patched"]

Kind: TypeAlias = Literal["user", "assistant", "call", "result", "thought", "summary", "other"]

_LONGEST = 120_000
"""Bytes of a passage that are looked at; what is longer loses its middle first."""

_ABOUT_BYTES = 40
"""How much of the arguments tells one call from another, where there is no command."""

_MEDIUM = regex(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]{64,}")
_PATCHED = regex(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_SHELLS = regex(r"(?:.*/)?(?:ba|z|da)?sh")
_COMMANDS = ("cmd", "command", "script")


class Passage(Struct, frozen=True, kw_only=True):
    """One piece of a source."""

    kind: Kind
    text: str
    name: str = ""
    """The tool, or whoever speaks where the kind does not say it."""
    about: str = ""
    """The command of a call; for a result, what was called, in one line."""
    status: str = ""
    """How a call went, as far as its result tells; ``""`` for what is no result."""


def passages(source: Source) -> tuple[Passage, ...]:
    """The pieces of a source, in order; what says nothing is left out."""
    calls: dict[str, str] = {}
    read = (_passage(one.item, calls) for one in source.items)
    children = (Passage(kind="summary", text=text) for text in source.children)
    return tuple(map(_bounded, (*(one for one in read if one is not None), *children)))


def patched(text: str) -> list[str]:
    """The files that a patch in `text` names, in order."""
    return list(dict.fromkeys(_PATCHED.findall(text)))


def _bounded(passage: Passage) -> Passage:
    text = clip_middle(_MEDIUM.sub("[media]", passage.text.strip()), _LONGEST)
    return msgspec.structs.replace(passage, text=text)


def _passage(item: Item, calls: dict[str, str]) -> Passage | None:
    """What an item says; `calls` remembers what was called, by call id."""
    read = _READERS.get(type(item))
    if read is not None:
        return read(item, calls)
    return Passage(kind="other", text=f"[item of type {item_type(item)!r}]")


def _message(item: Message, calls: dict[str, str]) -> Passage | None:
    del calls
    text = _content(item.content)
    if not text.strip():
        return None
    if item.role == "user":
        return Passage(kind="user", text=text)
    if item.role == "assistant":
        return Passage(kind="assistant", text=text)
    return Passage(kind="other", text=text, name=item.role)


def _mail(item: AgentMessage, calls: dict[str, str]) -> Passage:
    del calls
    name = f"message from {item.author} to {item.recipient}"
    return Passage(kind="other", text=_content(item.content), name=on_one_line(name))


def _reasoning(item: Reasoning, calls: dict[str, str]) -> Passage | None:
    del calls
    text = text_of(item.summary)
    return Passage(kind="thought", text=text) if text.strip() else None


def _function_call(item: FunctionCall, calls: dict[str, str]) -> Passage:
    command, text = _arguments(item.arguments)
    return _call(item.name, item.call_id, command, text, calls)


def _custom_call(item: CustomToolCall, calls: dict[str, str]) -> Passage:
    made = _call(item.name, item.call_id, "", item.input, calls)
    if files := patched(item.input):
        calls[item.call_id] = f"{item.name}\n{item.name} {', '.join(files)}"
    return made


def _shell_call(item: LocalShellCall, calls: dict[str, str]) -> Passage:
    argv: Sequence[str] = getattr(item.action, "command", ())
    command = _command(argv)
    return _call("local_shell", item.call_id or item.id or "", command, command, calls)


def _tool_search(item: ToolSearchCall, calls: dict[str, str]) -> Passage:
    _, text = _arguments(bytes(item.arguments).decode())
    return _call("tool_search", item.call_id or "", "", text, calls)


def _call(name: str, call_id: str, command: str, text: str, calls: dict[str, str]) -> Passage:
    calls[call_id] = f"{name}\n{on_one_line(command) or clip(on_one_line(text), _ABOUT_BYTES)}"
    return Passage(kind="call", name=name, about=command, text=text)


def _result(item: FunctionCallOutput | CustomToolCallOutput, calls: dict[str, str]) -> Passage:
    name, _, about = calls.get(item.call_id or "", item.name or "").partition("\n")
    text = _content(item.output)
    status = outcome(text, item.status)
    return Passage(kind="result", name=name, about=about, text=printed(text), status=status)


def _found_tools(item: ToolSearchOutput, calls: dict[str, str]) -> Passage:
    del calls
    text = f"{len(item.tools)} tools found"
    return Passage(kind="result", name="tool_search", text=text, status=item.status)


def _web_search(item: WebSearchCall, calls: dict[str, str]) -> Passage:
    del calls
    text = json_bytes(item.action).decode() if item.action is not None else ""
    return Passage(kind="call", name="web_search", text=text)


def _image(item: ImageGenerationCall, calls: dict[str, str]) -> Passage:
    del calls
    text = f"[image] {item.revised_prompt or ''}"
    return Passage(kind="result", name="image_generation", text=text, status=item.status)


_READERS: dict[type, Callable[[Any, dict[str, str]], Passage | None]] = {
    Message: _message,
    AgentMessage: _mail,
    Reasoning: _reasoning,
    FunctionCall: _function_call,
    CustomToolCall: _custom_call,
    LocalShellCall: _shell_call,
    ToolSearchCall: _tool_search,
    FunctionCallOutput: _result,
    CustomToolCallOutput: _result,
    ToolSearchOutput: _found_tools,
    WebSearchCall: _web_search,
    ImageGenerationCall: _image,
}


def _content(content: Output) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(filter(str.strip, map(_part, content)))


def _part(part: Part) -> str:
    if isinstance(part, InputImage):
        return "[image]"
    if isinstance(part, InputAudio):
        return "[audio]"
    if isinstance(part, EncryptedContent):
        return "[encrypted]"
    if isinstance(part, Refusal):
        return part.refusal
    return str(getattr(part, "text", ""))


def _arguments(arguments: str) -> tuple[str, str]:
    """The command that a call runs, if it runs one, and its arguments for reading."""
    try:
        given = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return "", arguments
    if not isinstance(given, dict):
        return "", arguments
    command = next((_command(given[key]) for key in _COMMANDS if given.get(key)), "")
    return command, command or "\n".join(_lines(given))


def _lines(given: dict[str, Any]) -> Iterator[str]:
    for key, value in given.items():
        yield f"{key}: {value if isinstance(value, str) else json_bytes(value).decode()}"


def _command(value: object) -> str:
    """A command line, without the shell that runs it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        return ""
    argv = [str(word) for word in value]
    if len(argv) == 3 and _SHELLS.fullmatch(argv[0]) and argv[1].startswith("-"):
        return argv[2]
    return shlex.join(argv)
