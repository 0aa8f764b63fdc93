"""Find the facts that a summary may not lose, and check whether it did.

Owns which words of a text are names, which facts a source has, their rank and how many
of them count. Facts are ranked by who mentions them, not how often, so that no single
output hides the rest. Invariants: the same source has the same facts; a text that quotes
a fact has it; what looks like a credential is never a fact.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ....core.typed import decode_json
from .clipping import byte_size, clip, one_line, sentences
from .passages import Passage, PassageKind, error_lines, is_failure, patched_files
from .source import NO_NAMES, SEPARATOR, expand_names, summary_body, with_expand_line

__all__ = ["MOST_FACTS", "Fact", "FactKind", "add_missing_facts", "find_facts", "missing_facts"]

FactKind: TypeAlias = Literal["task", "failure", "error", "path", "identifier", "id"]

MOST_FACTS: dict[FactKind, int] = {
    "task": 8,
    "failure": 4,
    "error": 8,
    "path": 20,
    "identifier": 14,
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
_PATHS_OF_ONE_RESULT = 4
"""How many paths count that only one result mentions; the names of files
in such a listing say too little."""
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

_NameKind: TypeAlias = Literal["path", "identifier", "id", ""]

_WORD = re.compile(r"(?<!<)[A-Za-z0-9_~./\\@#:+-]{4,200}")
_EDGES = ".,:;-+\\"
_LINE_NUMBER = re.compile(r"(?::\d+)+$|::.*$")

_URL = re.compile(r"https?://[\w.-]+[\w./~+-]*")
_DEEP_PATH = re.compile(r"(?:~|\.{1,2})?/?[\w.@+-]+(?:/[\w.@+-]+)+/?")
_ROOTED = re.compile(r"(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)*/?")
_FILE = re.compile(
    r"[\w-][\w.-]*\.(?:py|pyi|ts|tsx|js|jsx|mjs|rs|go|c|h|cc|cpp|hpp|java|kt|swift|rb|php|cs|md|rst"
    r"|txt|toml|json|jsonl|yaml|yml|ini|cfg|conf|env|lock|log|csv|sql|sh|html|css|xml|db|ipynb)"
)
_IDENTIFIER = re.compile(
    r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+_*"
    r"|[a-z][a-z0-9]+[A-Z]\w*"
    r"|(?:[A-Z][a-z0-9]+){2,}"
    r"|[A-Za-z_]\w+(?:(?:\.|::)[A-Za-z_]\w+)+"
)
_ID = re.compile(
    r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|v?\d+\.\d+\.\d+\w*(?:[.+-]\w+)*|#\d+|[A-Z]{2,10}-\d+|\d{5,}"
)
_SECRET = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza|hf|npm|eyJ)[-_A-Za-z0-9]{16,}"
    r"|[A-Za-z0-9_+/-]{48,}"
)


class Fact(Struct, frozen=True):
    """Something that a reader must find again."""

    kind: FactKind
    text: str


class _Step(Struct):
    step: str
    status: str = "pending"


def find_facts(pieces: Sequence[Passage]) -> tuple[Fact, ...]:
    """Return the facts of passages, the most important kinds first and ranked within each."""
    found: dict[FactKind, list[str]] = {
        "task": list(_open_tasks(pieces)),
        "failure": list(_failed_commands(pieces)),
        "error": list(_ranked_errors(pieces)),
        **_ranked_names(pieces),
    }
    return tuple(
        Fact(kind, text) for kind in MOST_FACTS for text in found[kind][: MOST_FACTS[kind]]
    )


def missing_facts(facts: Sequence[Fact], text: str) -> tuple[Fact, ...]:
    """Return the facts that `text` does not have."""
    prose = one_line(text).casefold()
    codes = set(_EXIT_CODE.findall(prose))
    return tuple(fact for fact in facts if not _has_fact(fact, text, prose, codes))


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


def _has_fact(fact: Fact, text: str, prose: str, codes: set[str]) -> bool:
    if fact.kind in ("task", "error"):
        return one_line(fact.text.rstrip("…")).casefold() in prose
    if fact.kind == "failure":
        command, _, status = fact.text.rpartition(": ")
        word = (command.split() or [""])[0].casefold()
        code = status.removeprefix("exit code ")
        return word in prose and (code in codes if code != status else status in prose)
    if fact.kind == "path":
        return any(_has_name(end, text) for end in _path_endings(fact.text))
    return _has_name(fact.text, text)


def _path_endings(path: str) -> Iterator[str]:
    """Return the path, and its last steps: at least two of them."""
    yield path
    steps = [step for step in path.split("/") if step]
    for start in range(1, len(steps) - 1):
        yield "/".join(steps[start:])


def _has_name(name: str, text: str) -> bool:
    """Return whether `text` has the name by itself, not inside a longer one."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        at = text.find(name, at + 1)
    return False


