"""Schemas of tools: looking at one ends, raises nothing, and is done once."""

from __future__ import annotations

from msgspec import Raw

from treadle.core.specs import FunctionTool, Namespace
from treadle.policy.schema import normalise
from treadle.policy.target import Target

__all__ = ["WORDS", "check"]

WORDS = (
    *(b'{"type":"object","properties":{', b'"$ref":"#/', b'"$defs":{', b'"anyOf":[', b'"items":'),
    *(
        b'"required":["',
        b'"additionalProperties":false',
        b'"enum":[',
        b'"a"',
        b":",
        b",",
        b"{",
        b"}",
    ),
    *(b"[", b"]", b"null", b'"type":"', b'"type":["', b"9" * 30, b"1e999", b"\xff", b"~1", b"/0"),
)
_TARGETS = (
    Target(provider="openai", model="m", native=True),
    Target(provider="anthropic", model="m", api="messages", native=True),
)


def check(data: bytes) -> None:
    """For every target: the same again when it is asked again, and no more tools than before."""
    tool = FunctionTool(name="look", description="", parameters=Raw(data))
    specs = (tool, Namespace(name="n", description="", tools=(tool,)))
    for target in _TARGETS:
        once = normalise(specs, target)
        again = normalise(once.specs, target)
        assert (again.specs, again.strict) == (once.specs, once.strict)
        assert len(once.specs) <= len(specs)
        assert all(len(found.message) < 600 for found in once.diagnostics)
