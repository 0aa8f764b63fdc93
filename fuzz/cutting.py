"""Ways to cut one input into several, chosen by the input itself.

Invariant: the same bytes always give the same pieces, so that a finding can be replayed.
"""

from __future__ import annotations

from itertools import pairwise

__all__ = ["chunks", "head_and_rest"]


def head_and_rest(data: bytes, size: int = 1) -> tuple[bytes, bytes]:
    """The first `size` bytes, filled up with zeros, and what follows them."""
    return data[:size].ljust(size, b"\0"), data[size:]


def chunks(data: bytes, pattern: bytes) -> list[bytes]:
    """`data` in pieces as long as the bytes of `pattern` say, over and over.

    A zero is a piece of all that is left; an empty pattern cuts nothing.
    """
    edges = [0]
    while edges[-1] < len(data):
        step = pattern[(len(edges) - 1) % len(pattern)] if pattern else 0
        edges.append(min(edges[-1] + (step or len(data)), len(data)))
    return [data[start:end] for start, end in pairwise(edges)]