def _open_tasks(pieces: Sequence[Passage]) -> Iterator[str]:
    """Return the open steps of the newest plan, then what was promised last."""
    seen: dict[str, None] = {}
    plans = [one for one in pieces if one.kind == "call" and one.name == "update_plan"]
    for step in _open_steps(plans[-1]) if plans else ():
        seen[step] = None
    for kind in ("assistant", "user", "summary"):
        texts = [one.text for one in pieces if one.kind == kind]
        for sentence in sentences(texts[-1]) if texts else ():
            if _PROMISE.search(sentence):
                seen[sentence] = None
    yield from dict.fromkeys(clip(one_line(task), _TASK_BYTES) for task in seen if task.strip())


def _open_steps(plan: Passage) -> Iterator[str]:
    line = next((line for line in plan.text.splitlines() if line.startswith("plan: ")), "")
    try:
        steps = decode_json(line.removeprefix("plan: "), tuple[_Step, ...])
    except msgspec.MsgspecError:
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


def _ranked_names(pieces: Sequence[Passage]) -> dict[FactKind, list[str]]:
    """Return paths, identifiers and ids, by the weight of the passages that mention them."""
    weighed: Counter[str] = Counter()
    places: dict[str, list[int]] = {}
    for at, one in enumerate(pieces):
        text = _ARGUMENT_KEYS.sub("", one.text) if one.kind == "call" else one.text
        for word in filter(_name_kind, _possible_names(text)):
            places.setdefault(word, []).append(at)
            weighed[word] += _WEIGHT[one.kind]
        for path in patched_files(one.text) if one.kind == "call" else ():
            weighed[path] += _CHANGED_WEIGHT
    hidden = set(_names_of_one_result(pieces, places))
    found: dict[FactKind, list[str]] = {"path": [], "identifier": [], "id": []}
    for word, _ in weighed.most_common():
        if word not in hidden:
            found[_name_kind(word) or "path"].append(word)
    found["path"] = _distinct_paths(found["path"])
    return found


def _names_of_one_result(pieces: Sequence[Passage], places: dict[str, list[int]]) -> Iterator[str]:
    """Return the names that only a single result mentions, except for a few paths."""
    taken: Counter[int] = Counter()
    for word, (at, *others) in places.items():
        if others or pieces[at].kind != "result":
            continue
        is_path = _name_kind(word) == "path" and "/" in word
        taken[at] += is_path
        if not is_path or taken[at] > _PATHS_OF_ONE_RESULT:
            yield word


def _distinct_paths(paths: Sequence[str]) -> list[str]:
    """Return the paths without those that are the end of a longer one."""
    kept: list[str] = []
    endings: set[str] = set()
    for path in paths:
        mine = set(_path_endings(path))
        if not (mine & set(kept)) and path not in endings:
            kept.append(path)
            endings |= mine
    return kept


def _possible_names(text: str) -> Iterable[str]:
    """Return the words of `text` that may be names, each once, in order, without punctuation."""
    return dict.fromkeys(map(_without_edges, dict.fromkeys(_WORD.findall(text))))


@functools.lru_cache(maxsize=16_384)
def _name_kind(word: str) -> _NameKind:
    """Return what kind of name a word is; ``""`` for a common word."""
    if len(word) < 2 or _SECRET.fullmatch(word):
        return ""
    if _URL.fullmatch(word) or _FILE.fullmatch(word):
        return "path"
    if "/" in word:
        return "path" if _is_path(word) else ""
    if _ID.fullmatch(word):
        return "id"
    return "identifier" if len(word) > 4 and _IDENTIFIER.fullmatch(word) else ""


def _is_path(word: str) -> bool:
    """Tell ``src/app`` from ``and/or``: a path is rooted, deep, or names a file."""
    if not _DEEP_PATH.fullmatch(word) and not _ROOTED.fullmatch(word):
        return False
    steps = word.strip("/").split("/")
    if all(step.isdigit() for step in steps):
        return False
    return word[0] in "/~." or len(steps) > 2 or "." in steps[-1] or "_" in word


@functools.lru_cache(maxsize=16_384)
def _without_edges(word: str) -> str:
    """Return a word without punctuation, and a path without its line number."""
    word = word.rstrip(_EDGES).lstrip(",:;+-\\")
    return _LINE_NUMBER.sub("", word) if "/" in word or "." in word else word
