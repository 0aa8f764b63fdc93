"""Check what a summary says against its source, sentence by sentence, without a model.

Owns when a statement contradicts the source. Invariants: a sentence that stands in the source
contradicts nothing; a sentence is only held against the source where that says nearly the same
of another name, or the opposite, so that a summary in its own words is left alone.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from .clipping import looks_like_code, sentences
from .fact_names import names_in, path_endings, proper_names
from .number_facts import content_words, numbers_in
from .passages import OK, Passage, is_failure

__all__ = ["ClaimCheck", "lines_without"]

_SAME = 0.6
"""A statement that has so much of what a claim is about speaks of the same …"""
_LEAST_WORDS = 2
"""… if it shares at least so many words and names."""
_MAINLY = 0.5
"""So much of what a statement says must be what the claim is about."""
_CLEARLY = 0.25
"""By how much more a statement about another name must be the same."""
_ALIKE = 0.5
"""So much is enough where one says the plain opposite of the other: passed, failed."""
_CLAUSE_END = re.compile(r"[,;\uff0c\uff1b]\s*(?!\d)|: |\bbecause\b")
_MOST_SENTENCES = 6_000
_SPEAKERS = frozenset({"user", "assistant", "summary"})
_HEADING = re.compile(
    r"^\W*(?:Goal|Course|Path|Decisions|Files|Commands|Found|Facts|State|Open|Keep|Errors)\W*:\W*"
)
_DIGIT = re.compile(r"\d")
_NOT = re.compile(
    r"\b(?:not|never|no|without|cannot|neither|nor|nothing|none|nobody|avoid|stop"
    r"|nicht|kein\w*|nie|niemals|ohne)\b|n['\u2019]t\b|不|没|勿|别|禁止|ない|ません|않|말고",
    re.IGNORECASE,
)
_OPPOSITES = tuple(
    (re.compile(rf"\b(?:{one})\b", re.IGNORECASE), re.compile(rf"\b(?:{other})\b", re.IGNORECASE))
    for one, other in (
        ("pass(?:ed|es)?|succe\\w+|green", "fail(?:ed|s|ing|ure)?|red|broken"),
        ("enable[ds]?|on", "disable[ds]?|off"),
        ("add(?:ed|s)?", "remove[ds]?|delete[ds]?|drop(?:ped|s)?"),
        ("accept(?:ed|s)?|allow(?:ed|s)?", "reject(?:ed|s)?|refuse[ds]?|forbid\\w*|forbidden|deny"),
        ("always|must", "never"),
        ("true|yes", "false|no"),
        ("before", "after"),
        ("finished|done|complete[d]?", "unfinished|pending|open"),
        ("at most|maximum|below|less than", "at least|minimum|above|more than"),
    )
)


class _Statement(Struct, frozen=True):
    """A sentence, as far as it can be compared with others."""

    words: frozenset[str]
    """What it says, without names, numbers and whatever turns its meaning around."""
    names: dict[str, str]
    """Its names and numbers, and the kind of each."""
    negated: bool
    sides: tuple[int, ...]
    """For each pair of opposites, which of the two it has: 1, -1 or 0."""


class ClaimCheck:
    """The statements of a source, and which lines of a summary contradict them."""

    def __init__(self, pieces: Sequence[Passage], previous: str = "") -> None:
        texts = [*(one.text for one in pieces), previous]
        said = [one.text for one in pieces if one.kind in _SPEAKERS]
        self._source = "\n".join(texts)
        self._people = frozenset(proper_names(said))
        self._numbers = numbers_in(self._source)
        lines = [line for text in texts for line in _clauses(text)]
        lines += [f"{one.about} {_outcome(one.status)}" for one in pieces if one.about]
        self._statements = [self._read(line) for line in lines[-_MOST_SENTENCES:]]
        self._places: dict[str, list[int]] = defaultdict(list)
        """Where each word and name stands."""
        for at, one in enumerate(self._statements):
            for word in one.words.union(one.names):
                self._places[word].append(at)

    def contradictions(self, text: str) -> tuple[str, ...]:
        """Return the lines of a summary that say what the source does not, or its opposite."""
        return tuple(
            line
            for line in dict.fromkeys(text.splitlines())
            if any(map(self._contradicts, _claims(line)))
        )

    def _contradicts(self, sentence: str) -> bool:
        if looks_like_code(sentence):
            return False
        return self._is_against(self._read(sentence))

    def _is_against(self, claim: _Statement) -> bool:
        return self._is_opposite(claim) or any(
            self._is_invented(name, kind) or self._is_misplaced(name, kind, claim)
            for name, kind in claim.names.items()
        )

    def _is_opposite(self, claim: _Statement) -> bool:
        """Return whether all that the source says of the same says the opposite."""
        telling = {name for name, kind in claim.names.items() if kind != "number"}
        about = claim.words | telling
        near = [one for one in self._near(about) if telling <= set(one.names)]
        verdicts = [
            _is_reversed(one, claim, _shared(one, about)) for one in near if _is_of(one, about)
        ]
        return True in verdicts and False not in verdicts

    def _is_misplaced(self, name: str, kind: str, claim: _Statement) -> bool:
        """Return whether the source says of another name what the claim says of this one."""
        others = {each for each, other in claim.names.items() if other != kind}
        about = claim.words | others
        if len(about) < _LEAST_WORDS and not others:
            return False
        near = [one for one in self._near(about) if others <= set(one.names)]
        against = [_shared(one, about) for one in near if _has_instead(name, kind, one, claim)]
        most = max(against, default=0.0)
        return most >= _SAME and most - self._shared_beside(name, kind, about) >= _CLEARLY

    def _shared_beside(self, name: str, kind: str, about: frozenset[str]) -> float:
        """Return how much of it stands around the name, where no other name may have it."""
        best = 0.0
        for at, one in enumerate(self._statements):
            if _has(name, one):
                around = self._statements[max(0, at - 2) : at + 3]
                around = [each for each in around if each is one or kind not in each.names.values()]
                words = {word for each in around for word in each.words.union(each.names)}
                best = max(best, len(words & about) / len(about))
        return best

    def _is_invented(self, name: str, kind: str) -> bool:
        """Return whether a name stands nowhere in the source; a count may be the model's own."""
        if kind == "number":
            return len(_DIGIT.findall(name)) > 2 and name not in self._numbers
        if kind == "path":
            return not any(ending in self._source for ending in path_endings(name))
        if kind == "identifier" and "_" not in name and "." not in name:
            return False  # a product has such a name too
        return name not in self._source

    def _near(self, words: frozenset[str]) -> list[_Statement]:
        """Return the statements that share at least two of the words, or the only one."""
        shared = Counter(at for word in words for at in self._places.get(word, ()))
        least = min(_LEAST_WORDS, len(words))
        return [self._statements[at] for at, count in shared.items() if count >= least]

    def _read(self, sentence: str) -> _Statement:
        names: dict[str, str] = dict.fromkeys(numbers_in(sentence), "number")
        names |= {name: kind for name, kind in names_in(sentence) if name not in names}
        names |= {name: "person" for name in self._people if name in sentence}
        text = sentence
        for name in sorted(names, key=len, reverse=True):
            text = text.replace(name, " ")
        for pattern in (_NOT, *(side for pair in _OPPOSITES for side in pair)):
            text = pattern.sub(" ", text)
        return _Statement(
            content_words(text),
            names,
            # Who says *not* twice has turned the meaning back.
            len(_NOT.findall(sentence)) % 2 == 1,
            tuple(_side(sentence, *pair) for pair in _OPPOSITES),
        )


