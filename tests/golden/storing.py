"""The files: one for each conversation, and one for the long texts that they share.

Invariant: what is read is what was written; the short form is for the reader of a diff.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

__all__ = ["HEADS", "PLACE", "packed", "read", "unpacked", "write"]

PLACE = Path(__file__).parent / "recorded"
HEADS = "heads.json"

_LONG, _WIDTH = 200, 180
_HEAD, _TEXT, _TOOLS, _SAME = "@head ", "@text ", "@tools ", "the first "
_ITEMS, _HERE = ("input", "messages"), "(its items)"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


def packed(whole: dict[str, Any], heads: dict[str, Any]) -> dict[str, Any]:
    """`whole` without what repeats; `heads` takes the long parts."""
    short: dict[str, Any] = _pack(whole, heads)
    before: list[list[Any]] = []
    for request in short.get("requests", ()):
        request["body"] = _shortened(request["body"], before, heads)
    return short


def unpacked(short: dict[str, Any], heads: dict[str, Any]) -> dict[str, Any]:
    """The opposite."""
    before: list[list[Any]] = []
    requests = [
        {**request, "body": _lengthened(request["body"], before, heads)}
        for request in short.get("requests", ())
    ]
    whole: dict[str, Any] = _unpack({**short, "requests": requests} if requests else short, heads)
    return whole


def _shortened(body: dict[str, Any], before: list[list[Any]], heads: dict[str, Any]) -> Any:
    """A body as the name of its head, and the items that no request before it begins with."""
    (name,) = [name for name in _ITEMS if isinstance(body.get(name), list)] or ("",)
    if not name:
        return body
    items = body[name]
    head = {**body, name: _HERE}
    called = _HEAD + _digest(head)
    heads[called] = head
    shared = [_common(items, each) for each in before]
    best = max(shared, default=0)
    number = shared.index(best) + 1 if best else 0
    before.append(items)
    same = [f"{_SAME}{best} of request {number}"] if best else []
    return {"head": called, name: [*same, *items[best:]]}


def _lengthened(body: dict[str, Any], before: list[list[Any]], heads: dict[str, Any]) -> Any:
    called = body.get("head")
    if not isinstance(called, str) or not called.startswith(_HEAD):
        return body
    (name,) = [name for name in _ITEMS if name in body]
    items = body[name]
    if items and isinstance(items[0], str) and items[0].startswith(_SAME):
        count, number = map(int, items[0].removeprefix(_SAME).split(" of request "))
        items = [*before[number - 1][:count], *items[1:]]
    before.append(items)
    return {key: items if key == name else each for key, each in heads[called].items()}


def _common(one: list[Any], other: list[Any]) -> int:
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if json.dumps(mine) != json.dumps(yours):
            break
        count += 1
    return count


def _pack(value: Any, heads: dict[str, Any]) -> Any:
    if isinstance(value, str):
        if len(value) <= _LONG:
            return value
        name = _TEXT + _digest(value)
        heads[name] = value.split("\n")
        return name
    if isinstance(value, list):
        return [_pack(each, heads) for each in value]
    if isinstance(value, dict):
        done = {}
        for key, each in value.items():
            if key == "tools" and isinstance(each, list) and each:
                name = _TOOLS + _digest(each)
                heads[name] = each
                done[key] = name
            else:
                done[key] = _pack(each, heads)
        return done
    return value


def _unpack(value: Any, heads: dict[str, Any]) -> Any:
    if isinstance(value, str):
        if value.startswith(_TEXT):
            return "\n".join(heads[value])
        return heads[value] if value.startswith(_TOOLS) else value
    if isinstance(value, list):
        return [_unpack(each, heads) for each in value]
    if isinstance(value, dict):
        return {key: _unpack(each, heads) for key, each in value.items()}
    return value


def read(name: str) -> dict[str, Any]:
    """The conversation `name` as it was recorded."""
    heads = json.loads((PLACE / HEADS).read_text())
    return unpacked(json.loads((PLACE / f"{name}.json").read_text()), heads)


def write(name: str, value: dict[str, Any]) -> None:
    """Keep `value` under `name`."""
    PLACE.mkdir(exist_ok=True)
    (PLACE / f"{name}.json").write_text(_pretty(value, "") + "\n")


def _pretty(value: Any, indent: str) -> str:
    """JSON in which what fits stands on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + len(indent) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + " "
    if isinstance(value, list):
        lines = [_pretty(each, inner) for each in value]
        ends = "[]"
    else:
        names = [json.dumps(key, ensure_ascii=False) for key in value]
        told = [_pretty(each, inner) for each in value.values()]
        lines = [f"{name}: {each}" for name, each in zip(names, told, strict=True)]
        ends = "{}"
    return f"{ends[0]}\n" + ",\n".join(inner + each for each in lines) + f"\n{indent}{ends[1]}"
