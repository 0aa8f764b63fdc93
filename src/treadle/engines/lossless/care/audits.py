"""Audits: what can be told from the library and the logs, once both were read.

Owns the rules that views, nodes and jobs keep; pure. Invariant: what turns themselves
bring about is no finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from ....core.entries import Node as Part
from ....core.entries import Range
from ....store.contract import OutboxRow
from ..nodes import Node
from .findings import ENGINE, FIX, Finding
from .inventory import Debt, Inventory
from .shown import Base, Shown

__all__ = ["audit_debts", "audit_leftovers", "audit_nodes", "audit_view", "audit_waiting", "needed"]

_MANY = 3


def audit_view(shown: Shown) -> Iterator[Finding]:
    """Whether the view stands for every entry of the conversation, once and in order."""
    recipes = [base for base in shown.bases if base.parts]
    if not recipes or recipes[-1].by != ENGINE:
        return
    base = recipes[-1]
    thread, remedy = shown.info.id, f"treadle fork {shown.info.id} --at {base.seq - 1}"
    for left, right in pairwise(base.parts):
        if right.first <= left.last:
            yield Finding(
                kind="overlap",
                thread=thread,
                subject=str(base.seq),
                what=f"the view shows {_named(right)} after {_named(left)}, "
                "so that some of it stands there twice or out of order",
                remedy=f"report this, and go on from before it: {remedy}",
            )
    # What another engine left out before is not for this one to show.
    others = [one.seq for one in shown.bases if one.by != ENGINE]
    since = max(others, default=0)
    missing = _uncovered(base, [seq for seq in shown.said if since < seq < base.seq])
    if missing:
        more = f" and {len(missing) - _MANY} more" if len(missing) > _MANY else ""
        yield Finding(
            kind="gap",
            thread=thread,
            subject=str(base.seq),
            what=f"the view stands for neither of entries "
            f"{', '.join(map(str, missing[:_MANY]))}{more}",
            remedy=f"report this, and go on from before it: {remedy}",
        )


def _uncovered(base: Base, said: Sequence[int]) -> list[int]:
    """Entries that no part of a recipe stands for."""
    parts = sorted((part.first, part.last) for part in base.parts)
    found: list[int] = []
    at = 0
    for seq in said:
        while at < len(parts) and parts[at][1] < seq:
            at += 1
        if at == len(parts) or seq < parts[at][0]:
            found.append(seq)
    return found


def _named(part: Range | Part) -> str:
    name = part.id if isinstance(part, Part) else "entries"
    return f"{name} ({part.first} to {part.last})"


def audit_nodes(
    held: Inventory, logs: Mapping[str, Shown], kept: Collection[str]
) -> Iterator[Finding]:
    """Whether nodes lie in their logs, have their children, and are written well."""
    for node in held.nodes.values():
        shown = logs.get(node.thread)
        inside = shown is None or 1 <= node.first <= node.last <= shown.info.last
        if not inside and node.id not in kept:
            yield Finding(
                kind="outside_log",
                thread=node.thread,
                subject=node.id,
                what=f"summary {node.id} stands for entries {node.first} to {node.last}, "
                "which the log does not have",
                remedy=f"nothing shows it; {FIX} drops it",
                fixable=True,
            )
        yield from _of_children(node, held)
    yield from _degraded(held, logs)


def needed(held: Inventory, logs: Mapping[str, Shown]) -> frozenset[str]:
    """The nodes that a living thread shows, and those under them."""
    names = {part.id for shown in logs.values() for base in shown.bases for part in base.nodes}
    waiting = list(names)
    while waiting:
        node = held.nodes.get(waiting.pop())
        children = set(node.children if node else ()) - names
        names |= children
        waiting += children
    return frozenset(names)


def _of_children(node: Node, held: Inventory) -> Iterator[Finding]:
    lost = [child for child in node.children if child not in held.nodes]
    if lost:
        yield Finding(
            kind="lost_child",
            thread=node.thread,
            subject=node.id,
            what=f"summary {node.id} was made of {', '.join(lost)}, which the library lacks",
            remedy=f"its own entries can still be opened: "
            f"treadle recall expand {node.thread}:{node.first}-{node.last}; "
            f"{FIX} takes over those that an older recipe shows",
            serious=False,
        )
    for child in node.children if node.depth else ():
        if child in held.nodes and held.nodes[child].degraded:
            yield Finding(
                kind="condensed_extract",
                thread=node.thread,
                subject=node.id,
                what=f"summary {node.id} was condensed from {child}, which is only an extract",
                remedy="report this: extracts are never condensed; open the entries themselves "
                f"with treadle recall expand {node.thread}:{node.first}-{node.last}",
            )


def _degraded(held: Inventory, logs: Mapping[str, Shown]) -> Iterator[Finding]:
    """Extracts that a view shows, and nobody is asked to write anew."""
    better = {node.key for node in held.nodes.values() if not node.degraded}
    owed = {(debt.thread, debt.key) for debt in held.debts}
    for thread, shown in logs.items():
        newest = shown.bases[-1] if shown.bases else None
        for part in newest.nodes if newest is not None and newest.by == ENGINE else ():
            node = held.nodes.get(part.id)
            if node is None or not node.degraded or node.key in better:
                continue
            if (thread, node.key) not in owed and node.depth == 0:
                yield Finding(
                    kind="degraded_node",
                    thread=thread,
                    subject=node.id,
                    what=f"summary {node.id} is an extract, and no job to write it anew waits",
                    remedy=f"{FIX} queues it; a turn with a model then writes it",
                    fixable=True,
                    serious=False,
                )


def audit_debts(held: Inventory, logs: Mapping[str, Shown], now: int) -> Iterator[Finding]:
    """Whether jobs are about something, and in somebody's hands."""
    for debt in held.debts:
        if (why := _orphaned(debt, logs.get(debt.thread))) is not None:
            yield Finding(
                kind="orphaned_job",
                thread=debt.thread,
                subject=debt.key,
                what=f"a summary of entries {debt.first} to {debt.last} is owed, but {why}",
                remedy=f"{FIX} drops the job",
                fixable=True,
                serious=False,
            )
        elif debt.leased and debt.until <= now:
            yield Finding(
                kind="expired_lease",
                thread=debt.thread,
                subject=debt.key,
                what=f"whoever was to summarise entries {debt.first} to {debt.last} never ended",
                remedy=f"the next turn takes the job up; {FIX} frees it now",
                fixable=True,
                serious=False,
            )


