"""Claude Code: transcripts of its sessions and of their agents.

Owns which records are the conversation: the path to the newest one, with the results
that parallel calls got beside it. Invariant: thinking is stored as the block it was,
signature and all, and can go back to Anthropic only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..entries import FragmentMark, Origin
from ..items import FunctionCall, FunctionCallOutput, InputText, Message, OutputText, Part
from ..models.formats.thinking import THINKING, reasoning_of
from ..prompt.legacy import LegacyTag
from ..prompt.registry import Registry
from ..wire import json_bytes
from .lines import Line, read_objects, sound
from .pieces import (
    Piece,
    contextual,
    item_piece,
    kept,
    milliseconds,
    notice,
    parts_of,
    text_in,
    user_piece,
)
from .sessions import Session, Spot, clean_id, clean_line, existing, line_key
from .tally import Tally
from .tree import Branch, path_to

__all__ = ["BOOKKEEPING", "ClaudeFormat"]

BOOKKEEPING = frozenset(
    {
        *("summary", "custom-title", "ai-title", "agent-name", "last-prompt"),
        *("file-history-snapshot", "queue-operation", "permission-mode", "mode", "tag"),
        *("progress", "pr-link", "worktree-state", "agent-setting", "content-replacement"),
    }
)
"""Records that name, undo or show, and say nothing."""

_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""What names a session, the best first."""

_TAGS = tuple(
    LegacyTag(tag, "user")
    for tag in (
        *("system-reminder", "local-command-caveat", "local-command-stdout"),
        *("local-command-stderr", "bash-input", "bash-stdout", "bash-stderr", "task-notification"),
        *("ide_opened_file", "ide_selection", "ide_diagnostics", "user-memory-input"),
    )
)
_OPENINGS = ("<command-name>", "<command-message>", "[Request interrupted by user")

_object = msgspec.json.Decoder(dict[str, Any])


class ClaudeFormat:
    """Reads transcripts; agents that stand in the same file become threads of their own."""

    name = "claude"
    agent = "Claude Code"

    def survey(self, path: Path, tally: Tally) -> list[Session]:
        """The conversations of a transcript."""
        reading = _Reading(tally, path.stem)
        for line, record in read_objects(path, sound(_object.decode), tally):
            reading.add(line, record)
        return list(reading.sessions())

    def pieces(self, data: bytes, spot: Spot, registry: Registry) -> list[Piece]:
        """What a record becomes."""
        record = _object.decode(data)
        match record:
            case {"type": "user", "message": {"content": content}}:
                if record.get("isCompactSummary") and not spot.alone:
                    return []
                return _said(content, registry, meta=_is_meta(record))
            case {"type": "assistant", "message": {"content": content} as message}:
                if record.get("isApiErrorMessage"):
                    text = text_in(content)
                    return [notice(text, "claude", "error")] if isinstance(text, str) else []
                return _answered(content, message, registry)
            case {"type": "system", "content": str(text)} if text.strip():
                return [notice(text, "claude")]
        return []

    def time(self, data: bytes) -> int | None:
        """When a record was made."""
        return milliseconds(_object.decode(data).get("timestamp"))


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
class _Reading:
    """A transcript on its way through."""

    tally: Tally
    session: str
    named: bool = False
    marks: dict[str, _Mark] = field(default_factory=dict)
    order: list[Branch] = field(default_factory=list)
    loose: list[Spot] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    chains: dict[str, str] = field(default_factory=dict)
    """The chain of each record: the session's own, or the first record of an agent's."""
    leaves: dict[str, str] = field(default_factory=dict)
    """The newest record of each chain that says something."""

    def add(self, line: Line, record: dict[str, Any]) -> None:
        kind = record.get("type")
        kind = kind if isinstance(kind, str) else ""
        self.cwd = self.cwd or existing(record.get("cwd"))
        if not self.named and (session := clean_id(record.get("sessionId"))):
            self.session, self.named = session, True
        name = clean_id(record.get("uuid"))
        if name is None or name in self.marks:
            self.note(line, kind, record)
        else:
            self.grow(line, kind, name, record)

    def note(self, line: Line, kind: str, record: dict[str, Any]) -> None:
        """A record outside the tree: a name, a service, or something unknown."""
        if kind in _TITLES:
            self.titles[kind] = clean_line(record.get(_TITLES[kind])) or self.titles.get(kind, "")
        if kind in BOOKKEEPING or clean_id(record.get("uuid")) in self.marks:
            self.tally.left_out[kind] += 1
            return
        self.loose.append(Spot(line_key("", line), line.offset, len(line.data)))

    def grow(self, line: Line, kind: str, name: str, record: dict[str, Any]) -> None:
        parent = clean_id(record.get("parentUuid")) or clean_id(record.get("logicalParentUuid"))
        branch = Branch(name, parent, len(self.order))
        message = record.get("message")
        message = message if isinstance(message, dict) else {}
        self.marks[name] = _Mark(
            branch,
            Spot(name, line.offset, len(line.data)),
            self.chain_of(name, parent, record),
            kind,
            _serves(kind, record),
            clean_id(message.get("id")) or "",
            frozenset(_ids(message, "tool_result", "tool_use_id")),
            frozenset(_ids(message, "tool_use", "id")),
        )
        self.order.append(branch)
        if kind in ("user", "assistant"):
            self.leaves[self.chains[name]] = name

    def chain_of(self, name: str, parent: str | None, record: dict[str, Any]) -> str:
        """Which conversation a record belongs to."""
        chain = ""
        if record.get("isSidechain") is True:
            chain = clean_id(record.get("agentId")) or self.chains.get(parent or "") or name
        self.chains[name] = chain
        return chain

    def sessions(self) -> Iterator[Session]:
        """The session itself, then its agents."""
        title = next(filter(None, map(self.titles.get, _TITLES)), "") or ""
        taken: set[str] = set()
        key = ""
        for chain in sorted(self.leaves, key=lambda chain: (bool(chain), chain)):
            spots = self.path(chain, taken)
            if not key:
                spots = sorted((*spots, *self.keyed()), key=lambda spot: spot.offset)
            key = f"claude:{self.session}" + (f"/{chain}" if chain else "")
            name = (title if not chain else f"agent {chain}") or ""
            yield Session(key=key, title=name, cwd=self.cwd, spots=spots)
        self.tally.abandoned += len(self.marks) - len(taken) + (0 if key else len(self.loose))

    def keyed(self) -> Iterator[Spot]:
        """The records outside the tree, under the session's name."""
        for spot in self.loose:
            yield msgspec.structs.replace(spot, key=f"{self.session}{spot.key}")

    def path(self, chain: str, taken: set[str]) -> list[Spot]:
        """The records of a conversation in order, counted where they are no words."""
        by_id = {name: mark.branch for name, mark in self.marks.items() if mark.chain == chain}
        order = [branch for branch in self.order if branch.id in by_id]
        for position, branch in enumerate(order):
            branch.position = position
        path = [branch.id for branch in path_to(by_id[self.leaves[chain]], order, by_id)]
        found = {*path, *self.beside(path, order)}
        taken |= found
        marks = [self.marks[branch.id] for branch in order if branch.id in found]
        self.count(marks)
        spots = [mark.spot for mark in marks if not mark.serves]
        return [msgspec.structs.replace(spot, alone=not at) for at, spot in enumerate(spots)]

    def count(self, marks: Iterable[_Mark]) -> None:
        for mark in marks:
            if mark.serves:
                self.tally.left_out[mark.kind] += 1

    def beside(self, path: list[str], order: list[Branch]) -> Iterator[str]:
        """Parts of the same answers, and the results of their calls, that the path passes by."""
        answers = {self.marks[name].message for name in path} - {""}
        passed = [branch.id for branch in order if branch.id not in set(path)]
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


