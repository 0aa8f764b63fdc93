"""Writes docs/events.md: every event of a turn, from its docstrings and types.

python scripts/events_page.py         # writes the page; a test checks that it is current
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import get_args

import msgspec

from treadle.harness import events

PAGE = Path(__file__).resolve().parent.parent / "docs" / "events.md"

_HEAD = """\
# Events

What a host hears while a turn runs: `thread.run` yields these values, `thread.observers` get
them too, and `treadle exec --json` prints each as a line of JSON with the name below as its
`type`. Except for deltas, an event reports something that is durable. New events and new fields
may come in any release, so ignore what you do not know ([what stays compatible](compatibility.md)).

`treadle exec --json` begins with `{"type": "thread.started", "thread_id": …}`. If the turn could
not end, its last line is `{"type": "error", "message": …}`.

`python scripts/events_page.py` generates this page.

| type | class | means |
|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    classes = get_args(events.Event)
    rows = [
        f"| [`{_tag(each)}`](#{_anchor(each)}) | `{each.__name__}` | {_doc(each)} |"
        for each in classes
    ]
    return _HEAD + "\n".join(rows) + "\n\n" + "\n".join(map(_section, classes))


def _section(event: type[msgspec.Struct]) -> str:
    lines = [f"## {_tag(event)}\n", f"`{event.__name__}`: {_doc(event)}\n"]
    told = _told_of_fields(event)
    names = event.__struct_fields__
    if names:
        lines += ["| field | type | |", "|---|---|---|"]
        lines += [f"| `{name}` | `{_type(event, name)}` | {told.get(name, '')} |" for name in names]
        lines.append("")
    return "\n".join(lines)


def _tag(event: type[msgspec.Struct]) -> str:
    return str(event.__struct_config__.tag)


def _anchor(event: type[msgspec.Struct]) -> str:
    return re.sub(r"[^\w-]", "", _tag(event))


def _doc(value: object) -> str:
    return " ".join((inspect.getdoc(value) or "").split())


def _type(event: type[msgspec.Struct], name: str) -> str:
    annotation = str(event.__annotations__[name])
    return annotation.replace("|", "\\|").replace('"', "'")


def _told_of_fields(event: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings that stand below the fields of a class."""
    body = ast.parse(inspect.getsource(event)).body[0]
    assert isinstance(body, ast.ClassDef)
    told: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                told[name] = " ".join(text.replace("``", "`").split())
            case _:
                pass
    return told


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
