"""Findings: what is not as it should be with a library, and how to mend it.

Owns the value and its kinds. Invariant: a finding says in one line what is wrong, and in
another what puts it right.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["ENGINE", "FIX", "Finding", "Kind"]

ENGINE = "lossless"
"""Who publishes the recipes that are looked at."""

FIX = "`treadle lossless doctor --fix`"

Kind: TypeAlias = Literal[
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


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is not as it should be."""

    kind: Kind
    thread: str | None = None
    subject: str = ""
    """The node, job or file that it is about."""
    what: str
    remedy: str
    fixable: bool = False
    """Whether it can be put right without losing anything."""
    serious: bool = True
    """Whether something is wrong, rather than merely waiting to be tidied up."""
