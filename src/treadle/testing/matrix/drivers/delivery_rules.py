"""Drivers of the rules of delivery: what is silent, and where what is said goes.

Invariant: nothing here leaves the process but what `post` sends to a receiver on loopback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from ....core.errors import ConfigError
from ....core.typed import convert
from ....core.wire import json_bytes
from ....delivery.channel import NO_REPLY, Delivery, Reply, ReplyOrigin
from ....delivery.channels.webhook import (
    IDEMPOTENCY_HEADER,
    WebhookChannel,
    is_signed,
    signature_headers,
)
from ....delivery.decision import choose_destination
from ....delivery.replies import is_silent, parse_directives, visible_replies
from ....delivery.silence import (
    SilenceFilter,
    is_artifact,
    is_envelope,
    is_silent_text,
    is_token,
    starts_with_token,
    strip_leading_token,
    strip_token,
    strip_trailing_token,
)
from ....models.transport import AsyncTransport
from ..loopback_servers import WebhookReceiver

__all__ = ["ask", "direct", "post", "prepare", "route", "silence", "stream", "verify"]

Given: TypeAlias = Mapping[str, Any]

_SECRET = "planted-webhook-secret"  # noqa: S105 - it opens nothing
_QUESTIONS: Mapping[str, Any] = {
    "is_token": is_token,
    "is_envelope": is_envelope,
    "is_silent_text": is_silent_text,
    "starts_with_token": starts_with_token,
    "strip_leading_token": strip_leading_token,
    "strip_trailing_token": strip_trailing_token,
    "strip_token": strip_token,
}


async def ask(given: Given, fixture: object) -> Given:
    """Ask one question about texts."""
    del fixture
    question, token = _QUESTIONS[given["ask"]], given.get("token", NO_REPLY)
    return {"answers": [question(text, token) for text in given["texts"]]}


async def silence(given: Given, fixture: object) -> Given:
    """Return whether a reply is silent, and whether its text is only an artifact."""
    del fixture
    reply = _reply(given["reply"])
    return {"silent": is_silent(reply), "artifact": is_artifact(reply.text)}


async def stream(given: Given, fixture: object) -> Given:
    """Return what is shown while a reply streams, and at its end."""
    del fixture
    stream_filter = SilenceFilter(given.get("token", NO_REPLY))
    return {
        "shown": [stream_filter.feed(delta) for delta in given["deltas"]],
        "end": stream_filter.end(),
    }


async def prepare(given: Given, fixture: object) -> Given:
    """Return the visible replies."""
    del fixture
    return {"left": _reply_data(visible_replies(map(_reply, given["replies"])))}


async def direct(given: Given, fixture: object) -> Given:
    """Return the directives in the last text of a turn."""
    del fixture
    files = frozenset(given.get("readable", ()))
    found = parse_directives(given["text"], files.__contains__ if files else None)
    return {name: getattr(found, name) for name in found.__struct_fields__}


async def route(given: Given, fixture: object) -> Given:
    """Return where a reply goes."""
    del fixture
    found = choose_destination(
        _reply(given.get("reply", {"text": "Hello."})),
        convert(given["origin"], ReplyOrigin) if "origin" in given else None,
        dispatcher_available=given.get("dispatcher", False),
    )
    return {"destination": found.kind, "reason": found.reason}


async def post(given: Given, fixture: object) -> Given:
    """Post a reply to a webhook; return the receipt and what the receiver got."""
    del fixture
    reply = _reply(given.get("reply", {"text": "Hello."}))
    sent = Delivery(key="thr_1.1.final", thread="thr_1", turn=1, to="ada", reply=reply)
    async with (
        WebhookReceiver([given.get("status", 200)]) as receiver,
        AsyncTransport() as transport,
    ):
        receiver.headers = given.get("headers", {})
        try:
            hook = WebhookChannel(
                receiver.url, _SECRET, transport, private=given.get("private", True)
            )
        except ConfigError as error:
            return {"error": str(error).partition("; ")[2], "requests": len(receiver.requests)}
        receipts = [await hook.deliver(sent) for _ in range(given.get("times", 1))]
        keys = {each.headers[IDEMPOTENCY_HEADER] for each in receiver.requests}
        text = f"{receipts!r}{hook!r}"
    return {
        "state": receipts[-1].state,
        "retry_after": receipts[-1].retry_after,
        "keys": sorted(keys),
        "bodies": len({each.body for each in receiver.requests}),
        "body": receiver.requests[0].payload,
        "signed": receiver.all_signed(_SECRET),
        "leaks": _SECRET in text or "path-secret" in text,
    }


async def verify(given: Given, fixture: object) -> Given:
    """Return whether a receiver takes a request that was changed or is late."""
    del fixture
    headers = signature_headers(given.get("secret", _SECRET), 1_000_000, b'{"text":"hello"}')
    headers |= given.get("headers", {})
    body = given.get("body", '{"text":"hello"}').encode()
    return {"taken": is_signed(_SECRET, headers, body, now=1_000_000 + given.get("late", 0))}


def _reply(given: Given) -> Reply:
    named = {name: value for name, value in given.items() if name != "content"}
    reply = convert(named, Reply)
    if "content" not in given:
        return reply
    return msgspec.structs.replace(reply, content=Raw(json_bytes(given["content"])))


def _reply_data(replies: tuple[Reply, ...]) -> list[Any]:
    return [msgspec.to_builtins(reply) for reply in replies]
