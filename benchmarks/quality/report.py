"""What trials found, as a table, a plot and JSON.

Invariant: a figure is a share of questions that were answered right, and says of how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .spoken import Source
from .trial import CONDITIONS, Outcome

__all__ = ["draw", "in_order", "misses", "table"]

SOURCES: tuple[Source, ...] = ("user", "assistant", "tool")
COLOURS = {"user": "#1f77b4", "assistant": "#2ca02c", "tool": "#c8102e"}
_HEADINGS = (
    *("talk", "condition", "right", "user", "agent", "tool"),
    *("recalled", "searches", "tokens in view", "tokens a request", "folding, s"),
)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table, a line for each trial."""
    rows = [_HEADINGS, ("---",) * len(_HEADINGS), *map(_row, outcomes)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(found: Outcome) -> tuple[str, ...]:
    by_source = [_count(found, source) for source in SOURCES]
    asked = len(found.replies)
    return (
        found.language + (f", home of {found.crowd:,}" if found.crowd else ""),
        found.condition,
        f"{_count(found)} of {asked}",
        *by_source,
        str(sum(reply.recalled for reply in found.replies)),
        str(sum(reply.searches for reply in found.replies)),
        f"{found.view_after:,} of {found.view_before:,}",
        f"{sum(reply.prompt_tokens for reply in found.replies) // max(asked, 1):,}",
        f"{found.fold_seconds:.1f}",
    )


def _count(found: Outcome, source: str = "") -> str:
    return str(sum(reply.right for reply in found.replies if source in {"", reply.source}))


def misses(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line for each question that was not answered right."""
    for found in outcomes:
        for reply in found.replies:
            if not reply.right:
                said = reply.error or " ".join(reply.text.split()) or "nothing"
                yield (
                    f"{found.language} {found.condition} ({reply.source}): {reply.question} "
                    f"wanted {reply.needed!r}, got: {said[:160]}"
                )


def draw(outcomes: Sequence[Outcome], title: str, path: Path) -> None:
    """Draw the share of right answers by source, a group of bars for each trial."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(max(6, 1.1 * len(outcomes)), 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    for place, source in enumerate(SOURCES):
        left = [number + (place - 1) * 0.26 for number in range(len(outcomes))]
        shares = [found.share(source) for found in outcomes]
        axes.bar(left, shares, 0.24, color=COLOURS[source], label=f"told by the {source}")
    names = [
        f"{found.condition}\n{found.language}" + (f"\n{found.crowd:,}" if found.crowd else "")
        for found in outcomes
    ]
    axes.set_xticks(range(len(outcomes)), names, fontsize=8)
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("answered right")
    axes.set_title(title, fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return trials by talk and crowd, and within them in the order of the conditions."""
    return sorted(
        outcomes,
        key=lambda one: (one.language != "en", one.crowd, CONDITIONS.index(one.condition)),
    )
