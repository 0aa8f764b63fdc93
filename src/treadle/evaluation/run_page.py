"""The page of a run: one HTML file with its table and its plots.

Invariant: it needs nothing but itself, runs no script, and shows no byte of a task unescaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from ..core.svg_bars import SvgBar, draw_svg
from .results import AttemptResult
from .run_directory import RunPlan
from .run_report import COLUMNS, Summed, rows_of, summed, sums_by_task, trouble

__all__ = ["draw_page"]

_LONGEST = 28
_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}
td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8884}
td:first-child,th:first-child{text-align:left}
tr:last-child td{font-weight:bold}
svg{max-width:100%;height:auto;display:block;margin:1.2rem 0}
dt{font-weight:bold}
"""

_PLOTS: tuple[tuple[str, Callable[[Summed], float], Callable[[Summed], str]], ...] = (
    ("Solved", lambda s: s.solved / s.attempts, lambda s: f"{s.solved} of {s.attempts}"),
    ("Cost", lambda s: sum(s.cost.amounts.values()), lambda s: str(s.cost)),
    (
        "Tokens, in and out",
        lambda s: s.input_tokens + s.output_tokens,
        lambda s: f"{s.input_tokens + s.output_tokens:,}",
    ),
    (
        "Cached share of the input",
        lambda s: s.cached_share or 0.0,
        lambda s: "not known" if s.cached_share is None else f"{s.cached_share:.1%}",
    ),
    ("Prefix breaks", lambda s: s.breaks, lambda s: f"{s.breaks:,}"),
    ("Time", lambda s: s.seconds, lambda s: f"{s.seconds:,.1f} s"),
)


def draw_page(plan: RunPlan, results: Sequence[AttemptResult]) -> str:
    """Return the page of a run, as far as it has come."""
    planned = len(plan.tasks) * plan.attempts
    total = summed("all", results)
    title = f"{plan.model}: {total.solved} of {len(results)} solved"
    about = f"{len(results)} of {planned} attempts are over. Harness {plan.harness}, "
    about += f"engine {plan.engine}."
    sums = sums_by_task(plan, results)
    plots = [_plot(name, sums, amount, shown) for name, amount, shown in _PLOTS] if sums else []
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(about)}</p>\n"
        + _table(plan, results)
        + "\n".join(plots)
        + _troubles(results)
        + "</body>\n</html>\n"
    )


def _plot(
    title: str,
    sums: Sequence[Summed],
    amount: Callable[[Summed], float],
    shown: Callable[[Summed], str],
) -> str:
    return draw_svg(title, [SvgBar(_fit(each.name), amount(each), shown(each)) for each in sums])


def _fit(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _table(plan: RunPlan, results: Sequence[AttemptResult]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name, _ in COLUMNS)
    rows = [
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows_of(plan, results)
    ]
    return (
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + ("\n</tbody>\n</table>\n")
    )


def _troubles(results: Sequence[AttemptResult]) -> str:
    said = [
        f"<dt>{escape(each.task)} #{each.attempt}</dt><dd>{escape(why)}</dd>"
        for each in results
        if (why := trouble(each))
    ]
    return "<h2>Not solved</h2>\n<dl>\n" + "\n".join(said) + "\n</dl>\n" if said else ""
