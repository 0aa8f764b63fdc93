"""Plots of the results: the images of `docs/benchmarks.md`.

Invariant: a contestant has the same colour in every plot, and Treadle stands out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .peers.contestants import CONTESTANTS
from .peers.figures import STOPS
from .peers.results import Results
from .peers.targets import Medians

__all__ = ["draw", "draw_growth"]

TREADLE = "#c8102e"
GREYS = ("#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")


def draw(results: Results, directory: Path) -> None:
    """Write every plot that there are figures for into a directory."""
    import matplotlib as mpl

    mpl.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    found = results.least
    _turns(found, directory / "peers-turns.png")
    _bars(
        found,
        (("tool_loop", "round_5_ms", "the 5th"), ("tool_loop", "round_55_ms", "the 55th")),
        "a tool round, ms",
        directory / "peers-rounds.png",
    )
    _bars(
        found,
        (("tool_loop", "peak_mb", "a tool loop"), ("turns", "peak_mb", "1,000 turns")),
        "peak memory, MB",
        directory / "peers-memory.png",
    )


def draw_growth(
    found: Mapping[str, Mapping[int, float]], titles: Mapping[str, str], directory: Path
) -> None:
    """Write the plot of how cost grows, each row beside its own smallest size."""
    import matplotlib as mpl

    mpl.use("Agg")
    figure, axes = _axes()
    for number, (name, costs) in enumerate(found.items()):
        least = next(iter(costs.values()))
        shown = [cost / least for cost in costs.values()]
        colour = (TREADLE, *GREYS)[number % (len(GREYS) + 1)]
        axes.plot(list(costs), shown, marker="o", markersize=4, color=colour, label=titles[name])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("how many")
    axes.set_ylabel("cost of one, beside the smallest")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _saved(figure, directory / "growth.png")


def _turns(found: Medians, path: Path) -> None:
    """What a turn costs as its thread grows, both axes logarithmic."""
    if "turns" not in found:
        return
    figure, axes = _axes()
    for name, figures in found["turns"].items():
        costs = [figures[f"turn_{stop}_ms"] for stop in STOPS]
        width = 3.0 if name == "treadle" else 1.5
        axes.plot(
            STOPS,
            costs,
            marker="o",
            markersize=4,
            color=_colour(name),
            linewidth=width,
            label=_title(name),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(STOPS, [f"{stop:,}" for stop in STOPS])
    axes.minorticks_off()
    axes.set_xlabel("turn of the thread")
    axes.set_ylabel("from an answer to the next request, ms")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _saved(figure, path)


def _bars(found: Medians, series: Sequence[tuple[str, str, str]], label: str, path: Path) -> None:
    """Bars for each contestant that has all the figures, on a logarithmic axis."""
    names = [
        name
        for name in CONTESTANTS
        if all(figure in found.get(scenario, {}).get(name, {}) for scenario, figure, _ in series)
    ][::-1]
    if not names:
        return
    figure, axes = _axes()
    height = 0.8 / len(series)
    for place, (scenario, what, title) in enumerate(series):
        values = [found[scenario][name][what] for name in names]
        rows = [number - place * height for number in range(len(names))]
        colours = [_colour(name) for name in names]
        bars = axes.barh(rows, values, height, color=colours, alpha=1 - 0.45 * place, label=title)
        axes.bar_label(bars, [f" {value:,.3g} ({title})" for value in values], fontsize=7)
    axes.set_yticks([n - height / 2 for n in range(len(names))], [_title(name) for name in names])
    axes.set_xscale("log")
    axes.margins(x=0.35)
    axes.set_xlabel(label)
    _saved(figure, path)


def _axes() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _saved(figure: Any, path: Path) -> None:
    # Without the version of the library, so that the same plot is the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _colour(name: str) -> str:
    if name.startswith("treadle"):
        return TREADLE
    others = [each for each in CONTESTANTS if not each.startswith("treadle")]
    return GREYS[others.index(name) % len(GREYS)]


def _title(name: str) -> str:
    return CONTESTANTS[name].title.replace("`", "")
