from __future__ import annotations

import re
import runpy
from pathlib import Path

from treadle.prompt import Fragment, Markers, default_registry

PAGE = (Path(__file__).parents[2] / "docs" / "fragments.md").read_text()
REGISTRY = default_registry()
DEPENDENT = {"application_context": "`<KEY>`", "external_context": "`<external_KEY>`"}


def row(cls: type[Fragment]) -> str:
    told = {None: "once", "turn": "turn", "rebase": "new base"}[_told(cls)]
    own = ", own message" if cls.separate else ""
    markers = DEPENDENT.get(cls.id) or _shown(cls.markers)
    return f"| `{cls.id}` | {cls.role} | {markers} | {told}{own} | {cls.cap_tokens:,} |"


def _told(cls: type[Fragment]) -> str | None:
    state_id = REGISTRY.state_of(cls.id)
    return next((state.when for state in REGISTRY.states if state.id == state_id), None)


def _shown(markers: Markers | None) -> str:
    if markers is None:
        return "none"
    shown = f"`{markers.start}`"
    return f"{shown} … `{markers.end}`" if shown[1] != "<" and markers.end else shown


def test_the_table_shows_every_built_in_fragment_as_it_is():
    table = PAGE.partition("<!-- table: start -->")[2].partition("<!-- table: end -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == [row(cls) for cls in REGISTRY.fragments]


def test_the_example_runs_as_it_stands(tmp_path: Path):
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "example.py"
    file.write_text(example)
    assert runpy.run_path(str(file))["text"].startswith("<git_branch>")


def test_adding_one_takes_six_steps():
    steps = PAGE.partition("in six steps")[2]
    assert re.findall(r"(?m)^(\d)\. \*\*", steps) == list("123456")
