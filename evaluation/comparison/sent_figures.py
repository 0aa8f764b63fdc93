"""Figures of what was sent: bytes, the prefix that requests share, breaks, and list prices.

Owns how a request is read: tools, instructions, then the items, for a provider caches a prefix of
that, wherever the fields stand on the wire; ids of items are for the provider, and no model reads
them. Invariant: figures come from recorded bytes alone, so
they are comparable between agents that say different things of themselves.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
from benchmarks.peers.server import shared_prefix
from msgspec import Struct

from treadle.core.usage import TokenUsage
from treadle.core.wire import json_bytes
from treadle.models.prices import find_rate

from .proxy import Recorded

__all__ = ["SentFigures", "reading", "sent_figures", "shared_prefix"]

BYTES_PER_TOKEN = 4
LEAST_CACHED = 1_024
"""Tokens of the shortest prefix that OpenAI serves from its cache."""
REMEMBERED = 8
"""So many requests before are looked at, as if a provider kept them."""
_OUTPUT = re.compile(rb'"(?:output|completion)_tokens":\s*(\d+)')


class _Asked(Struct):
    """What a model reads of a request."""

    tools: list[msgspec.Raw] = []
    instructions: msgspec.Raw = msgspec.Raw()
    messages: list[dict[str, Any]] = []
    input: list[dict[str, Any]] | str = []


_asked = msgspec.json.Decoder(_Asked).decode


class SentFigures(Struct, frozen=True, kw_only=True):
    """What an agent sent for a task."""

    requests: int
    sent_bytes: int
    shared: float
    """The part of what models read with which a request before began: a cache can have it."""
    breaks: int
    """Requests of the work itself that do not begin with all of the one before."""
    dollars: float
    """By the list price, with a token for four bytes and every shared prefix from the cache."""


def reading(body: bytes) -> bytes:
    """Return a request in the order in which a model reads it."""
    asked = _asked(body)
    said = [asked.input] if isinstance(asked.input, str) else asked.input
    items: list[Any] = [*asked.messages, *said]
    shown = [
        {name: value for name, value in item.items() if name != "id"}
        if isinstance(item, dict)
        else item
        for item in items
    ]
    return b"\n".join((*map(bytes, (*asked.tools, asked.instructions)), *map(json_bytes, shown)))


def sent_figures(recorded: Sequence[Recorded], model: str) -> SentFigures:
    """Return the figures of the requests of one run."""
    read = [reading(each.body) for each in recorded]
    kept = [_longest(read, at) for at in range(len(read))]
    usages = [
        _usage(len(whole), same, _output_tokens(each.answer))
        for whole, same, each in zip(read, kept, recorded, strict=True)
    ]
    return SentFigures(
        requests=len(recorded),
        sent_bytes=sum(len(each.body) for each in recorded),
        shared=sum(kept) / (sum(map(len, read)) or 1),
        breaks=_breaks([each for each in recorded if _has_tools(each.body)]),
        dollars=sum(_dollars(usage, model) for usage in usages),
    )


def _longest(read: Sequence[bytes], at: int) -> int:
    """Return the longest prefix that a request has in common with one of those before it."""
    before = read[max(at - REMEMBERED, 0) : at]
    return max((shared_prefix(each, read[at]) for each in before), default=0)


def _breaks(recorded: Sequence[Recorded]) -> int:
    read = [reading(each.body) for each in recorded]
    return sum(shared_prefix(a, b) < len(a) for a, b in pairwise(read))


def _has_tools(body: bytes) -> bool:
    """Return whether a request goes on with the work; one for a summary offers no tools."""
    return bool(_asked(body).tools)


def _output_tokens(answer: bytes) -> int:
    """Return what the answer itself says; its form on the wire has other lengths."""
    said = _OUTPUT.findall(answer)
    return int(said[-1]) if said else 0


def _usage(whole: int, same: int, output: int) -> TokenUsage:
    cached = same // BYTES_PER_TOKEN
    return TokenUsage(
        input_tokens=whole // BYTES_PER_TOKEN,
        cached_input_tokens=cached if cached >= LEAST_CACHED else 0,
        output_tokens=output,
    )


def _dollars(usage: TokenUsage, model: str) -> float:
    rate = find_rate("openai", model, at=int(time.time() * 1_000))
    return 0.0 if rate is None else rate.cost(usage).amount
