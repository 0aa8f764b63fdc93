"""Talks with planted facts, in English and in German.

Owns what is said, by whom, what is asked about it later, and which words an answer needs.
Of 24 facts the user says 8, the agent finds out 8, and 8 stand only in outputs of tools.
Invariant: the words that an answer needs stand nowhere else in the talk, and not in a question.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from . import english, german
from .spoken import Fact, Source, Words

__all__ = ["LANGUAGES", "Exchange", "Language", "PlantedTalk", "plant"]

Language: TypeAlias = Literal["en", "de"]
LANGUAGES: dict[Language, Words] = {"en": english.WORDS, "de": german.WORDS}
_SENTENCES = 7
"""How many sentences of filler stand around a fact that the agent says."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn: what the user says, what a tool shows, and what the agent answers."""

    said: str
    answer: str
    output: str = ""


@dataclass(frozen=True, slots=True)
class PlantedTalk:
    """A talk in parts, after each of which it is folded, and the facts in it."""

    parts: tuple[tuple[Exchange, ...], ...]
    facts: tuple[Fact, ...]


def plant(
    language: Language,
    folds: int,
    *,
    seed: int = 1,
    most: int | None = None,
    asides: float = 0.5,
) -> PlantedTalk:
    """Return a talk of so many parts, with `most` facts of each source.

    After each fact there are about so many `asides`: turns about nothing.
    """
    words, chance = LANGUAGES[language], random.Random(seed)
    facts = [fact for source in _by_source(words.facts) for fact in source[:most]]
    chance.shuffle(facts)
    turns = [
        turn
        for fact in facts
        for turn in (_exchange(fact, words, chance), *_asides(words, chance, asides))
    ]
    size = -(-len(turns) // folds)
    parts = (tuple(turns[at : at + size]) for at in range(0, len(turns), size))
    return PlantedTalk(tuple(parts), tuple(facts))


def _by_source(facts: Sequence[Fact]) -> Iterator[list[Fact]]:
    sources: tuple[Source, ...] = ("user", "assistant", "tool")
    return ([fact for fact in facts if fact.source == source] for source in sources)


def _exchange(fact: Fact, words: Words, chance: random.Random) -> Exchange:
    around = words.filler(chance, _SENTENCES)
    if fact.source == "user":
        return Exchange(f"{words.filler(chance, 1)} {fact.told}", around)
    if fact.source == "assistant":
        before, after = words.filler(chance, 3), words.filler(chance, 3)
        return Exchange(fact.asked, f"{before} {fact.told} {after}")
    lines = words.log(chance, 12)
    lines.insert(chance.randrange(2, len(lines)), fact.told)
    return Exchange(fact.asked, around, "\n".join(lines))


def _asides(words: Words, chance: random.Random, number: float) -> Iterator[Exchange]:
    for _ in range(int(number) + (chance.random() < number % 1)):
        yield Exchange(words.filler(chance, 1), words.filler(chance, _SENTENCES))
