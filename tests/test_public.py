"""The public surface: a change to it is a change that hosts must hear of."""

from __future__ import annotations

import inspect
import json
import os
from enum import Enum
from pathlib import Path

import treadle

SURFACE = Path(__file__).parent / "public_surface.json"


def signature_of(value: object) -> str:
    if isinstance(value, type) and issubclass(value, Enum):
        # Its signature is Python's own, and another in each version.
        return " | ".join(member.name for member in value)
    try:
        signature = str(inspect.signature(value))  # type: ignore[arg-type]
        # As other versions of Python call it.
        return signature.replace("pathlib._local.", "pathlib.").replace(
            "typing.Annotated", "Annotated"
        )
    except (TypeError, ValueError):
        return ""


def described(value: object) -> object:
    """A name as hosts may use it: its signature, and those of its public methods."""
    if not inspect.isclass(value):
        return signature_of(value) or type(value).__name__
    members = {
        name: signature_of(inspect.unwrap(getattr(value, name)))
        for name in vars(value)
        if not name.startswith("_") and callable(getattr(value, name))
    }
    return {"signature": signature_of(value), **dict(sorted(members.items()))}


def surface() -> dict[str, object]:
    return {name: described(getattr(treadle, name)) for name in treadle.__all__}


def test_the_public_surface_is_as_it_was_recorded():
    """Meant to change? `TREADLE_RECORD=1 pytest tests/test_public.py`, and a CHANGELOG line."""
    now = json.dumps(surface(), indent=1) + "\n"
    if os.environ.get("TREADLE_RECORD"):
        SURFACE.write_text(now, encoding="utf-8")
    assert now == SURFACE.read_text(encoding="utf-8")


def test_help_and_signatures_show_what_a_thread_takes():
    takes = inspect.signature(treadle.Thread.open).parameters
    assert [name for name in takes if name != "thread"] == [
        *("model", "cwd", "home", "title", "tools", "hooks", "choices", "rights", "engine"),
        *("harness", "routing", "prompt", "agents", "skills", "limits", "channel", "replies"),
        *("store", "index"),
    ]
    fields = treadle.ThreadOptions.__struct_fields__
    assert set(takes) - {"thread", "channel"} == set(fields) - {"channels"}
    assert inspect.getdoc(treadle.Thread.open)


def test_a_thread_shows_few_names():
    public = [name for name in dir(treadle.Thread) if not name.startswith("_")]
    assert len(public) <= 32
