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

_LONG = 240
_TEXT, _TOOLS, _SAME = "@text ", "@tools ", "@same "


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


def packed(whole: dict[str, Any], heads: dict[str, Any]) -> dict[str, Any]:
    """`whole` without what repeats; `heads` takes the long parts."""
    before: list[list[Any]] = []
    requests = []
    for request in whole.get("requests", ()):
        requests.append({**request, "body": _shortened(request["body"], before)})
    return _pack({**whole, "requests": requests} if requests else whole, heads)  # type: ignore[no-any-return]


def unpacked(short: dict[str, Any], heads: dict[str, Any]) -> dict[str, Any]:
    """The opposite."""
    whole = _unpack(short, heads)
    before: list[list[Any]] = []
    for request in whole.get("requests", ()):
        for name in ("input", "messages"):
            items = request["body"].get(name)
            if not isinstance(items, list):
                continue
            if items and isinstance(items[0], str) and items[0].startswith(_SAME):
                count, number = map(int, items[0].removeprefix(_SAME).split(" of list "))
                items[:1] = before[number - 1][:count]
            before.append(items)
    return whole  # type: ignore[no-any-return]


def _shortened(body: Any, before: list[list[Any]]) -> Any:
    for name in ("input", "messages"):
        items = body.get(name)
        if not isinstance(items, list):
            continue
        shared = [_common(items, each) for each in before]
        best = max(shared, default=0)
        number = shared.index(best) + 1 if best else 0
        before.append(items)
        if best:
            body = {**body, name: [f"{_SAME}{best} of list {number}", *items[best:]]}
    return body


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
    text = json.dumps(value, ensure_ascii=False, indent=1)
    (PLACE / f"{name}.json").write_text(text + "\n")
