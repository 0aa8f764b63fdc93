"""The recorder: a conversation as JSON that is the same each time it is played.

Reads what the wire got and the files that a home holds (`docs/log-format.md`), with SQL
and without the runtime. Invariant: only ids, times, places and what is derived from them
are replaced; an id by its kind and the order in which it was met.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from .codex_words import without_codex, without_prefix

__all__ = ["Names", "recorded"]

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Ids of ours, and those of Codex.
    (re.compile(rf"\b([a-z]+)_{_UUID}"), r"\1"),
    (re.compile(_UUID), "uuid"),
    # Summaries: named after the entries they stand for.
    (re.compile(r"\bsum_[0-9a-f]{16}(?![0-9a-f])"), "sum"),
    # The fake server's: made from the request, in which an id of ours stands.
    (re.compile(r"(?<=[_:-])[0-9a-f]{16}(?![0-9a-f])"), "said"),
    # Digests: of requests, and of what they are made from.
    (re.compile(r"(?<![0-9a-f:])[0-9a-f]{32}(?![0-9a-f])"), "digest"),
    (re.compile(r"\bb2:[0-9a-f]{32}"), "request-digest"),
)
_VARYING = tuple(
    map(
        re.compile,
        (
            r"(?<=Wall time: )\d+\.\d+(?= seconds)",
            r'(?<="duration_seconds":)\d+\.\d',
            r"(?<=aborted by user after )\d+\.\d(?=s)",
            r"\d+\.\d(?= s, [\d,]+ tokens in)",
            r"(?<=Chunk ID: )[0-9a-f]{6}",
            r"(?<=127\.0\.0\.1:)\d{5}",
            r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ",
            r"20\d\d/\d\d/\d\d/rollout-20\d\d-\d\d-\d\dT\d\d-\d\d-\d\d",
        ),
    )
)
"""Times and chances, in which each digit is blotted out."""
_OF_NODES = ("created", "body", "key")
"""What is not recorded of a summary; its body stands in the requests."""
_ORDER = ("thread", "first", "last", "depth", "degraded", "text")
_TIME_LOW, _TIME_HIGH = 1_600_000_000_000, 4_000_000_000_000
"""Milliseconds since 1970."""
_BLOB = re.compile(r"sha256:[0-9a-f]{64}")
_HEADERS = ("host", "user-agent", "content-length")
"""What is not recorded of a request."""
_OF_CODEX = ("authorization", "originator", "thread-id")
"""What is recorded of a request that Codex makes."""


class Names:
    """The names that stand for what is never the same twice."""

    def __init__(self, places: Mapping[str, str], blobs: Mapping[str, bytes]) -> None:
        self._places, self._blobs = places, blobs
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, value: Any) -> Any:
        """`value` with names in it, however deep."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self(each) for each in value]
        if isinstance(value, dict):
            return {self(key): self(each) for key, each in value.items()}
        if isinstance(value, int) and _TIME_LOW < value < _TIME_HIGH:
            return "a time"
        return value

    def text(self, text: str) -> str:
        """`text` with names in it."""
        for place, name in self._places.items():
            text = text.replace(place, name)
        for pattern in _VARYING:
            text = pattern.sub(_blotted, text)
        text = _BLOB.sub(lambda found: self._blob(found[0]), text)
        for pattern, kind in _PATTERNS:
            text = pattern.sub(partial(self._named, kind), text)
        return text

    def _named(self, kind: str, found: re.Match[str]) -> str:
        return self.name(found.expand(kind), found[0])

    def name(self, kind: str, value: str) -> str:
        """What stands for `value`: its kind and a number."""
        if value not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._known[value] = f"{kind}#{self._counts[kind]}"
        return self._known[value]

    def _blob(self, digest: str) -> str:
        """A digest stays, unless what it is made from holds something that does not."""
        data = self._blobs.get(digest)
        if data is not None:
            text = data.decode(errors="replace")
            plain = Names(self._places, self._blobs)
            if plain.text(text) == text:
                return digest
        return self.name("blob", digest)


def _blotted(found: re.Match[str]) -> str:
    if found[0].isalnum():
        return "#" * len(found[0])
    return re.sub(r"\d", "#", found[0])


