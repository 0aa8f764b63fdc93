"""Read a source as passages: one piece of text after the other, with its call and status.

Owns how items become text and how the status of a tool call is read from its report.
Media are named, reasoning is its summary. Invariants: the same source gives the same
passages, in its order; a result that does not report its status is never a success.
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
    encode_action,
    item_type,
    text_of,
)
from ....core.wire import UNREADABLE, json_bytes
from .clipping import clip, clip_middle, looks_like_code, one_line
from .source import SummarySource

__all__ = [
    "OK",
    "STATUS_NOT_REPORTED",
    "Passage",
    "PassageKind",
    "error_lines",
    "is_failure",
    "passages",
    "patched_files",
]

PassageKind: TypeAlias = Literal[
    "user", "assistant", "call", "result", "thought", "summary", "other"
]

_LONGEST = 120_000
"""Bytes of a passage that are read; a longer one loses its middle first."""

_ABOUT_BYTES = 40
"""How many bytes of the arguments tell one call from another, where there is no command."""

_MEDIUM = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]{64,}")
_PATCHED_FILE = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_SHELLS = re.compile(r"(?:.*/)?(?:ba|z|da)?sh")
_COMMANDS = ("cmd", "command", "script")

STATUS_NOT_REPORTED = "status not reported"
OK = "exit code 0"
_RUNNING = "still running"
_ABORTED = "aborted"
_UNKNOWN = "outcome unknown"
_ERROR = "error"

_HEAD_CHARS = 600
_TAIL_CHARS = 200
_LINE_BYTES = 160
_BEFORE_CHARS = 60

_OUTPUT_START = re.compile(r"^Output:$", re.MULTILINE)
_REPORT = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Original token count|Total output lines): .*\n"
    r"|Process (?:exited|running) with .*\n)+Output:\n"
)
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_JSON_EXIT_CODE = re.compile(r'"exit_code":\s*(-?\d+)')
_REPORTS = (
    (re.compile(r"^Process running with session ID \d+$", re.MULTILINE), _RUNNING),
    (re.compile(r"^aborted(?: by user.*)?$", re.MULTILINE), _ABORTED),
    (re.compile(r"\AOutcome unknown\b"), _UNKNOWN),
    (re.compile(r"\A\W*(?:[\w ]{0,60}error|fatal|failed|failure)\s*:", re.IGNORECASE), _ERROR),
    (re.compile(r"\A(?:failed to|unable to|cannot|refused|denied)\b", re.IGNORECASE), _ERROR),
)
# Every branch begins with a letter of its own, which lets the search skip ahead.
_ERROR_SIGN = re.compile(
    r"Error\b|Exception\b|Traceback \(|panicked at\b|error[:\[]|ERROR\b|fatal:|FATAL\b|panic:"
    r"|FAIL(?:ED)?\b|Failed\b|failed\b|Cannot\b|cannot\b|Permission denied|No such file"
    r"|错误|失败|エラー|오류"
)
_CERTAIN_ERROR = re.compile(
    r"\w(?:Error|Exception): |\b(?:error|fatal|panic)(?:\[\w+\])?: |panicked at"
    r"|^\W*(?:FAILED|ERROR|FATAL)\b"
)
_NO_ERROR = re.compile(
    r"^[\s+\-|>]*(?:[\w./-]+\.\w+[:-])?(?:\d+[:|\s-]\s*)?(?:raise|except|class|def|import|from|return|if|elif|assert"
    r"|catch|throw|with|pub|fn|func|const|let|var|type|async|await)\b"
    r"|\b(?:0|no) (?:errors?|failures?|failed)\b|Traceback \(",
    re.IGNORECASE,
)
_REPORTED_ERROR = re.compile(
    r"^\W*(?:E\s+)?(?:[\w.]*(?:Error|Exception)|fatal|error|panic)\b", re.IGNORECASE
)
_LINE_PREFIX = re.compile(r"^(?:E\s{2,}|[-+>|]\s+)")


class Passage(Struct, frozen=True, kw_only=True):
    """One piece of a source."""

    kind: PassageKind
    text: str
    name: str = ""
    """The tool, or the speaker where the kind does not say it."""
    about: str = ""
    """The command of a call; for a result, what was called, in one line."""
    status: str = ""
    """The status of a call as its result reports it; ``""`` for what is no result."""


def passages(source: SummarySource) -> tuple[Passage, ...]:
    """Return the pieces of a source, in order; items without text are left out."""
    calls: dict[str, str] = {}
    read = (
        _as_of_others(_read_item(one.item, calls))
        if one.id in source.others
        else _read_item(one.item, calls)
        for one in source.items
    )
    children = (Passage(kind="summary", text=text) for text in source.children)
    return tuple(map(_within_limit, (*(one for one in read if one is not None), *children)))


def patched_files(text: str) -> list[str]:
    """Return the files that a patch in `text` names, in order."""
    return list(dict.fromkeys(_PATCHED_FILE.findall(text)))


def _within_limit(passage: Passage) -> Passage:
    text = clip_middle(_MEDIUM.sub("[media]", passage.text.strip()), _LONGEST)
    return msgspec.structs.replace(passage, text=text)


def _read_item(item: Item, calls: dict[str, str]) -> Passage | None:
    """Return the passage of an item; `calls` keeps what was called, by call id."""
    read = _READERS.get(type(item))
    if read is not None:
        return read(item, calls)
    return Passage(kind="other", text=f"[item of type {item_type(item)!r}]")


def _as_of_others(passage: Passage | None) -> Passage | None:
    """Return a passage that does not speak for the user."""
    if passage is None or passage.kind != "user":
        return passage
    return msgspec.structs.replace(passage, kind="other", name="message of another thread")


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


def _agent_message(item: AgentMessage, calls: dict[str, str]) -> Passage:
    del calls
    name = f"message from {item.author} to {item.recipient}"
    return Passage(kind="other", text=_content(item.content), name=one_line(name))


def _reasoning(item: Reasoning, calls: dict[str, str]) -> Passage | None:
    del calls
    text = text_of(item.summary)
    return Passage(kind="thought", text=text) if text.strip() else None


def _function_call(item: FunctionCall, calls: dict[str, str]) -> Passage:
    command, text = _arguments(item.arguments)
    return _call(item.name, item.call_id, command, text, calls)


def _custom_call(item: CustomToolCall, calls: dict[str, str]) -> Passage:
    made = _call(item.name, item.call_id, "", item.input, calls)
    if files := patched_files(item.input):
        calls[item.call_id] = f"{item.name}\n{item.name} {', '.join(files)}"
    return made


def _shell_call(item: LocalShellCall, calls: dict[str, str]) -> Passage:
    argv: Sequence[str] = getattr(item.action, "command", ())
    command = _command(argv)
    return _call("local_shell", item.call_id or item.id or "", command, command, calls)


def _tool_search_call(item: ToolSearchCall, calls: dict[str, str]) -> Passage:
    _, text = _arguments(bytes(item.arguments).decode())
    return _call("tool_search", item.call_id or "", "", text, calls)


def _call(name: str, call_id: str, command: str, text: str, calls: dict[str, str]) -> Passage:
    calls[call_id] = f"{name}\n{one_line(command) or clip(one_line(text), _ABOUT_BYTES)}"
    return Passage(kind="call", name=name, about=command, text=text)


def _result(item: FunctionCallOutput | CustomToolCallOutput, calls: dict[str, str]) -> Passage:
    name, _, about = calls.get(item.call_id or "", item.name or "").partition("\n")
    text = _content(item.output)
    status = _call_status(text, item.status)
    return Passage(kind="result", name=name, about=about, text=_command_output(text), status=status)


def _tool_search_output(item: ToolSearchOutput, calls: dict[str, str]) -> Passage:
    del calls
    text = f"{len(item.tools)} tools found"
    return Passage(kind="result", name="tool_search", text=text, status=item.status)


def _web_search_call(item: WebSearchCall, calls: dict[str, str]) -> Passage:
    del calls
    text = encode_action(item.action).decode() if item.action is not None else ""
    return Passage(kind="call", name="web_search", text=text)


def _image_call(item: ImageGenerationCall, calls: dict[str, str]) -> Passage:
    del calls
    text = f"[image] {item.revised_prompt or ''}"
    return Passage(kind="result", name="image_generation", text=text, status=item.status)


_READERS: dict[type, Callable[[Any, dict[str, str]], Passage | None]] = {
    Message: _message,
    AgentMessage: _agent_message,
    Reasoning: _reasoning,
    FunctionCall: _function_call,
    CustomToolCall: _custom_call,
    LocalShellCall: _shell_call,
    ToolSearchCall: _tool_search_call,
    FunctionCallOutput: _result,
    CustomToolCallOutput: _result,
    ToolSearchOutput: _tool_search_output,
    WebSearchCall: _web_search_call,
    ImageGenerationCall: _image_call,
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
    """Return the command that a call runs, if any, and its arguments as text."""
    try:
        given = msgspec.json.decode(arguments)
    except UNREADABLE:
        return "", arguments
    if not isinstance(given, dict):
        return "", arguments
    command = next((_command(given[key]) for key in _COMMANDS if given.get(key)), "")
    return command, command or "\n".join(_argument_lines(given))


def _argument_lines(given: dict[str, Any]) -> Iterator[str]:
    for key, value in given.items():
        yield f"{key}: {value if isinstance(value, str) else json_bytes(value).decode()}"


def _command(value: object) -> str:
    """Return a command line, without the shell that runs it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        return ""
    argv = [str(word) for word in value]
    if len(argv) == 3 and _SHELLS.fullmatch(argv[0]) and argv[1].startswith("-"):
        return argv[2]
    return shlex.join(argv)


