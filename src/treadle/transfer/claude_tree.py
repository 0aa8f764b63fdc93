"""Claude Code's tree: which records of a transcript are the conversation.

Owns the path to the newest message, and what belongs to it though it stands beside it.
Invariant: every record is on a path, outside the tree, left out or abandoned, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .lines import Line
from .sessions import Session, Spot, clean_id, clean_line, existing, line_key
from .tally import Tally
from .tree import Branch, path_to

__all__ = ["BOOKKEEPING", "Transcript"]

BOOKKEEPING = frozenset(
    {
        *("summary", "custom-title", "ai-title", "agent-name", "last-prompt"),
        *("file-history-snapshot", "queue-operation", "permission-mode", "mode", "tag"),
        *("progress", "pr-link", "worktree-state", "agent-setting", "content-replacement"),
    }
)
"""Records that name, undo or show, and say nothing."""

_LINKED = BOOKKEEPING | {"user", "assistant", "system", "attachment"}
"""Records whose place in the tree is known, also at a root of it."""

_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""What names a session, the best first."""


class _Mark(msgspec.Struct):
    """What is remembered of a record."""

    branch: Branch
    spot: Spot
    chain: str
    kind: str
    serves: bool = False
    """Whether it says nothing, and only links others."""
    message: str = ""
    answers: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()


@dataclass(slots=True)
class Transcript:
    """A transcript on its way through."""

    tally: Tally
    session: str
    named: bool = False
    marks: dict[str, _Mark] = field(default_factory=dict)
    order: list[Branch] = field(default_factory=list)
    loose: list[Spot] = field(default_factory=list)
    titles: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Names with their kinds; a summary also says which message it is about."""
    cwd: str = ""
    chains: dict[str, str] = field(default_factory=dict)
    """The chain of each record: the session's own, or the first record of an agent's."""
    leaves: dict[str, str] = field(default_factory=dict)
    """The newest record of each chain that says something."""

    def add(self, line: Line, record: dict[str, Any]) -> None:
        """Take the next record in."""
        kind = record.get("type")
        kind = kind if isinstance(kind, str) else ""
        self.cwd = self.cwd or existing(record.get("cwd"))
        if not self.named and (session := clean_id(record.get("sessionId"))):
            self.session, self.named = session, True
        name = clean_id(record.get("uuid"))
        stray = kind not in _LINKED and _parent(record) is None
        if name is None or stray or name in self.marks:
            self._note(line, kind, record)
        else:
            self._grow(line, kind, name, record)

    def _note(self, line: Line, kind: str, record: dict[str, Any]) -> None:
        """A record outside the tree: a name, a service, or something unknown."""
        if kind in _TITLES and (title := clean_line(record.get(_TITLES[kind]))):
            self.titles.append((kind, title, clean_id(record.get("leafUuid"))))
        if kind in BOOKKEEPING or clean_id(record.get("uuid")) in self.marks:
            self.tally.left_out[kind] += 1
            return
        self.loose.append(Spot(line_key("", line), line.offset, len(line.data)))

    def _grow(self, line: Line, kind: str, name: str, record: dict[str, Any]) -> None:
        parent = _parent(record)
        branch = Branch(name, parent, len(self.order))
        message = record.get("message")
        message = message if isinstance(message, dict) else {}
        self.marks[name] = _Mark(
            branch,
            Spot(name, line.offset, len(line.data)),
            self._chain_of(name, parent, record),
            kind,
            _serves(kind, record),
            clean_id(message.get("id")) or "",
            frozenset(_ids(message, "tool_result", "tool_use_id")),
            frozenset(_ids(message, "tool_use", "id")),
        )
        self.order.append(branch)
        if kind in ("user", "assistant"):
            self.leaves[self.chains[name]] = name

    def _chain_of(self, name: str, parent: str | None, record: dict[str, Any]) -> str:
        """Which conversation a record belongs to."""
        chain = ""
        if record.get("isSidechain") is True:
            chain = clean_id(record.get("agentId")) or self.chains.get(parent or "") or name
        self.chains[name] = chain
        return chain

    def sessions(self) -> Iterator[Session]:
        """The session itself, then its agents."""
        title = self._title()
        taken: set[str] = set()
        key = ""
        for chain in sorted(self.leaves, key=lambda chain: (bool(chain), chain)):
            spots = self._path(chain, taken)
            if not key:
                spots = sorted((*spots, *self._keyed()), key=lambda spot: spot.offset)
            key = f"claude:{self.session}" + (f"/{chain}" if chain else "")
            name = f"agent {chain}" if chain else title
            yield Session(key=key, title=name, cwd=self.cwd, spots=spots)
        self.tally.abandoned += len(self.marks) - len(taken) + (0 if key else len(self.loose))

    def _title(self) -> str:
        """The newest name of the best kind; summaries of other sessions are none."""
        named = {
            kind: title for kind, title, leaf in self.titles if leaf is None or leaf in self.marks
        }
        return next((named[kind] for kind in _TITLES if kind in named), "")

    def _keyed(self) -> Iterator[Spot]:
        """The records outside the tree, under the session's name."""
        for spot in self.loose:
            yield msgspec.structs.replace(spot, key=f"{self.session}{spot.key}")

    def _path(self, chain: str, taken: set[str]) -> list[Spot]:
        """The records of a conversation in order, counted where they are no words."""
        by_id = {name: mark.branch for name, mark in self.marks.items() if mark.chain == chain}
        order = [branch for branch in self.order if branch.id in by_id]
        for position, branch in enumerate(order):
            branch.position = position
        path = [branch.id for branch in path_to(by_id[self.leaves[chain]], order, by_id)]
        found = {*path, *self._beside(path, order)}
        taken |= found
        marks = [self.marks[branch.id] for branch in order if branch.id in found]
        self._count(marks)
        spots = [mark.spot for mark in marks if not mark.serves]
        return [msgspec.structs.replace(spot, alone=not at) for at, spot in enumerate(spots)]

    def _count(self, marks: Iterable[_Mark]) -> None:
        for mark in marks:
            if mark.serves:
                self.tally.left_out[mark.kind] += 1

    def _beside(self, path: list[str], order: list[Branch]) -> Iterator[str]:
        """Parts of the same answers, and the results of their calls, that the path passes by."""
        answers = {self.marks[name].message for name in path} - {""}
        taken = set(path)
        passed = [branch.id for branch in order if branch.id not in taken]
        calls = frozenset().union(*(self.marks[name].calls for name in path))
        for name in passed:
            if self.marks[name].message in answers:
                calls |= self.marks[name].calls
                yield name
        known = frozenset().union(*(self.marks[name].answers for name in path))
        for name in passed:
            results = self.marks[name].answers
            if results and results <= calls - known:
                known |= results
                yield name


def _parent(record: dict[str, Any]) -> str | None:
    return clean_id(record.get("parentUuid")) or clean_id(record.get("logicalParentUuid"))


def _serves(kind: str, record: dict[str, Any]) -> bool:
    text = record.get("content")
    silent = not (isinstance(text, str) and text.strip())
    return kind in BOOKKEEPING or (kind == "system" and silent)


def _ids(message: dict[str, Any], kind: str, field_name: str) -> Iterator[str]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == kind:
            yield str(block.get(field_name))
