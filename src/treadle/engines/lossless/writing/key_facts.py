"""Find the facts that a summary may not lose, and check whether it did.

Owns which facts a source has, their rank and how many of them count. Facts are ranked by
who mentions them, not how often, so that no single output hides the rest. Invariants: the
same source has the same facts; a text that quotes a fact has it; what looks like a
credential is never a fact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, TypeAlias

from msgspec import Struct

from ....core.typed import decode_json
from ....core.wire import UNREADABLE
from .clipping import byte_size, clip, looks_like_code, one_line, prose, sentences
from .fact_names import (
    NameKind,
    has_name,
    is_secret,
    name_kind,
    names_in,
    path_endings,
    proper_names,
)
from .listings import without_listings
from .number_facts import (
    SETTING,
    content_words,
    numbers_in,
    phrases_with_numbers,
    settings_in,
)
from .passages import Passage, PassageKind, error_lines, is_failure, patched_files
from .source import NO_NAMES, SEPARATOR, expand_names, summary_body, with_expand_line

__all__ = [
    "MOST_FACTS",
    "Fact",
    "FactKind",
    "add_missing_facts",
    "find_facts",
    "is_echo",
    "missing_facts",
]

FactKind: TypeAlias = Literal[
    "task", "failure", "error", "number", "path", "identifier", "name", "id"
]

MOST_FACTS: dict[FactKind, int] = {
    "task": 8,
    "failure": 4,
    "error": 8,
    "number": 20,
    "path": 20,
    "identifier": 14,
    "name": 6,
    "id": 6,
}
"""How many facts of a kind count, and the order in which the kinds are listed."""

_WEIGHT: dict[PassageKind, int] = {
    "user": 8,
    "assistant": 4,
    "summary": 4,
    "call": 3,
    "thought": 2,
    "other": 2,
    "result": 1,
}
_CHANGED_WEIGHT = 20
"""The weight of a file that was changed."""
_NAMES_OF_ONE_RESULT = 4
"""How many paths count that only one result mentions; the names of files in such a listing
say too little. Of a short result, which was made to be read, so many of all names count."""
_SHORT_RESULT = 600
_PHRASES_OF_ONE_RESULT = 4
_TELLING_WEIGHT = 3
_ECHOES = ("recall_", "note_")
"""How the names of tools begin whose results say again what was said before."""
_TASK_BYTES = 160
_COMMAND_BYTES = 80
_ERRORS_EACH = 4

_ARGUMENT_KEYS = re.compile(r"^\w+: ", re.MULTILINE)
_PROMISE = re.compile(
    r"\bTODO\b|\bFIXME\b|- \[ \]|\b(?:still|remains?|left|need(?:s|ed)?) to\b"
    r"|\bnot (?:yet|done)\b|\b[Nn]ext(?: step)?s?:|\b(?:I|we)(?:'ll| will) \w+"
    r"|待办|还需要|次に"
)
_EXIT_CODE = re.compile(
    r"\b(?:exit(?:ed|s)?(?: with)?(?: code| status)?|returned|rc|code|status)[ :=]+(-?\d+)\b",
    re.IGNORECASE,
)
_TELLING_NUMBER = re.compile(r"\d{4}|\d[.:/-]\d")
"""What no other number is mistaken for, even without the words beside it."""


class Fact(Struct, frozen=True):
    """Something that a reader must find again."""

    kind: FactKind
    text: str


class _Step(Struct):
    step: str
    status: str = "pending"


def find_facts(pieces: Sequence[Passage]) -> tuple[Fact, ...]:
    """Return the facts of passages, the most important kinds first and ranked within each."""
    pieces = [one for one in pieces if not is_echo(one)]
    telling = without_listings(pieces)
    found: dict[FactKind, list[str]] = {
        "task": list(_open_tasks(pieces)),
        "failure": list(_failed_commands(pieces)),
        "error": list(_ranked_errors(pieces)),
        "number": [],
        "name": list(_ranked_people(pieces)),
        **_ranked_names(telling),
    }
    told = "\n".join((*found["task"], *found["failure"], *found["error"]))
    found["number"] = [phrase for phrase in _ranked_numbers(telling) if phrase not in told]
    return tuple(
        Fact(kind, text) for kind in MOST_FACTS for text in found[kind][: MOST_FACTS[kind]]
    )


def is_echo(passage: Passage) -> bool:
    """Return whether a passage only says again what was said before: a result of recall."""
    return passage.kind == "result" and passage.name.startswith(_ECHOES)


def missing_facts(facts: Sequence[Fact], text: str) -> tuple[Fact, ...]:
    """Return the facts that `text` does not have."""
    line = one_line(text).casefold()
    codes = set(_EXIT_CODE.findall(line))
    return tuple(fact for fact in facts if not _has_fact(fact, text, line, codes))


def add_missing_facts(text: str, facts: Sequence[Fact], room: int) -> tuple[str, tuple[str, ...]]:
    """Return `text` with the facts it lacks in its expand line, and the facts that do not fit.

    `room` is how many bytes may be added.
    """
    body, names = summary_body(text), list(expand_names(text))
    room -= byte_size(with_expand_line(body, names)) - byte_size(text)
    if not names:
        room += byte_size(NO_NAMES) + len(SEPARATOR)
    for fact in missing_facts(facts, text):
        name = one_line(fact.text)
        cost = byte_size(name) + len(SEPARATOR)
        if cost <= room and missing_facts((fact,), SEPARATOR.join(names)):
            names.append(name)
            room -= cost
    full = with_expand_line(body, names)
    return full, tuple(one_line(fact.text) for fact in missing_facts(facts, full))


def _has_fact(fact: Fact, text: str, line: str, codes: set[str]) -> bool:
    if fact.kind in ("task", "error"):
        return one_line(fact.text.rstrip("…")).casefold() in line
    if fact.kind == "failure":
        command, _, status = fact.text.rpartition(": ")
        word = (command.split() or [""])[0].casefold()
        code = status.removeprefix("exit code ")
        return word in line and (code in codes if code != status else status in line)
    if fact.kind == "number":
        return one_line(fact.text).casefold() in line or _has_number(fact.text, text)
    if fact.kind == "path":
        return any(has_name(end, text) for end in path_endings(fact.text))
    return has_name(fact.text, text)


def _has_number(phrase: str, text: str) -> bool:
    """Return whether `text` has the numbers of a phrase, beside a word that names them."""
    wanted, names = numbers_in(phrase), content_words(phrase)
    if not wanted:
        return has_name(phrase.rpartition(SETTING)[2], text)
    if not wanted <= numbers_in(text):
        return False
    if any(map(_TELLING_NUMBER.search, wanted)):
        return True
    return any(
        wanted <= numbers_in(sentence) and names & content_words(sentence)
        for sentence in sentences(text.replace("; ", "\n"))
    )


def _open_tasks(pieces: Sequence[Passage]) -> Iterator[str]:
    """Return the open steps of the newest plan, then what was promised last."""
    seen: dict[str, None] = {}
    plans = [one for one in pieces if one.kind == "call" and one.name == "update_plan"]
    for step in _open_steps(plans[-1]) if plans else ():
        seen[step] = None
    for kind in ("assistant", "user", "summary"):
        texts = [one.text for one in pieces if one.kind == kind]
        for sentence in sentences(prose(texts[-1])) if texts else ():
            if _PROMISE.search(sentence) and not looks_like_code(sentence):
                seen[sentence if kind != "summary" else sentence.removeprefix("- ")] = None
    yield from dict.fromkeys(clip(one_line(task), _TASK_BYTES) for task in seen if task.strip())


def _open_steps(plan: Passage) -> Iterator[str]:
    line = next((line for line in plan.text.splitlines() if line.startswith("plan: ")), "")
    try:
        steps = decode_json(line.removeprefix("plan: "), tuple[_Step, ...])
    except UNREADABLE:
        return
    yield from (one.step for one in steps if one.status != "completed")


def _failed_commands(pieces: Sequence[Passage]) -> Iterator[str]:
    """Return the commands that failed and did not succeed since, newest first."""
    ended: set[str] = set()
    for one in reversed(pieces):
        about = one.about or one.name
        if one.kind != "result" or not about or about in ended:
            continue
        ended.add(about)
        if is_failure(one.status):
            yield f"{clip(one_line(about), _COMMAND_BYTES)}: {one.status}"


def _ranked_errors(pieces: Sequence[Passage]) -> Iterator[str]:
    """Return error texts: those of failed calls and of people first, then the newest."""
    weighed: Counter[str] = Counter()
    for at, one in enumerate(pieces):
        if one.kind not in ("result", "user", "summary"):
            continue
        lines = list(dict.fromkeys(error_lines(one.text, one.status)))
        if len(lines) > _ERRORS_EACH:
            lines = [*lines[: _ERRORS_EACH // 2], *lines[-_ERRORS_EACH // 2 :]]
        bonus = len(pieces) if one.kind != "result" or is_failure(one.status) else 0
        for line in lines:
            weighed[line] = max(weighed[line], at + 1 + bonus)
    yield from (line for line, _ in weighed.most_common())


def _ranked_numbers(pieces: Sequence[Passage]) -> Iterator[str]:
    """Return numbers with what they measure, by the weight of the passages that have them."""
    weighed: Counter[str] = Counter()
    for one in pieces:
        for phrase in map(one_line, _number_phrases(one)):
            # How a command ended is told with the command.
            if not _EXIT_CODE.search(phrase) and not any(map(is_secret, phrase.split())):
                weighed[phrase] += _number_weight(one, phrase)
    yield from (phrase for phrase, _ in weighed.most_common())


def _number_weight(one: Passage, phrase: str) -> int:
    """Return how much a number counts: a count of steps less than a port or a version."""
    is_short = one.kind == "result" and byte_size(one.text) <= _SHORT_RESULT
    weight = _WEIGHT["call" if is_short else one.kind]
    return weight * _TELLING_WEIGHT if _TELLING_NUMBER.search(phrase) else weight


def _number_phrases(one: Passage) -> Iterator[str]:
    is_short = byte_size(one.text) <= _SHORT_RESULT
    if one.kind == "result":
        yield from settings_in(one.text, words=is_short)
    if one.kind in ("user", "assistant", "summary"):
        lines = [line for line in sentences(prose(one.text)) if not looks_like_code(line)]
        yield from (phrase for line in lines for phrase in phrases_with_numbers(line))
    elif one.kind == "result" and is_short:
        found = (phrase for line in sentences(one.text) for phrase in phrases_with_numbers(line))
        yield from islice(found, _PHRASES_OF_ONE_RESULT)


def _ranked_people(pieces: Sequence[Passage]) -> Iterator[str]:
    """Return proper names: those that people said first."""
    said = [prose(one.text) for one in pieces if one.kind == "user"]
    told = [prose(one.text) for one in pieces if one.kind in ("assistant", "summary")]
    yield from dict.fromkeys((*proper_names(said), *proper_names(told)))


def _ranked_names(pieces: Sequence[Passage]) -> dict[FactKind, list[str]]:
    """Return paths, identifiers and ids, by the weight of the passages that mention them."""
    weighed: Counter[str] = Counter()
    kinds: dict[str, NameKind] = {}
    places: dict[str, list[int]] = {}
    for at, one in enumerate(pieces):
        text = _ARGUMENT_KEYS.sub("", one.text) if one.kind == "call" else one.text
        for word, kind in names_in(text):
            kinds[word] = kind
            places.setdefault(word, []).append(at)
            weighed[word] += _WEIGHT[one.kind]
        for path in patched_files(one.text) if one.kind == "call" else ():
            weighed[path] += _CHANGED_WEIGHT
    hidden = set(_names_of_one_result(pieces, places))
    found: dict[FactKind, list[str]] = {"path": [], "identifier": [], "id": []}
    for word, _ in weighed.most_common():
        if word not in hidden:
            found[kinds.get(word) or "path"].append(word)
    found["path"] = _distinct_paths(found["path"])
    return found


def _names_of_one_result(pieces: Sequence[Passage], places: dict[str, list[int]]) -> Iterator[str]:
    """Return the names that only a single result mentions, except for a few of them."""
    taken: Counter[int] = Counter()
    for word, (at, *others) in places.items():
        if others or pieces[at].kind != "result":
            continue
        is_short = byte_size(pieces[at].text) <= _SHORT_RESULT
        counts = is_short or (name_kind(word) == "path" and "/" in word)
        taken[at] += counts
        if not counts or taken[at] > _NAMES_OF_ONE_RESULT:
            yield word


def _distinct_paths(paths: Sequence[str]) -> list[str]:
    """Return the paths without those that are the end of a longer one."""
    kept: list[str] = []
    endings: set[str] = set()
    for path in paths:
        mine = set(path_endings(path))
        if not (mine & set(kept)) and path not in endings:
            kept.append(path)
            endings |= mine
    return kept
