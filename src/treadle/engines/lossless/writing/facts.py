"""Facts: what a summary may not lose, and whether it did.

Owns which facts a source has, their order of weight and how many of them count. They
are ranked by who mentions them, not how often, so that no single output drowns the rest.
Invariant: the same source has the same facts; a text that quotes a fact has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ....core.patterns import regex
from .clipping import clip, on_one_line, sentences
from .names import names_in, sort_of
from .outcomes import error_lines, failed
from .passages import Kind, Passage, patched

__all__ = ["Fact", "FactKind", "find_facts", "missing"]

FactKind: TypeAlias = Literal["task", "failure", "error", "path", "identifier", "id"]

MOST: dict[FactKind, int] = {
    "task": 8,
    "failure": 4,
    "error": 8,
    "path": 20,
    "identifier": 14,
    "id": 6,
}
"""How many facts of a kind count, and the order in which kinds are told."""

_WEIGHT: dict[Kind, int] = {
    "user": 8,
    "assistant": 4,
    "summary": 4,
    "call": 3,
    "thought": 2,
    "other": 2,
    "result": 1,
}
_CHANGED = 20
"""The weight of a file that was changed."""
_ALONE = 4
"""How many paths count that nothing but one and the same result mentions; names of files
in such a listing say too little."""
_TASK_BYTES = 160
_COMMAND_BYTES = 80
_ERRORS_EACH = 4

_KEYS = regex(r"^\w+: ", re.MULTILINE)
_PROMISE = regex(
    r"\bTODO\b|\bFIXME\b|- \[ \]|\b(?:still|remains?|left|need(?:s|ed)?) to\b"
    r"|\bnot (?:yet|done)\b|\b[Nn]ext(?: step)?s?:|\b(?:I|we)(?:'ll| will) \w+"
    r"|待办|还需要|次に"
)
_EXIT = regex(
    r"\b(?:exit(?:ed|s)?(?: with)?(?: code| status)?|returned|rc|code|status)[ :=]+(-?\d+)\b",
    re.IGNORECASE,
)


class Fact(Struct, frozen=True):
    """Something that must be found again."""

    kind: FactKind
    text: str


class _Step(Struct):
    step: str
    status: str = "pending"


def find_facts(read: Sequence[Passage]) -> tuple[Fact, ...]:
    """The facts of passages, the weightiest kinds first and ranked within each."""
    found: dict[FactKind, list[str]] = {
        "task": list(_tasks(read)),
        "failure": list(_failures(read)),
        "error": list(_errors(read)),
        **_names(read),
    }
    return tuple(Fact(kind, text) for kind in MOST for text in found[kind][: MOST[kind]])


def missing(facts: Sequence[Fact], text: str) -> tuple[Fact, ...]:
    """The facts that `text` does not have."""
    prose = on_one_line(text).casefold()
    codes = set(_EXIT.findall(prose))
    return tuple(fact for fact in facts if not _has(fact, text, prose, codes))


def _has(fact: Fact, text: str, prose: str, codes: set[str]) -> bool:
    if fact.kind in ("task", "error"):
        return on_one_line(fact.text.rstrip("…")).casefold() in prose
    if fact.kind == "failure":
        command, _, status = fact.text.rpartition(": ")
        word = (command.split() or [""])[0].casefold()
        code = status.removeprefix("exit code ")
        return word in prose and (code in codes if code != status else status in prose)
    if fact.kind == "path":
        return any(_stands(end, text) for end in _endings(fact.text))
    return _stands(fact.text, text)


def _endings(path: str) -> Iterator[str]:
    """The path, and its last steps: at least two of them."""
    yield path
    steps = [step for step in path.split("/") if step]
    for start in range(1, len(steps) - 1):
        yield "/".join(steps[start:])


def _stands(name: str, text: str) -> bool:
    """Whether `text` has the name by itself, not inside a longer one."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        at = text.find(name, at + 1)
    return False


