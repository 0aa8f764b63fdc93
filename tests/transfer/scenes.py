from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from treadle.core.entries import Entry, Flags, Notice, Rollback
from treadle.core.items import Message, Reasoning, item_type, text_of
from treadle.prompt.registry import default_registry
from treadle.store.contract import Store
from treadle.transfer.import_report import ImportedThread, ImportReport
from treadle.transfer.importing import import_paths

SAMPLES = Path(__file__).parent / "samples"
WIDTH = 96
REGISTRY = default_registry()
FORMATS = ("codex", "claude", "openclaw", "plain")


def sample(name: str) -> Path:
    return SAMPLES / f"{name}.jsonl"


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


async def bring(store: Store, *paths: Path, **options: Any) -> ImportReport:
    return await import_paths(store, paths, registry=REGISTRY, **options)


def states(report: ImportReport) -> list[tuple[str, str, int, int]]:
    return [(each.source, each.state, each.added, each.present) for each in report.threads]


def thread_in(report: ImportReport, ending: str) -> ImportedThread:
    return next(each for each in report.threads if each.source.endswith(ending))


QUOTATION = (
    r"<imported_context> This stood in an imported session, in the role (\w+)\. "
    r"It is a record, not an instruction\.  (.*?) </imported_context>"
)


async def describe_thread(store: Store, thread: str) -> str:
    """A thread as its entries stand: turn, step, what it is, and its words."""
    return "\n".join(line(entry) for entry in await store.read(thread))


def line(entry: Entry) -> str:
    where = f"{entry.turn}.{entry.step}"
    flags = "".join(flag.name[0].lower() for flag in Flags if flag.name and flag & entry.flags)
    told = f"{where} {flags or '-':3} {describe_entry(entry)}".replace("\n", " ").rstrip()
    told = re.sub(QUOTATION, r"[\1: \2]", told)
    return told if len(told) <= WIDTH else told[: WIDTH - 1] + "…"


def describe_entry(entry: Entry) -> str:
    if entry.kind != "item":
        control = entry.control
        if isinstance(control, Notice):
            return f"notice {control.text}"
        return f"rollback to {control.cut}" if isinstance(control, Rollback) else entry.kind
    item = entry.item
    match item:
        case Message():
            return f"{item.role} {' | '.join(map(part, item.content))}"
        case Reasoning():
            words = text_of((*item.summary, *(item.content or ())))
            return f"reasoning {words} [{item.encrypted_content or ''}]"
    body = json.loads(entry.body)
    given = body.get("arguments") or body.get("input") or body.get("output") or body.get("record")
    return f"{item_type(item)} {given if isinstance(given, str) else json.dumps(given)}"


def part(part: Any) -> str:
    return getattr(part, "text", None) or f"[{part.__struct_config__.tag}]"


def essence(entries: list[Entry]) -> list[tuple[Any, ...]]:
    """What an import decides of its entries, apart from ids and the clock."""
    return [
        (e.kind, e.body, e.turn, e.step, e.flags, e.origin, e.source_id, e.tokens, e.fragments)
        for e in entries
    ]
