"""The rules that views, nodes and jobs keep, and the findings where one is broken.

Owns the finding and its kinds, and every rule that needs nothing but what was read; pure.
Invariants: a finding says in one line what is wrong and in another what puts it right;
what turns themselves bring about is no finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct

from ....core.entries import Node, Range
from ....store.contract import OutboxRow
from ..library import LEASE_MS
from ..nodes import SummaryNode
from .inspect_library import ENGINE, LibraryContents, LoggedRecipe, LoggedThread, PendingJob

__all__ = [
    "FIX",
    "DoctorFinding",
    "FindingKind",
    "check_jobs",
    "check_leftovers",
    "check_nodes",
    "check_outbox",
    "check_view",
    "nodes_in_use",
]

FIX = "`treadle lossless doctor --fix`"
_MANY = 3

FindingKind: TypeAlias = Literal[
    "damaged_file",
    "lost_node",
    "lost_blob",
    "outside_log",
    "overlap",
    "gap",
    "lost_child",
    "condensed_extract",
    "ahead_of_log",
    "behind_log",
    "orphaned_job",
    "expired_lease",
    "degraded_node",
    "left_behind",
]


class DoctorFinding(Struct, frozen=True, kw_only=True):
    """Something that is wrong with a library or with what the logs show of it."""

    kind: FindingKind
    thread: str | None = None
    subject: str = ""
    """The node, job or file that it is about."""
    what: str
    remedy: str
    fixable: bool = False
    """Whether it can be put right without losing anything."""
    serious: bool = True
    """Whether something is wrong, rather than merely waiting to be tidied up."""


def check_view(logged: LoggedThread) -> Iterator[DoctorFinding]:
    """Check that the view stands for every entry of the conversation, once and in order."""
    recipes = [recipe for recipe in logged.recipes if recipe.parts]
    if not recipes or recipes[-1].by != ENGINE:
        return
    newest = recipes[-1]
    thread = logged.info.id
    remedy = f"report this, and go on from before it: treadle fork {thread} --at {newest.seq - 1}"
    for left, right in pairwise(newest.parts):
        if right.first <= left.last:
            yield DoctorFinding(
                kind="overlap",
                thread=thread,
                subject=str(newest.seq),
                what=f"the view shows {_part_name(right)} after {_part_name(left)}, "
                "so that some of it stands there twice or out of order",
                remedy=remedy,
            )
    # What another engine left out before is not for this one to show.
    since = max((recipe.seq for recipe in logged.recipes if recipe.by != ENGINE), default=0)
    missing = _missing_entries(
        newest, [seq for seq in logged.conversation if since < seq < newest.seq]
    )
    if missing:
        more = f" and {len(missing) - _MANY} more" if len(missing) > _MANY else ""
        yield DoctorFinding(
            kind="gap",
            thread=thread,
            subject=str(newest.seq),
            what=f"the view stands for neither of entries "
            f"{', '.join(map(str, missing[:_MANY]))}{more}",
            remedy=remedy,
        )


def _missing_entries(recipe: LoggedRecipe, conversation: Sequence[int]) -> list[int]:
    """Return the entries that no part of a recipe stands for."""
    parts = sorted((part.first, part.last) for part in recipe.parts)
    found: list[int] = []
    at = 0
    for seq in conversation:
        while at < len(parts) and parts[at][1] < seq:
            at += 1
        if at == len(parts) or seq < parts[at][0]:
            found.append(seq)
    return found


def _part_name(part: Range | Node) -> str:
    name = part.id if isinstance(part, Node) else "entries"
    return f"{name} ({part.first} to {part.last})"


def check_nodes(
    contents: LibraryContents, logs: Mapping[str, LoggedThread], in_use: Collection[str]
) -> Iterator[DoctorFinding]:
    """Check that nodes lie in their logs, have their children, and were written by a model."""
    for node in contents.nodes.values():
        logged = logs.get(node.thread)
        inside = logged is None or 1 <= node.first <= node.last <= logged.info.last
        if not inside and node.id not in in_use:
            yield DoctorFinding(
                kind="outside_log",
                thread=node.thread,
                subject=node.id,
                what=f"summary {node.id} stands for entries {node.first} to {node.last}, "
                "which the log does not have",
                remedy=f"nothing shows it; {FIX} drops it",
                fixable=True,
            )
        yield from _check_children(node, contents)
    yield from _check_extracts(contents, logs)


def nodes_in_use(contents: LibraryContents, logs: Mapping[str, LoggedThread]) -> frozenset[str]:
    """Return the nodes that a living thread shows, and those below them."""
    names = {part.id for one in logs.values() for recipe in one.recipes for part in recipe.nodes}
    waiting = list(names)
    while waiting:
        node = contents.nodes.get(waiting.pop())
        children = set(node.children if node else ()) - names
        names |= children
        waiting += children
    return frozenset(names)


def _check_children(node: SummaryNode, contents: LibraryContents) -> Iterator[DoctorFinding]:
    lost = [child for child in node.children if child not in contents.nodes]
    if lost:
        yield DoctorFinding(
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
        if child in contents.nodes and contents.nodes[child].degraded:
            yield DoctorFinding(
                kind="condensed_extract",
                thread=node.thread,
                subject=node.id,
                what=f"summary {node.id} was condensed from {child}, which is only an extract",
                remedy="report this: extracts are never condensed; open the entries themselves "
                f"with treadle recall expand {node.thread}:{node.first}-{node.last}",
            )


def _check_extracts(
    contents: LibraryContents, logs: Mapping[str, LoggedThread]
) -> Iterator[DoctorFinding]:
    """Check that every extract in a view has a job to be written by a model.

    Those that a fork shares have theirs with the thread they are from.
    """
    written = {node.key for node in contents.nodes.values() if not node.degraded}
    queued = {(job.thread, job.key) for job in contents.jobs}
    for thread, logged in logs.items():
        newest = logged.recipes[-1] if logged.recipes else None
        for part in newest.nodes if newest is not None and newest.by == ENGINE else ():
            node = contents.nodes.get(part.id)
            if node is None or node.thread != thread or not node.degraded or node.key in written:
                continue
            if (thread, node.key) not in queued and node.depth == 0:
                yield DoctorFinding(
                    kind="degraded_node",
                    thread=thread,
                    subject=node.id,
                    what=f"summary {node.id} is an extract, and no job to write it anew waits",
                    remedy=f"{FIX} queues it; a turn with a model then writes it",
                    fixable=True,
                    serious=False,
                )


def check_jobs(
    contents: LibraryContents, logs: Mapping[str, LoggedThread], now: int
) -> Iterator[DoctorFinding]:
    """Check that jobs are still needed, and not leased by a worker that is gone."""
    for job in contents.jobs:
        if (reason := _why_not_needed(job, logs.get(job.thread))) is not None:
            yield DoctorFinding(
                kind="orphaned_job",
                thread=job.thread,
                subject=job.key,
                what=f"a summary of entries {job.first} to {job.last} is owed, but {reason}",
                remedy=f"{FIX} drops the job",
                fixable=True,
                serious=False,
            )
        elif job.leased and not now < job.until <= now + LEASE_MS:
            yield DoctorFinding(
                kind="expired_lease",
                thread=job.thread,
                subject=job.key,
                what=f"whoever was to summarise entries {job.first} to {job.last} never ended",
                remedy=f"the next turn takes the job up; {FIX} frees it now",
                fixable=True,
                serious=False,
            )


def _why_not_needed(job: PendingJob, logged: LoggedThread | None) -> str | None:
    """Return why nobody needs a summary any more; None where somebody does."""
    if logged is None:
        return "its thread was deleted"
    if job.last > logged.info.last:
        return f"the log ends at {logged.info.last}"
    ends = (job.first, job.last)
    if any(first <= end <= last for first, last in logged.hidden for end in ends):
        return "they were rolled back"
    return None


def check_outbox(rows: Sequence[OutboxRow]) -> Iterator[DoctorFinding]:
    """Check that every turn that is over has reached the engine."""
    ended = [row for row in rows if row.state != "admitted"]
    for thread in dict.fromkeys(row.thread for row in ended):
        own = [row for row in ended if row.thread == thread]
        errors = [row.error for row in own if row.error]
        why = f", last: {errors[-1]}" if errors else ""
        blocked = any(row.state == "blocked" for row in own)
        yield DoctorFinding(
            kind="behind_log",
            thread=thread,
            subject=thread,
            what=f"{len(own)} turns have not reached the engine{why}",
            remedy="some cannot be read and were put aside; `treadle doctor` looks at the log"
            if blocked
            else "the thread's next turn hands them over",
            serious=blocked,
        )


def check_leftovers(
    contents: LibraryContents, alive: Collection[str], in_use: Collection[str]
) -> Iterator[DoctorFinding]:
    """Check that nothing is left of threads that were deleted."""
    for thread in sorted(contents.threads - set(alive)):
        summaries = sum(
            node.thread == thread and node.id not in in_use for node in contents.nodes.values()
        )
        notes = contents.notes.get(thread, 0)
        if summaries or notes or thread in contents.turns or thread in contents.guided:
            yield DoctorFinding(
                kind="left_behind",
                thread=thread,
                subject=thread,
                what=f"{summaries} summaries and {notes} notes are left of a thread "
                "that was deleted",
                remedy=f"{FIX} forgets them",
                fixable=True,
                serious=False,
            )
