"""Logs: the log of each thread, compared with what its hosts were told.

Owns the rows about items, turns and calls. Only what a thread wrote itself is looked
at; what it shares with the thread it was forked from is looked at there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...core.entries import Entry
from ...core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    LocalShellCall,
    Message,
    text_of,
)
from ...store.contract import Store, ThreadInfo, Turn
from .evidence import Begun, Ended, Evidence, Logged, Returned, Submitted, digest
from .findings import Finding, Report

__all__ = ["ThreadAcks", "audit_log"]

_STATES = {"completed": "completed", "failed": "failed", "interrupted": "aborted"}
_CALLS = (FunctionCall, CustomToolCall, LocalShellCall)
_RESULTS = (FunctionCallOutput, CustomToolCallOutput)


@dataclass(slots=True)
class ThreadAcks:
    """The acknowledgements of one thread."""

    submitted: list[Submitted] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    logged: list[Logged] = field(default_factory=list)
    returned: list[Returned] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)

    @staticmethod
    def by_thread(evidence: Evidence) -> dict[str, ThreadAcks]:
        """Return the acknowledgements of each thread."""
        found: defaultdict[str, ThreadAcks] = defaultdict(ThreadAcks)
        for ack in evidence.acks:
            acks = found[ack.thread]
            match ack:
                case Submitted():
                    acks.submitted.append(ack)
                case Begun():
                    acks.begun.append(ack)
                case Logged():
                    acks.logged.append(ack)
                case Returned():
                    acks.returned.append(ack)
                case Ended():
                    acks.ended.append(ack)
        return dict(found)


@dataclass(slots=True)
class _Log:
    """One thread, read once."""

    thread: str
    entries: dict[int, Entry]
    turns: dict[str, Turn]
    evidence: Evidence
    calls: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    outputs: dict[str, FunctionCallOutput | CustomToolCallOutput] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)
    inputs: list[str] = field(default_factory=list)
    named: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        pattern = re.compile(self.evidence.words) if self.evidence.words else None
        for entry in self._own():
            item = entry.item
            if entry.id and not isinstance(item, _CALLS):
                self.named[entry.id] += 1
            if isinstance(item, _CALLS):
                self.calls[item.call_id or ""] += 1
            elif isinstance(item, _RESULTS):
                self.results[item.call_id or ""] += 1
                self.outputs[item.call_id or ""] = item
            elif isinstance(item, Message):
                self._message(item, entry, pattern)

    def _message(self, item: Message, entry: Entry, pattern: re.Pattern[str] | None) -> None:
        text = text_of(item.content)
        if item.role == "user" and not entry.flags:
            self.inputs.append(text)
        elif item.role == "assistant" and pattern is not None:
            self.words.update(set(pattern.findall(text)))

    def _own(self) -> Iterator[Entry]:
        for entry in self.entries.values():
            if entry.kind == "item" and entry.thread == self.thread:
                yield entry

    def lost_items(self, acks: ThreadAcks) -> Iterator[Finding]:
        for ack in acks.logged:
            entry = self.entries.get(ack.seq)
            if entry is None or digest(entry.body) != ack.digest:
                how = "is not there" if entry is None else "is another one"
                yield self._finding("lost", f"item {ack.seq} was told of and {how}")
        for returned in acks.returned:
            # A call that the log refused never ran; that it was aborted tells of nothing.
            if returned.success and not self.results[returned.call]:
                yield self._finding("lost", f"the result of {returned.call!r} was told of")
        begun = {ack.turn for ack in acks.begun}
        for submitted in acks.submitted:
            if submitted.turn in begun and not any(submitted.text in text for text in self.inputs):
                yield self._finding("lost", f"the input {submitted.text!r} of an admitted turn")

    def duplicates(self, acks: ThreadAcks) -> Iterator[Finding]:
        sent = self.evidence.sent
        for word, count in self.words.items():
            if count > sent.get(word, 1):
                yield self._finding("doubled", f"{word!r} was said once and stands {count} times")
        for name, count in self.named.items():
            if count > sent.get(name, 1):
                yield self._finding("doubled", f"item {name!r} stands {count} times")
        for call, count in self.calls.items():
            if count > sent.get(call, 1):
                yield self._finding("doubled", f"call {call!r} stands {count} times")
        for text in {submitted.text for submitted in acks.submitted}:
            count = sum(text in each for each in self.inputs)
            if count > 1:
                yield self._finding("doubled", f"the input {text!r} stands {count} times")

    def lost_turns(self, acks: ThreadAcks) -> Iterator[Finding]:
        for begun in acks.begun:
            turn = self.turns.get(begun.turn)
            if turn is None or turn.number != begun.number:
                yield self._finding("turns_lost", f"turn {begun.turn!r} was admitted")
        for ended in acks.ended:
            turn = self.turns.get(ended.turn)
            state = None if turn is None else turn.state
            # A turn that was broken off may be asked for once more, and then ends otherwise.
            completed = ended.status == "completed" and ended.durable
            if completed and state != _STATES[ended.status]:
                yield self._finding("turns_lost", f"turn {ended.turn!r} was completed, is {state}")

    def call_defects(self) -> Iterator[Finding]:
        for call, count in self.calls.items():
            if self.results[call] < count:
                yield self._finding("open_calls", f"{call!r} has no result")
            if self.results[call] > count:
                yield self._finding("extra_results", f"{call!r} has {self.results[call]} results")
        for call in self.results.keys() - self.calls.keys() - self.evidence.strays:
            yield self._finding("extra_results", f"{call!r} has a result and was never made")

    def effect_defects(self, acks: ThreadAcks) -> Iterator[Finding]:
        effects = self.evidence.effects
        if effects is None:
            return
        for call, count in self.calls.items():
            if effects[call] > max(count, self.evidence.sent.get(call, 1)):
                yield self._finding("done_twice", f"{call!r} was carried out {effects[call]} times")
        for ack in acks.returned:
            output = self.outputs.get(ack.call)
            claims = output is not None and f"done {ack.call}" in text_of(output.output)
            if claims and not effects[ack.call]:
                yield self._finding("not_done", f"{ack.call!r} says that it was carried out")

    def _finding(self, row: str, what: str) -> Finding:
        return Finding(row, self.thread, what)


async def audit_log(store: Store, info: ThreadInfo, acks: ThreadAcks, evidence: Evidence) -> Report:
    """Return the defects of one thread's log."""
    entries = {entry.seq: entry for entry in await store.read(info.id)}
    turns = {turn.id: turn for turn in await store.turns(info.id)}
    log = _Log(info.id, entries, turns, evidence)
    findings: Iterable[Finding] = (
        *_gaps(info.id, entries),
        *log.lost_items(acks),
        *log.duplicates(acks),
        *log.lost_turns(acks),
        *log.call_defects(),
        *log.effect_defects(acks),
    )
    return Report.of(
        findings,
        threads=1,
        entries=len(entries),
        turns=len(turns),
        calls=sum(log.calls.values()),
        acknowledged=len(acks.logged),
    )


def _gaps(thread: str, entries: dict[int, Entry]) -> Iterator[Finding]:
    for seq in sorted(set(range(1, len(entries) + 1)) - entries.keys()):
        yield Finding("lost", thread, f"entry {seq} is missing")
