"""Search: which of many tools a request in words is about.

Owns the ranking (BM25 over names, descriptions and parameters). Invariant: the same tools and
the same words give the same order, whatever order the tools came in.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from .server_tool import ServerTool

__all__ = ["ToolIndex"]

_WORD = re.compile(r"[a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SATURATION, _LENGTH = 1.2, 0.75
_NAME_WEIGHT = 3


class _Document(Struct, frozen=True):
    tool: ServerTool
    words: Counter[str]
    length: int


class ToolIndex:
    """The words of some tools."""

    def __init__(self, tools: Sequence[ServerTool]) -> None:
        ordered = sorted(tools, key=lambda tool: (tool.server.name, tool.record.name))
        self._documents = [_document(tool) for tool in ordered]
        self._often = Counter(word for each in self._documents for word in each.words)
        total = sum(each.length for each in self._documents)
        self._average = total / len(self._documents) if self._documents else 1.0

    def search(self, query: str, limit: int) -> list[ServerTool]:
        """Return the tools that fit best, the best first."""
        wanted = _words(query)
        exact = query.strip()
        if named := [each.tool for each in self._documents if each.tool.name == exact]:
            return named
        scored = [
            (self._score(each, wanted), number) for number, each in enumerate(self._documents)
        ]
        best = sorted((-score, number) for score, number in scored if score > 0)
        return [self._documents[number].tool for _, number in best[:limit]]

    def _score(self, document: _Document, wanted: Sequence[str]) -> float:
        score = 0.0
        for word in dict.fromkeys(wanted):
            times = document.words.get(word, 0)
            if not times:
                continue
            often = self._often[word]
            rarity = math.log(1 + (len(self._documents) - often + 0.5) / (often + 0.5))
            long = 1 - _LENGTH + _LENGTH * document.length / self._average
            score += rarity * times * (_SATURATION + 1) / (times + _SATURATION * long)
        return score


def _document(tool: ServerTool) -> _Document:
    names = _words(f"{tool.server.name} {tool.record.name}")
    rest = _words(f"{tool.record.description} {' '.join(_parameter_texts(tool))}")
    words = Counter(names * _NAME_WEIGHT + rest)
    return _Document(tool, words, words.total())


def _parameter_texts(tool: ServerTool) -> list[str]:
    schema = msgspec.json.decode(tool.record.parameters)
    found = schema.get("properties") if isinstance(schema, dict) else None
    texts: list[str] = []
    for name, each in (found if isinstance(found, dict) else {}).items():
        about = each.get("description") if isinstance(each, dict) else None
        texts += [name, about if isinstance(about, str) else ""]
    return texts


def _words(text: str) -> list[str]:
    """Return the words in small letters, plurals as singulars, `camelCase` taken apart."""
    found = _WORD.findall(_HUMP.sub(" ", text).lower())
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found]
