"""Answers of the API: JSON, without secrets, and errors that say what to do.

Owns the one way in which anything leaves the inspector. Invariant: every text passes the
redactor, whoever said it; an error is one line with its cause and the next step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from ..core.errors import (
    ConfigError,
    IllegalCut,
    NotFound,
    NothingToSend,
    SearchRefused,
    StoreError,
    ThreadBusy,
    TooLong,
    TreadleError,
    TurnConflict,
)
from ..core.redact import one_line, redact

__all__ = [
    "LONGEST_PAGE",
    "PATIENCE",
    "Handler",
    "NotAllowed",
    "TextPage",
    "TooLarge",
    "TooMany",
    "WrongValue",
    "answers",
    "cut_page",
    "is_asked",
    "number_of",
    "page_of",
    "say",
    "without_secrets",
]

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

_logger = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds that an answer may take."""
LONGEST_PAGE = 256 << 10
"""Characters of a page of a long text."""
_SHORTEST = 6
"""Shorter texts hold no secret."""


class WrongValue(TreadleError):
    """A parameter of a request says something that cannot be."""


class TooLarge(TreadleError):
    """A body is larger than anything that is asked here."""


class TooMany(TreadleError):
    """As much goes on at a time as can."""


class NotAllowed(TreadleError):
    """This server was not started to do that."""


class TextPage(Struct, frozen=True):
    """A part of a long text."""

    text: str
    chars: int
    """Of the whole text."""
    offset: int = 0
    next: int | None = None
    """Where the next page begins; None behind the last one."""


def say(value: object, status: int = 200) -> Response:
    """Answer with a value as JSON."""
    plain = msgspec.json.decode(msgspec.json.encode(value))
    return Response(
        msgspec.json.encode(without_secrets(plain)), status, media_type="application/json"
    )


def without_secrets(value: Any) -> Any:
    """Return plain values, as JSON has them, without the secrets in their texts."""
    match value:
        case str():
            return redact(value) if len(value) >= _SHORTEST else value
        case list():
            return [without_secrets(each) for each in value]
        case dict():
            return {key: without_secrets(each) for key, each in value.items()}
        case _:
            return value


def page_of(text: str, offset: int, most: int = LONGEST_PAGE) -> TextPage:
    """Return a part of a text. It is redacted before it is cut, for a cut hides a secret."""
    return cut_page(redact(text), offset, most)


def cut_page(text: str, offset: int, most: int = LONGEST_PAGE) -> TextPage:
    """Return a part of a text that holds no secret any more."""
    end = offset + most
    shown = text[offset:end]
    return TextPage(shown, len(text), offset, end if end < len(text) else None)


def number_of(
    request: Request, name: str, default: int, least: int = 0, most: int = 1 << 53
) -> int:
    """Return a parameter that is a whole number. Raises `WrongValue` outside of its bounds."""
    given = request.query_params.get(name)
    if given is None or not given:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 17):
        raise WrongValue(f"{name} must be a whole number, not {given[:40]!r}")
    return max(least, min(int(given), most))


def is_asked(request: Request, name: str) -> bool:
    """Say whether a parameter asks for something that is left out otherwise."""
    return request.query_params.get(name, "0") not in {"", "0", "false"}


def answers(handler: Handler, *, seconds: float = PATIENCE) -> Handler:
    """Return `handler`, which answers in time, and with an error instead of raising one."""

    async def answer(request: Request) -> Response:
        try:
            async with asyncio.timeout(seconds):
                return await handler(request)
        except TimeoutError:
            return _say_error(503, "too_slow", f"it takes more than {seconds:g} s; ask for less")
        except TreadleError as error:
            return _error(error)
        except Exception:
            _logger.exception("a request for %s failed", request.url.path)
            return _say_error(500, "failed", "this is a defect; the server's terminal has more")

    return answer


_REFUSALS: tuple[tuple[tuple[type[TreadleError], ...], int, str], ...] = (
    ((NotFound,), 404, "not_found"),
    ((WrongValue, ConfigError, IllegalCut, SearchRefused, TooLong), 400, "bad_request"),
    ((NotAllowed,), 403, "no_control"),
    ((ThreadBusy, NothingToSend, TurnConflict), 409, "busy"),
    ((TooLarge,), 413, "too_large"),
    ((TooMany,), 429, "too_many"),
    ((StoreError,), 500, "failed"),
)
"""Any other refusal is about what was asked: a key is missing, a plan does not hold any more."""


def _error(error: TreadleError) -> Response:
    for kinds, status, code in _REFUSALS:
        if isinstance(error, kinds):
            return _say_error(status, code, one_line(str(error)))
    return _say_error(400, "refused", one_line(str(error)))


def _say_error(status: int, code: str, message: str) -> Response:
    return say({"error": {"code": code, "message": message}}, status)
