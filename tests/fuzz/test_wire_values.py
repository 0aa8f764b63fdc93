from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import check_of, seeds_of

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["message", "user", "assistant", "thinking", "tool_use", "function_call"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
SEEDS = [
    *(("responses_stream", name) for name in ("answer", "failed", "incomplete", "limits")),
    *(("chat_stream", name) for name in ("answer", "error", "calls-numbered-alike")),
    *(("messages_stream", name) for name in ("answer", "error")),
    *(("codex_lines", name) for name in ("answer", "ask", "item")),
    *(("codex_rollout", name) for name in ("turn", "compacted")),
    *(("hook_answer", name) for name in ("ours", "common", "common-no")),
    *(("tool_schema", name) for name in ("strict", "refs", "cycle")),
    *(("auth_file", name) for name in ("version-1", "version-2", "tokens")),
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Everywhere in `value` where something stands: the container and its key."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    return [(value, key) for key in keys] + [found for key in keys for found in places(value[key])]


def document(line: bytes) -> tuple[bytes, Any]:
    """What stands before the JSON in a line of a seed, and the JSON, if there is any."""
    start = next((at for at, byte in enumerate(line) if byte in b"{"), len(line))
    try:
        return line[:start], json.loads(line[start:])
    except ValueError:
        return line, None


@pytest.mark.parametrize(("target", "seed"), SEEDS)
@given(st.data())
def test_any_value_in_any_place_breaks_nothing(target: str, seed: str, data: st.DataObject):
    (path,) = [path for path in seeds_of(target) if path.name == seed]
    lines = [document(line) for line in path.read_bytes().split(b"\n")]
    spots = [spot for _, value in lines for spot in places(value)]
    for container, key in data.draw(st.lists(st.sampled_from(spots), min_size=1, max_size=3)):
        container[key] = data.draw(VALUES)
    rest = [b"" if value is None else json.dumps(value).encode() for _, value in lines]
    check_of(target)(b"\n".join(head + body for (head, _), body in zip(lines, rest, strict=True)))
