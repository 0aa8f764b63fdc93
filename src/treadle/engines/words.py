"""Words about engines: what went wrong with one, fit to be shown and kept.

Owns the way from any text or error to one short line. Invariant: the line can be written
anywhere and holds nothing that looks like a secret.
"""

from __future__ import annotations

from ..core.patterns import regex
from ..core.redact import redact
from ..sandbox.environment_variables import is_secret

__all__ = ["brief", "describe_error"]

_LONGEST = 300

_NAME = regex(r"([A-Za-z][\w-]*)[\"']?\s*[=:]\s*[\"']?")
_VALUE = regex(r"[^\s\"',;&]+")


def brief(text: str) -> str:
    """`text` on one line, short, and without what looks like a secret."""
    told = redact(text[: _LONGEST * 64])
    line = " ".join(told[: _LONGEST * 8].split()).encode(errors="replace").decode()
    line = _without_values(line)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def describe_error(error: BaseException) -> str:
    """An error in one line."""
    try:
        said = brief(str(error))
    except Exception:  # noqa: BLE001 - an engine's errors are its code too
        said = ""
    return brief(f"{type(error).__name__}: {said or 'no message'}")


def _without_values(line: str) -> str:
    """`line` without what stands behind the names of secrets."""
    kept, done = [], 0
    for name in _NAME.finditer(line):
        value = _VALUE.match(line, name.end())
        if value and name.start() >= done and is_secret(name[1].replace("-", "_")):
            kept += [line[done : name.end()], "…"]
            done = value.end()
    return "".join([*kept, line[done:]])