def _serves(kind: str, record: dict[str, Any]) -> bool:
    text = record.get("content")
    silent = not (isinstance(text, str) and text.strip())
    return kind in BOOKKEEPING or (kind == "system" and silent)


def _ids(message: dict[str, Any], kind: str, field_name: str) -> Iterator[str]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == kind:
            yield str(block.get(field_name))


def _is_meta(record: dict[str, Any]) -> bool:
    return record.get("isMeta") is True or record.get("isCompactSummary") is True


def _said(content: object, registry: Registry, *, meta: bool) -> list[Piece]:
    """What a user, a tool or the harness said."""
    pieces: list[Piece] = []
    blocks: list[Any] = content if isinstance(content, list) else [content]
    results = [block for block in blocks if _is_result(block)]
    for block in results:
        output = text_in(block.get("content", ""))
        call_id = str(block.get("tool_use_id", ""))
        item = FunctionCallOutput(call_id=call_id, output=output)
        pieces.append(item_piece(item, registry))
    strange: list[dict[str, Any]] = []
    rest = [block for block in blocks if not _is_result(block)]
    parts = parts_of(rest if isinstance(content, list) else content, strange.append)
    if parts:
        pieces.append(_user(parts, registry, meta=meta))
    return [*pieces, *(kept(json_bytes(block), "claude") for block in strange)]


def _is_result(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _user(parts: tuple[Part, ...], registry: Registry, *, meta: bool) -> Piece:
    """A user's message; what the harness put beside their words is marked as such."""
    piece = user_piece(parts, registry)
    told = [number for number, part in enumerate(parts) if _is_told(part)]
    if meta or len(told) == len(parts):
        return Piece(contextual(piece.draft))
    marks = tuple(FragmentMark("imported", part=number) for number in told)
    return Piece(msgspec.structs.replace(piece.draft, fragments=marks), piece.place)


def _is_told(part: Part) -> bool:
    if not isinstance(part, InputText):
        return False
    opens = part.text.lstrip().startswith(_OPENINGS)
    return opens or any(tag.matches(part.text) for tag in _TAGS)


def _answered(content: object, message: dict[str, Any], registry: Registry) -> list[Piece]:
    origin = Origin(
        provider="anthropic",
        api="messages",
        model=clean_id(message.get("model")) or "",
        harness="claude-code",
    )
    blocks: Iterable[object] = content if isinstance(content, list) else [content]
    return [piece for block in blocks for piece in _block(block, origin, registry)]


def _block(block: Any, origin: Origin, registry: Registry) -> Iterator[Piece]:
    match block:
        case str(text) | {"type": "text", "text": str(text)}:
            if text.strip():
                item = Message(role="assistant", content=(OutputText(text=text),))
                yield item_piece(item, registry, origin)
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            arguments = json_bytes(block.get("input", {})).decode()
            call = FunctionCall(name=name, arguments=arguments, call_id=call_id)
            yield item_piece(call, registry, origin)
        case {"type": kind} if kind in THINKING:
            yield item_piece(reasoning_of(block), registry, origin)
        case dict():
            yield kept(json_bytes(block), "claude")
