"""Media in items, taken apart for APIs that want them in pieces."""

from __future__ import annotations

import re

from msgspec import Struct

from ...core.patterns import regex

__all__ = ["DataUrl", "data_url"]

_DATA_URL = regex(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.IGNORECASE)


class DataUrl(Struct, frozen=True):
    """What a data URL holds: a medium type and base64."""

    mime: str
    data: str


def data_url(url: str) -> DataUrl | None:
    """The parts of a base64 data URL; None for any other URL."""
    found = _DATA_URL.match(url)
    if found is None:
        return None
    return DataUrl((found[1] or "application/octet-stream").lower(), url[found.end() :])