def _tasks(read: Sequence[Passage]) -> Iterator[str]:
    """Steps of the newest plan that are not done, then what was promised last."""
    seen: dict[str, None] = {}
    plans = [one for one in read if one.kind == "call" and one.name == "update_plan"]
    for step in _open_steps(plans[-1]) if plans else ():
        seen[step] = None
    for kind in ("assistant", "user", "summary"):
        said = [one.text for one in read if one.kind == kind]
        for sentence in sentences(said[-1]) if said else ():
            if _PROMISE.search(sentence):
                seen[sentence] = None
    yield from dict.fromkeys(clip(on_one_line(task), _TASK_BYTES) for task in seen if task.strip())


def _open_steps(plan: Passage) -> Iterator[str]:
    line = next((line for line in plan.text.splitlines() if line.startswith("plan: ")), "")
    try:
        steps = msgspec.json.decode(line.removeprefix("plan: "), type=tuple[_Step, ...])
    except msgspec.MsgspecError:
        return
    yield from (one.step for one in steps if one.status != "completed")


def _failures(read: Sequence[Passage]) -> Iterator[str]:
    """Commands that failed and did not succeed since, newest first."""
    over: set[str] = set()
    for one in reversed(read):
        about = one.about or one.name
        if one.kind != "result" or not about or about in over:
            continue
        over.add(about)
        if failed(one.status):
            yield f"{clip(on_one_line(about), _COMMAND_BYTES)}: {one.status}"


def _errors(read: Sequence[Passage]) -> Iterator[str]:
    """Error texts, those of failed calls and of people first, then the newest."""
    weighed: Counter[str] = Counter()
    for at, one in enumerate(read):
        if one.kind not in ("result", "user", "summary"):
            continue
        lines = list(dict.fromkeys(error_lines(one.text, one.status)))
        if len(lines) > _ERRORS_EACH:
            lines = [*lines[: _ERRORS_EACH // 2], *lines[-_ERRORS_EACH // 2 :]]
        bonus = len(read) if one.kind != "result" or failed(one.status) else 0
        for line in lines:
            weighed[line] = max(weighed[line], at + 1 + bonus)
    yield from (line for line, _ in weighed.most_common())


def _names(read: Sequence[Passage]) -> dict[FactKind, list[str]]:
    """Paths, identifiers and ids, by the weight of the passages that mention them."""
    weighed: Counter[str] = Counter()
    places: dict[str, list[int]] = {}
    for at, one in enumerate(read):
        text = _KEYS.sub("", one.text) if one.kind == "call" else one.text
        for word in filter(sort_of, names_in(text)):
            places.setdefault(word, []).append(at)
            weighed[word] += _WEIGHT[one.kind]
        for path in patched(one.text) if one.kind == "call" else ():
            weighed[path] += _CHANGED
    drowned = set(_drowned(read, places))
    found: dict[FactKind, list[str]] = {"path": [], "identifier": [], "id": []}
    for word, _ in weighed.most_common():
        if word not in drowned:
            found[sort_of(word) or "path"].append(word)
    found["path"] = _distinct(found["path"])
    return found


def _drowned(read: Sequence[Passage], places: dict[str, list[int]]) -> Iterator[str]:
    """Names that a single result mentions and nothing else: all but a few paths."""
    taken: Counter[int] = Counter()
    for word, (at, *others) in places.items():
        if others or read[at].kind != "result":
            continue
        is_path = sort_of(word) == "path" and "/" in word
        taken[at] += is_path
        if not is_path or taken[at] > _ALONE:
            yield word


def _distinct(paths: Sequence[str]) -> list[str]:
    """Paths without those that end a longer one with the same last steps."""
    kept: list[str] = []
    endings: set[str] = set()
    for path in paths:
        mine = set(_endings(path))
        if not (mine & set(kept)) and path not in endings:
            kept.append(path)
            endings |= mine
    return kept
