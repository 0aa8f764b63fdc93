"""Verdicts: what calls asked of the user, and what the user refused, as the log tells it.

Owns how both are recognised: a call asks to leave the sandbox in its arguments, and a refusal is
the result that the model read; what was decided is a notice of its own behind the call.
Invariant: what the log does not say is not guessed.
"""

from __future__ import annotations

import re

from msgspec import Struct

from ..core.typed import decode_json
from ..core.wire import UNREADABLE

__all__ = ["verdict_of_call", "verdict_of_output"]

_ESCALATED = "require_escalated"
_REFUSED = re.compile(r"^.{0,80}\brejected by user(?:: (.{1,400}))?", re.DOTALL)


class _Asked(Struct, frozen=True):
    sandbox_permissions: str = ""
    justification: str = ""


def verdict_of_call(arguments: str) -> dict[str, str]:
    """Return what a call asked the user for; nothing for one that asked for nothing."""
    if _ESCALATED not in arguments:
        return {}
    try:
        asked = decode_json(arguments, _Asked)
    except (*UNREADABLE, ValueError):
        return {}
    if asked.sandbox_permissions != _ESCALATED:
        return {}
    why = f": {asked.justification}" if asked.justification else ""
    return {"verdict": f"asks to leave the sandbox{why}"}


def verdict_of_output(text: str) -> dict[str, str]:
    """Return that the user refused a call, where its result says so."""
    found = _REFUSED.match(text[:600])
    if found is None:
        return {}
    return {"verdict": "refused by the user" + (f": {found[1].strip()}" if found[1] else "")}
