"""What a language brings to a talk: facts, sentences without any, and lines of output."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Fact", "Source", "Words"]

Source: TypeAlias = Literal["user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is said once, what is asked about it, and what an answer must have."""

    source: Source
    told: str
    question: str
    needed: str
    """What an answer must have; several ways to say it are parted by ``|``."""
    asked: str = ""
    """What the user says before the agent or a tool tells it."""

    def is_in(self, text: str) -> bool:
        """Return whether a text has what is needed, as words of their own."""
        folded = text.casefold()
        ways = (re.escape(way) for way in self.needed.casefold().split("|"))
        return re.search(rf"(?<!\w)(?:{'|'.join(ways)})(?!\w)", folded) is not None


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a language."""

    facts: tuple[Fact, ...]
    sentences: tuple[str, ...]
    """Sentences with gaps for a thing."""
    things: tuple[str, ...]
    lines: tuple[str, ...] = (
        "INFO {x} handled {n} requests",
        "tests/test_{n}.py ........ ok",
        "-rw-r--r-- 1 dev dev {n} src/{n}.txt",
        "DEBUG {x}: queue has {n} entries",
    )

    def filler(self, chance: random.Random, sentences: int) -> str:
        """Return sentences that say nothing that is asked for."""
        return " ".join(
            chance.choice(self.sentences).format(x=chance.choice(self.things))
            for _ in range(sentences)
        )

    def log(self, chance: random.Random, lines: int) -> list[str]:
        """Return lines as programs print them."""
        return [
            chance.choice(self.lines).format(
                x=chance.choice(self.things), n=chance.randint(1100, 1999)
            )
            for _ in range(lines)
        ]
