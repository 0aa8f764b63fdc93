"""Outcomes: how a tool call went, read from what it reported.

Owns the spellings in which tools tell their status, and which lines of an output tell
an error. Invariant: what does not say how it went is never taken for a success.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....core.patterns import regex
from .clipping import clip, on_one_line

__all__ = ["UNREPORTED", "error_lines", "failed", "outcome", "printed"]

UNREPORTED = "status not reported"
_OK = "exit code 0"
_RUNNING = "still running"
_ABORTED = "aborted"
_UNKNOWN = "outcome unknown"
_ERROR = "error"

_HEAD_CHARS = 600
_TAIL_CHARS = 200
_LINE_BYTES = 160
_BEFORE_CHARS = 60

_BODY = regex(r"^Output:$", re.MULTILINE)
_REPORT = regex(
    r"(?:(?:Chunk ID|Wall time|Exit code|Original token count|Total output lines): .*\n"
    r"|Process (?:exited|running) with .*\n)+Output:\n"
)
_EXIT = regex(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_JSON_EXIT = regex(r'"exit_code":\s*(-?\d+)')
_SAID = (
    (re.compile(r"^Process running with session ID \d+$", re.MULTILINE), _RUNNING),
    (re.compile(r"^aborted(?: by user.*)?$", re.MULTILINE), _ABORTED),
    (re.compile(r"\AOutcome unknown\b"), _UNKNOWN),
    (re.compile(r"\A\W*(?:[\w ]{0,60}error|fatal|failed|failure)\s*:", re.IGNORECASE), _ERROR),
    (re.compile(r"\A(?:failed to|unable to|cannot|refused|denied)\b", re.IGNORECASE), _ERROR),
)
# Every branch begins with a letter of its own, which lets the search skip ahead.
_SIGN = regex(
    r"Error\b|Exception\b|Traceback \(|panicked at\b|error[:\[]|ERROR\b|fatal:|FATAL\b|panic:"
    r"|FAIL(?:ED)?\b|Failed\b|failed\b|Cannot\b|cannot\b|Permission denied|No such file"
    r"|错误|失败|エラー|오류"
)
_CERTAIN = regex(
    r"\w(?:Error|Exception): |\b(?:error|fatal|panic)(?:\[\w+\])?: |panicked at"
    r"|^\W*(?:FAILED|ERROR|FATAL)\b"
)
_NOT_ONE = regex(
    r"^[\s+\-|>]*(?:\d+[:|\s]\s*)?(?:raise|except|class|def|import|from|return|if|elif|assert"
    r"|catch|throw|with|pub|fn|func|const|let|var|type|async|await)\b"
    r"|\b(?:0|no) (?:errors?|failures?|failed)\b|Traceback \(",
    re.IGNORECASE,
)
_LEAD = regex(r"^(?:E\s{2,}|[+>|]\s+)")


def outcome(text: str, status: str | None = None) -> str:
    """How a call went, in the words that every reader of a summary will meet."""
    # What a command printed may say anything about exit codes; only the report counts.
    head = _BODY.split(text[:_HEAD_CHARS], maxsplit=1)[0]
    found = _EXIT.search(head)
    if found is None and text.startswith("{"):
        found = _JSON_EXIT.search(text[-_TAIL_CHARS:]) or _JSON_EXIT.search(head)
    if found is not None:
        return f"exit code {found[1]}"
    for pattern, said in _SAID:
        if pattern.search(head):
            return said
    return status if status and status != "completed" else UNREPORTED


def printed(text: str) -> str:
    """What a command printed, without the report around it."""
    report = _REPORT.match(text)
    return text[report.end() :] if report else text


def failed(status: str) -> bool:
    """Whether a call did not go well, as far as its result tells."""
    return status not in ("", _OK, UNREPORTED, _RUNNING, "completed", "in_progress")


def error_lines(text: str, status: str = "") -> Iterator[str]:
    """Lines that tell what went wrong, each in one short line, in order.

    What a call printed that went well tells an error only where it is plainly one.
    """
    end = 0
    for sign in _SIGN.finditer(text):
        if sign.start() < end:
            continue
        start = text.rfind("\n", 0, sign.start()) + 1
        end = text.find("\n", sign.end())
        end = len(text) if end < 0 else end
        line = text[start:end]
        if not _NOT_ONE.search(line) and (status != _OK or _CERTAIN.search(line)):
            told = line[max(0, sign.start() - start - _BEFORE_CHARS) :]
            yield clip(on_one_line(_LEAD.sub("", told)), _LINE_BYTES)
