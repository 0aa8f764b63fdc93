"""Items and sources for tests about summaries."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    OutputText,
    Reasoning,
    SummaryText,
)
from treadle.engines.lossless.writing.source import SummarySource
from treadle.engines.values import ContextItem

__all__ = ["SAMPLE", "call", "command", "ran", "says", "source", "sources", "texts", "user"]


def user(text: str) -> Message:
    return Message(role="user", content=(InputText(text),))


def says(text: str) -> Message:
    return Message(role="assistant", content=(OutputText(text),))


def call(name: str, call_id: str = "c1", **arguments: object) -> FunctionCall:
    return FunctionCall(name=name, arguments=json.dumps(arguments), call_id=call_id)


def command(cmd: str, call_id: str = "c1") -> FunctionCall:
    return call("exec_command", call_id, cmd=cmd, workdir="/repo")


def ran(output: str, code: int | None = 0, call_id: str = "c1") -> FunctionCallOutput:
    status = (
        "Process running with session ID 7" if code is None else f"Process exited with code {code}"
    )
    text = f"Wall time: 0.1000 seconds\n{status}\nOutput:\n{output}"
    return FunctionCallOutput(call_id=call_id, output=text)


def source(*items: Item, previous: str = "", depth: int = 0) -> SummarySource:
    made = tuple(ContextItem.of(item) for item in items)
    return SummarySource(items=made, previous=previous, depth=depth)


SAMPLE = source(
    user("Mend src/app/parser.py: parse_header drops the last line. Keep Python 3.11."),
    Reasoning(summary=(SummaryText("**Looking for the loop**"),)),
    command("pytest -q tests/test_parser.py"),
    ran("E   KeyError: 'charset'\n1 failed in 0.2s\n" + "." * 4_000, 1),
    says("The loop stops early because `read_lines` strips the tail. I decided to keep it."),
    call(
        "update_plan",
        "c2",
        plan=[
            {"step": "Mend the loop", "status": "completed"},
            {"step": "Add a test for folded headers", "status": "pending"},
        ],
    ),
    FunctionCallOutput(call_id="c2", output="Plan updated"),
    command("ruff check src", "c3"),
    ran("All checks passed!", 0, "c3"),
    says("The loop is mended in src/app/parser.py. Next: the release notes for v2.4.1."),
)
"""A small piece of real work."""

texts = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("漢字かな한국어🇩🇪👩\u200d👩\u200d👧é\u0301\n =<>/"),
    ),
    max_size=300,
)

_items = st.one_of(
    texts.map(user),
    texts.map(says),
    texts.map(command),
    st.builds(ran, texts, st.sampled_from([0, 1, 137, None])),
    st.builds(lambda text, times: ran(text * times), texts, st.integers(1, 40)),
    texts.map(lambda text: Reasoning(summary=(SummaryText(text),))),
)

sources = st.one_of(
    st.lists(_items, max_size=8).map(lambda items: source(*items)),
    st.lists(texts, max_size=5).map(lambda nodes: SummarySource(children=tuple(nodes), depth=1)),
)
"""Sources of every kind, in every script."""
