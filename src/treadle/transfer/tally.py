"""Tallies: what an import met on its way.

Owns the counts and sentences of which a report is made. Invariant: whatever a file
holds is imported, kept, left out or complained about; nothing goes uncounted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["MOST_COMPLAINTS", "Tally"]

MOST_COMPLAINTS = 20
"""So many sentences are kept; the counts go on."""


@dataclass(slots=True)
class Tally:
    """Counts over one or more files."""

    kept: Counter[str] = field(default_factory=Counter)
    """Records that no model should see, kept verbatim, by type."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that only repeat or serve others, by type."""
    abandoned: int = 0
    """Records of branches that the conversation did not take."""
    torn: int = 0
    malformed: int = 0
    too_long: int = 0
    complaints: list[str] = field(default_factory=list)

    def complain(self, sentence: str) -> None:
        """Keep a sentence for the report, unless there are many."""
        if len(self.complaints) < MOST_COMPLAINTS:
            self.complaints.append(sentence)