def _call_status(text: str, status: str | None = None) -> str:
    """Return the status of a call, in the words that summaries use."""
    # The output of a command may say anything about exit codes; only the report counts.
    head = _OUTPUT_START.split(text[:_HEAD_CHARS], maxsplit=1)[0]
    found = _EXIT_CODE.search(head)
    if found is None and text.startswith("{"):
        found = _JSON_EXIT_CODE.search(text[-_TAIL_CHARS:]) or _JSON_EXIT_CODE.search(head)
    if found is not None:
        return f"exit code {found[1]}"
    for pattern, found_status in _REPORTS:
        if pattern.search(head):
            return found_status
    return status if status and status != "completed" else STATUS_NOT_REPORTED


def _command_output(text: str) -> str:
    """Return the output of a command, without the report around it."""
    report = _REPORT.match(text)
    return text[report.end() :] if report else text


def is_failure(status: str) -> bool:
    """Return whether a call failed, as far as its result reports it."""
    return status not in ("", OK, STATUS_NOT_REPORTED, _RUNNING, "completed", "in_progress")


def error_lines(text: str, status: str = "") -> Iterator[str]:
    """Return the lines of an output that report an error, each as a short line, in order.

    In the output of a call that succeeded, only lines that are certainly errors count.
    """
    end = 0
    for sign in _ERROR_SIGN.finditer(text):
        if sign.start() < end:
            continue
        start = text.rfind("\n", 0, sign.start()) + 1
        end = text.find("\n", sign.end())
        end = len(text) if end < 0 else end
        line = text[start:end]
        if _is_error(line) and (status != OK or _CERTAIN_ERROR.search(line)):
            shown = line[max(0, sign.start() - start - _BEFORE_CHARS) :]
            yield clip(one_line(_LINE_PREFIX.sub("", shown)), _LINE_BYTES)


def _is_error(line: str) -> bool:
    """Tell the report of an error from code that handles one."""
    if _NO_ERROR.search(line):
        return False
    return _REPORTED_ERROR.search(line) is not None or not looks_like_code(line)