def _orphaned(debt: Debt, shown: Shown | None) -> str | None:
    """Why nobody needs a summary any more."""
    if shown is None:
        return "its thread was deleted"
    if debt.last > shown.info.last:
        return f"the log ends at {shown.info.last}"
    ends = (debt.first, debt.last)
    if any(first <= end <= last for first, last in shown.hidden for end in ends):
        return "they were rolled back"
    return None


def audit_waiting(rows: Sequence[OutboxRow]) -> Iterator[Finding]:
    """Whether every turn that is over has reached the engine."""
    ended = [row for row in rows if row.state != "admitted"]
    for thread in dict.fromkeys(row.thread for row in ended):
        own = [row for row in ended if row.thread == thread]
        errors = [row.error for row in own if row.error]
        why = f", last: {errors[-1]}" if errors else ""
        blocked = any(row.state == "blocked" for row in own)
        yield Finding(
            kind="behind_log",
            thread=thread,
            subject=thread,
            what=f"{len(own)} turns have not reached the engine{why}",
            remedy="some cannot be read and were put aside; `treadle doctor` looks at the log"
            if blocked
            else "the thread's next turn hands them over",
            serious=blocked,
        )


def audit_leftovers(
    held: Inventory, alive: Collection[str], kept: Collection[str]
) -> Iterator[Finding]:
    """What is still known of threads that were deleted."""
    for thread in sorted(held.threads - set(alive)):
        made = sum(node.thread == thread and node.id not in kept for node in held.nodes.values())
        notes, told = held.notes.get(thread, 0), thread in held.turns or thread in held.told
        if made or notes or told:
            yield Finding(
                kind="left_behind",
                thread=thread,
                subject=thread,
                what=f"{made} summaries and {notes} notes are left of a thread that was deleted",
                remedy=f"{FIX} forgets them",
                fixable=True,
                serious=False,
            )
