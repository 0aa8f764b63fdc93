from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import treadle

SOURCE = Path(treadle.__file__).parent
EXEMPT = ("prompt/", "testing/", "items.py", "models/formats/")

ALLOWED: dict[str, str] = {
    "otel/turn_spans.py::input_attributes": "the form of OpenTelemetry, which no model reads",
}
"""`path::function` that may build such a message after all, and why. Keep it short."""

_SPOKEN = frozenset({"developer", "user"})
_WIRE = re.compile(r'"role"\s*:\s*"(?:developer|user)"')


class HandBuilt(ast.NodeVisitor):
    """Collects where a message of the runtime's or the user's is built by hand."""

    def __init__(self) -> None:
        self.scope: list[str] = []
        self.found: list[tuple[str, int]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.scope.append(node.name)
        self.generic_visit(node)
        self.scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name == "Message" and not _speaks_for_others(node):
            self._note(node)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if _constant(key) == "role" and _constant(value) in _SPOKEN:
                self._note(node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        text = node.value.decode(errors="replace") if isinstance(node.value, bytes) else node.value
        if isinstance(text, str) and _WIRE.search(text):
            self._note(node)

    def _note(self, node: ast.expr) -> None:
        self.found.append((".".join(self.scope) or "<module>", node.lineno))


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _speaks_for_others(call: ast.Call) -> bool:
    """Only a literal role that is neither of ours is safe; a computed one could be any."""
    roles = [keyword.value for keyword in call.keywords if keyword.arg == "role"]
    return (
        bool(roles) and isinstance(_constant(roles[0]), str) and _constant(roles[0]) not in _SPOKEN
    )


def hand_built(source: str) -> list[tuple[str, int]]:
    visitor = HandBuilt()
    visitor.visit(ast.parse(source))
    return visitor.found


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(EXEMPT):
            yield name, path.read_text()


def test_only_fragments_and_the_users_message_speak_to_the_model():
    found = [
        f"{name}::{scope} (line {line})"
        for name, source in modules()
        for scope, line in hand_built(source)
        if f"{name}::{scope}" not in ALLOWED
    ]
    assert found == [], "say it with a Fragment, or with treadle.prompt.user_message"


def test_every_exception_still_names_something_that_needs_it():
    needed = {f"{name}::{scope}" for name, source in modules() for scope, _ in hand_built(source)}
    assert set(ALLOWED) <= needed


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Message(role='developer', content=())", [("<module>", 1)]),
        ("def f():\n    return items.Message(role='user', content=())", [("f", 2)]),
        ("async def f(role):\n    return Message(role=role, content=())", [("f", 2)]),
        ("Message(**fields)", [("<module>", 1)]),
        ("{'type': 'message', 'role': 'user'}", [("<module>", 1)]),
        ('decode_item(b\'{"type":"message","role": "developer"}\')', [("<module>", 1)]),
        ("Message(role='assistant', content=())", []),
        ("InboxMessage(role='user')", []),
        ("{'role': 'assistant'}", []),
    ],
)
def test_the_check_sees_hand_built_messages(source: str, found: list[tuple[str, int]]):
    assert hand_built(source) == found