def lines_without(text: str, wrong: AbstractSet[str]) -> str:
    """Return a text without some of its lines."""
    return "\n".join(line for line in text.splitlines() if line not in wrong).strip()


def _clauses(text: str) -> Iterator[str]:
    """Yield the sentences of a source, and the clauses of those that have several."""
    for sentence in sentences(text.replace("; ", "\n")):
        yield sentence
        parts = [part for part in _CLAUSE_END.split(sentence) if part.strip()]
        yield from parts if len(parts) > 1 else ()


def _claims(line: str) -> Iterator[str]:
    """Yield what a line of a summary says, without the heading of its section."""
    for claim in _clauses(_HEADING.sub("", line.strip(" -*#\t"), count=1)):
        if len(content_words(claim)) >= _LEAST_WORDS or any(names_in(claim)):
            yield claim


def _outcome(status: str) -> str:
    """Return the word for how a call ended; nothing where that is not known."""
    return "failed" if is_failure(status) else "passed" if status == OK else ""


def _shared(one: _Statement, about: frozenset[str]) -> float:
    """Return how much of what a claim is about a statement is about too."""
    shared = len(about & one.words.union(one.names))
    is_little = shared < _LEAST_WORDS and len(one.words) > _LEAST_WORDS
    return 0.0 if is_little or not about else shared / len(about)


def _is_of(one: _Statement, about: frozenset[str]) -> bool:
    """Return whether a statement says little else than what a claim is about."""
    words = one.words.union(one.names)
    return len(about & words) >= _MAINLY * len(words)


def _is_reversed(one: _Statement, claim: _Statement, shared: float) -> bool | None:
    """Return whether a claim says the opposite of a statement; None if they cannot be compared."""
    if shared < _ALIKE:
        return None
    turned = any(mine * theirs < 0 for mine, theirs in zip(one.sides, claim.sides, strict=True))
    if not turned and shared < _SAME:
        return None
    return turned != (one.negated != claim.negated)


def _has_instead(name: str, kind: str, one: _Statement, claim: _Statement) -> bool:
    """Return whether a statement has another name of the same kind, which the claim has not."""
    others = (each for each, found in one.names.items() if found == kind)
    return not _has(name, one) and any(each not in claim.names for each in others)


def _has(name: str, one: _Statement) -> bool:
    return name in one.names or any(
        kind == "path" and (each.endswith(f"/{name}") or name.endswith(f"/{each}"))
        for each, kind in one.names.items()
    )


def _side(sentence: str, one: re.Pattern[str], other: re.Pattern[str]) -> int:
    return bool(one.search(sentence)) - bool(other.search(sentence))
