"""The facts of a request that a fake server needs, in any of the three formats."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ...core.loopback import LoopbackRequest
from ..script import Api

__all__ = ["RequestFacts", "read_facts"]

_MODEL_ITEMS = frozenset(
    ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "reasoning")
)


class RequestFacts(Struct, frozen=True):
    """A request as the script sees it."""

    api: Api
    model: str
    key: str
    """What its prompt is cached under."""
    texts: tuple[str, ...]
    """Every text after the last item of the model."""
    digest: str
    trigger: bool = False
    """Whether it asks for a compaction."""
    input: tuple[dict[str, Any], ...] = ()
    streams: bool = True
    """Whether the answer is sent piece by piece; the APIs do so only where it is asked for."""


def read_facts(api: Api, request: LoopbackRequest) -> RequestFacts:
    """Return what `request` asks for; empty facts for a body that cannot be read."""
    try:
        payload = msgspec.json.decode(request.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        payload = {}
    items = payload.get("input" if api == "responses" else "messages")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    listed = tuple(item for item in _list(items) if isinstance(item, dict))
    return RequestFacts(
        api,
        str(payload.get("model", "")),
        str(payload.get("prompt_cache_key") or request.headers.get("thread-id", "")),
        tuple(_texts(_after_last_model_item(listed))),
        hashlib.blake2b(request.body, digest_size=8).hexdigest(),
        bool(listed) and listed[-1].get("type") == "compaction_trigger",
        listed,
        payload.get("stream") is True,
    )


def _after_last_model_item(items: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    for index in range(len(items) - 1, -1, -1):
        if items[index].get("role") == "assistant" or items[index].get("type") in _MODEL_ITEMS:
            return items[index + 1 :]
    return items


def _texts(value: object) -> Iterable[str]:
    """Yield every text in content, outputs and results."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name in ("content", "output", "text"):
            yield from _texts(value.get(name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
