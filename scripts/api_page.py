"""Writes docs/api.md: the public names of the package, from their docstrings.

python scripts/api_page.py            # writes the page; a test checks that it is current
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import treadle

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"

_HEAD = """\
# The API

Every public name of `import treadle`, with its docstring. `python scripts/api_page.py`
generates this page. Each name loads its module at first use.
"""

_ROOMS = {
    "thread": "Threads and their options",
    "harness.events": "Events",
    "tools": "Tools",
    "hooks": "Hooks",
    "engines": "Context engines",
    "harness": "Harnesses",
    "models": "Models",
    "prompt": "Fragments",
    "context": "Views and requests",
    "core.errors": "Errors",
    "core": "Values",
    "sandbox": "Approvals",
    "store": "Stores",
    "delivery": "Delivery",
    "subagents": "Agents",
}


def page() -> str:
    """Return the whole page."""
    rooms: dict[str, list[str]] = {title: [] for title in _ROOMS.values()}
    for name in treadle.__all__:
        rooms[_room(getattr(treadle, name))].append(name)
    parts = [_HEAD]
    for title, names in rooms.items():
        parts.append(f"## {title}\n")
        parts += [_entry(name, getattr(treadle, name)) for name in names]
    return "\n".join(parts)


def _room(value: object) -> str:
    module = getattr(value, "__module__", "treadle.harness.events").removeprefix("treadle.")
    known = [room for room in _ROOMS if module == room or module.startswith(f"{room}.")]
    # A union of events has no module of its own.
    return _ROOMS[max(known, key=len) if known else "harness.events"]


def _entry(name: str, value: object) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return f"### `{name}`\n\nAny of the events below.\n"
    lines = [f"### `{name}`\n", f"{_text(value)}\n"]
    fields = getattr(value, "__struct_fields__", ())
    if fields:
        lines.append("Fields: " + ", ".join(f"`{field}`" for field in fields) + ".\n")
    if inspect.isclass(value):
        lines += [_method(value, method) for method in _methods(value)]
        if _methods(value):
            lines.append("")
    return "\n".join(lines)


def _methods(value: type) -> list[str]:
    """Return the public methods and properties that the class itself defines."""
    return [
        name
        for name, member in vars(value).items()
        if not name.startswith("_")
        and name not in getattr(value, "__struct_fields__", ())
        and (callable(getattr(value, name)) or isinstance(member, property))
        and inspect.getdoc(member if isinstance(member, property) else getattr(value, name))
    ]


def _method(value: type, name: str) -> str:
    member = inspect.getattr_static(value, name)
    call = "" if isinstance(member, property) else "()"
    told = inspect.getdoc(member if isinstance(member, property) else getattr(value, name)) or ""
    return f"- `{name}{call}`: {_line(told)}"


def _text(value: object) -> str:
    return re.sub(r"\n(?!\n)", " ", inspect.getdoc(value) or "").replace("\n ", "\n\n")


def _line(text: str) -> str:
    """Return the first paragraph, on one line."""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