def _exact(data: bytes) -> Any:
    """JSON whose compact form is `data`, or `data` as text where there is none."""
    text = data.decode()
    try:
        value = json.loads(text)
    except ValueError:
        return {"as it is": text}
    if isinstance(value, dict | list) and _compact(value) == text:
        return value
    return {"as it is": text}


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def recorded(
    place: Path,
    asked: Sequence[tuple[str, Sequence[Any]]],
    heard: Sequence[Mapping[str, Any]],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """All that a conversation left: requests, threads with their logs and ledgers, mail."""
    told = place / "told.jsonl"
    found = _rows(place / "home" / "log.db")
    index = _rows(place / "home" / "index.db", ("threads", "requests", "segments"))
    blobs = {row["digest"]: row["data"] for row in found.get("blobs", ())}
    names = Names({str(place): "/place"}, blobs)
    order = [row["id"] for row in found.get("threads", ())]
    whole = {
        "heard": list(heard),
        "requests": _requests(asked, order),
        "threads": [_thread(row, found, index) for row in found.get("threads", ())],
        "inbox": [_plain(row, found, "time") for row in found.get("inbox", ())],
        "outbox": [_plain(row, found, "created", "updated") for row in found.get("outbox", ())],
        "told to Codex": [_exact(line) for line in _lines(told)],
        "library": _library(place / "home"),
        **extra,
    }
    return {name: each for name, each in without_prefix(names(whole)).items() if each}


def _library(home: Path) -> list[Any]:
    """The summaries that the lossless engine keeps."""
    told = []
    for path in sorted(home.rglob("lossless.db")):
        rows = _rows(path, ("nodes", "notes", "turns"))
        nodes = [msgspec.msgpack.decode(row["node"]) for row in rows["nodes"]]
        # Not by their names, which are made from ids.
        nodes.sort(key=lambda node: [node[name] for name in _ORDER])
        told += [{k: v for k, v in node.items() if k not in _OF_NODES} for node in nodes]
        told += [{k: v for k, v in row.items() if k != "time"} for row in rows["notes"]]
        told += [{k: v for k, v in row.items() if k != "key"} for row in rows["turns"]]
    return told


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def _requests(asked: Sequence[tuple[str, Sequence[Any]]], order: Sequence[str]) -> list[Any]:
    """What each model was asked: thread by thread, so that threads may work side by side."""

    def place(request: Any) -> int:
        thread = request.headers.get("thread-id", "")
        return order.index(thread) if thread in order else len(order)

    return [
        _request(name, request)
        for name, requests in asked
        for request in (sorted(requests, key=place) if len(order) > 1 else requests)
    ]


def _request(name: str, request: Any) -> dict[str, Any]:
    if "originator" in request.headers:
        headers = {k: v for k, v in request.headers.items() if k in _OF_CODEX}
        body = without_codex(json.loads(request.body))
        return {"to": f"{name} {request.path} by Codex", "headers": headers, "body": body}
    headers = {k: v for k, v in request.headers.items() if k not in _HEADERS}
    return {"to": f"{name} {request.path}", "headers": headers, "body": _exact(request.body)}


def _rows(path: Path, tables: Sequence[str] | None = None) -> dict[str, list[dict[str, Any]]]:
    if not path.exists():
        return {}
    wanted = tables or ("threads", "entries", "turns", "inbox", "outbox", "origins", "blobs")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        return {
            table: [dict(row) for row in database.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]
            for table in wanted
        }


def _plain(row: dict[str, Any], found: dict[str, Any], *times: str) -> dict[str, Any]:
    """A row without times, its JSON in the open, its thread by name."""
    threads = {each["number"]: each["id"] for each in found["threads"]}
    told = {name: each for name, each in row.items() if name not in times and each is not None}
    told["thread"] = threads[row["thread"]]
    if "taken" in told:
        told["taken"] = True
    for name in ("body", "provenance", "events", "outcome", "usage", "input"):
        if name in told:
            told[name] = _exact(told[name].encode())
    if "rollout" in str(told.get("body")) and isinstance(told["body"], dict):
        told["body"] |= {
            name: "a place in a file of Codex's"
            for name in ("offset", "end")
            if name in told["body"]
        }
    return told


def _thread(row: dict[str, Any], found: dict[str, Any], index: dict[str, Any]) -> dict[str, Any]:
    threads = {each["number"]: each["id"] for each in found["threads"]}
    number = row["number"]
    told = {
        "id": row["id"],
        "root": threads.get(row["root"]),
        "parent": threads.get(row["parent"]),
        **{name: row[name] for name in ("cut", "turn_cut", "cwd", "title", "last", "turns")},
        "fence": row["fence"],
        "deleted": row["deleted"] is not None,
    }
    told = {name: each for name, each in told.items() if each}
    told["entries"] = [
        _entry(each, found) for each in found["entries"] if each["id"] >> 32 == number
    ]
    told["turns admitted"] = [
        _turn(each, found) for each in found["turns"] if each["thread"] == number
    ]
    told["ledger"] = _ledger(row["id"], index)
    return told


def _turn(row: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    told = _plain(row, found, "admitted", "thread")
    told["id"] = row["id"] & 0xFFFFFFFF
    told["ended"] = row["ended"] is not None
    return told


def _entry(row: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"seq": row["id"] & 0xFFFFFFFF}
    for name in ("kind", "item", "turn", "step", "tokens", "flags", "source_id"):
        if row[name]:
            told[name] = row[name]
    for name in ("fragments", "provenance", "events"):
        if row[name] is not None:
            told[name] = _exact(row[name].encode())
    if row["origin"] is not None:
        (origin,) = [each["origin"] for each in found["origins"] if each["number"] == row["origin"]]
        told["origin"] = _exact(origin.encode())
    if row["blob"] is not None:
        (blob,) = [each for each in found["blobs"] if each["number"] == row["blob"]]
        told["in a blob"] = blob["digest"]
        told["body"] = _exact(blob["data"])
    else:
        told["body"] = _exact(row["body"])
    return told


def _ledger(thread: str, index: dict[str, Any]) -> list[dict[str, Any]]:
    """Each request with the segments that were new in it, and where they came from."""
    numbers = [each["number"] for each in index.get("threads", ()) if each["id"] == thread]
    told = []
    for row in index.get("requests", ()):
        if row["thread"] not in numbers:
            continue
        kept = {k: v for k, v in row.items() if k not in ("thread", "time") and v is not None}
        kept["new segments"] = [
            f"{each['position']} {each['kind']} {each['size']} bytes"
            + (f" of entry {each['seq']}" if each["seq"] is not None else "")
            for each in index["segments"]
            if each["thread"] == row["thread"] and each["generation"] == row["number"]
        ]
        told.append(kept)
    return told
