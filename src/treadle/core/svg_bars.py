"""Bars as a picture, for pages and files.

Owns how they look. Invariant: a picture needs no fonts, no scripts and no other file, and every
bar stands beside its figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec import Struct

__all__ = ["SvgBar", "draw_svg"]

_ROW = 22
_LEFT, _RIGHT, _ACROSS = 220, 120, 760


class SvgBar(Struct, frozen=True):
    """A bar: what it is about, how long it is, and its figure in words."""

    label: str
    amount: float
    shown: str


def draw_svg(title: str, bars: Sequence[SvgBar]) -> str:
    """Return the picture; the longest bar takes all of the room."""
    most = max((bar.amount for bar in bars), default=0.0) or 1.0
    height = _ROW * (len(bars) + 2)
    room = _ACROSS - _LEFT - _RIGHT
    rows = []
    for number, bar in enumerate(bars):
        top = _ROW * (number + 1)
        long = bar.amount / most * room
        rows.append(
            f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(bar.label)}</text>'
            f'<rect x="{_LEFT}" y="{top + 3}" width="{long:.1f}" height="{_ROW - 6}" rx="2"/>'
            f'<text x="{_LEFT + long + 6:.1f}" y="{top + 15}">{escape(bar.shown)}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_ACROSS} {height}" '
        f'width="{_ACROSS}" height="{height}" role="img" aria-label="{escape(title)}">\n'
        "<style>text{font:12px sans-serif;fill:#444}rect{fill:#3b82c4}"
        "@media(prefers-color-scheme:dark){text{fill:#ccc}}</style>\n"
        f'<text x="8" y="15">{escape(title)}</text>\n' + "\n".join(rows) + "\n</svg>\n"
    )
