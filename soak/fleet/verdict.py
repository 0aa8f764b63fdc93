"""The verdict: what the auditor finds in the store of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct

from soak.answers import WORDS
from soak.fleet.fleet import Fleet
from soak.table import OWN_ROWS
from soak.verdict import sent_names
from treadle.context.rebuild import rebuild_ledger
from treadle.core.items import Message, text_of
from treadle.prompt.registry import installed_registry
from treadle.store.contract import Store
from treadle.store.index import MemoryIndex
from treadle.testing.audit import Evidence, Finding, Report, read_acks
from treadle.testing.audit.engine_advances import audit_engine
from treadle.testing.audit.findings import ROWS
from treadle.testing.audit.logs import ThreadAcks, audit_log

__all__ = ["FleetResult", "judge", "table", "write_page"]

BEGIN, END = "<!-- fleet: begin -->", "<!-- fleet: end -->"


class FleetResult(Struct, frozen=True, kw_only=True):
    """What a fleet came to."""

    store: str
    seed: str
    seconds: float
    report: Report
    done: dict[str, int]


async def judge(fleet: Fleet) -> FleetResult:
    """Read everything that is left."""
    evidence = _evidence(fleet)
    acks = ThreadAcks.by_thread(evidence)
    store = await fleet.open_store()
    reports: list[Report] = []
    states: Counter[str] = Counter()
    try:
        for thread in fleet.posted:
            info = await store.info(thread)
            reports.append(await audit_log(store, info, acks.get(thread, ThreadAcks()), evidence))
            reports.append(await _prefixes(store, thread))
            reports.append(Report.of([each async for each in _inputs(store, fleet, thread)]))
            states.update(turn.state for turn in await store.turns(thread))
        for home in evidence.homes:
            # Each worker has a library of its own: nothing may stand twice in any of them.
            alone = Evidence(homes=(home,))
            reports.append(await audit_engine(home, store, [*fleet.posted], alone))
    finally:
        await store.close()
    surprises = [*fleet.surprises, *(each for one in fleet.members for each in one.surprises)]
    reports.append(Report.of(Finding("surprises", "fleet", each) for each in surprises))
    return FleetResult(
        store=fleet.kind,
        seed=fleet.seed,
        seconds=fleet.seconds,
        report=Report().merge(*reports),
        done=_summary(fleet, states),
    )


def _evidence(fleet: Fleet) -> Evidence:
    lines = (
        line
        for file in sorted((fleet.place / "heard").iterdir())
        for line in file.read_bytes().splitlines()
    )
    names, strays = sent_names(fleet.sent)
    acts = fleet.place / "project" / "effects" / "acts.txt"
    return Evidence(
        homes=tuple(sorted(fleet.place.glob("homes/worker*"))),
        acks=tuple(read_acks(lines)),
        words=WORDS,
        sent=names,
        strays=strays,
        effects=Counter(acts.read_text().split() if acts.exists() else ()),
    )


async def _prefixes(store: Store, thread: str) -> Report:
    """Render every request again, and look for breaks that nothing explains."""
    index = MemoryIndex(store)
    try:
        done = await rebuild_ledger(store, index, thread, installed_registry())
        rows = await index.rows(thread)
    finally:
        await index.close()
    findings = [Finding("differing", thread, f"request {seq}") for seq in done.differing]
    findings += [
        Finding("breaks", thread, f"request at entry {row.seq}, at {row.difference}")
        for row in rows
        if row.unexplained
    ]
    return Report.of(findings, requests=done.requests)


async def _inputs(store: Store, fleet: Fleet, thread: str) -> AsyncIterator[Finding]:
    """Every message that was posted stands in the log, once; and no turn was left open."""
    said = Counter(
        text_of(entry.item.content)
        for entry in await store.read(thread)
        if entry.kind == "item" and isinstance(entry.item, Message) and entry.item.role == "user"
    )
    for text in fleet.posted[thread]:
        count = sum(times for each, times in said.items() if text in each)
        if count != 1:
            row = "lost" if count == 0 else "doubled"
            yield Finding(row, thread, f"the message {text!r} stands {count} times")
    for turn in await store.turns(thread):
        if turn.state in ("admitted", "running"):
            yield Finding("stuck", thread, f"turn {turn.id!r} was left open")


def _summary(fleet: Fleet, states: Counter[str]) -> dict[str, int]:
    news: Counter[str] = Counter()
    for file in sorted((fleet.place / "logs").iterdir()):
        for line in file.read_bytes().splitlines():
            if line.startswith(b'{"type":"'):
                news[line[9:].split(b'"')[0].decode()] += 1
    return {
        "workers": len(fleet.members),
        "threads": len(fleet.posted),
        "messages posted": sum(map(len, fleet.posted.values())),
        **{f"turns {state}": count for state, count in sorted(states.items())},
        "starts of workers": sum(member.starts for member in fleet.members),
        **{f"blow: {name}": count for name, count in sorted(fleet.dealt.items())},
        **{f"told by workers: {name}": count for name, count in sorted(news.items())},
        "answers of the provider": len(fleet.sent),
    }


def table(result: FleetResult) -> str:
    """All rows, as Markdown."""
    counts = result.report.counts
    rows = {title: counts.get(row, 0) for row, title in (ROWS | OWN_ROWS).items()}
    skipped = (
        "orphan processes",
        "secrets found in databases, logs and files",
        "damaged databases",
    )
    lines = ["| found | |", "|---|---:|"]
    lines += [f"| {title} | {count:,} |" for title, count in rows.items() if title not in skipped]
    lines += ["| **looked at** | |"]
    lines += [f"| {name} | {count:,} |" for name, count in result.report.looked.items()]
    lines += ["| **what happened** | |"]
    lines += [f"| {title} | {count:,} |" for title, count in result.done.items()]
    return "\n".join(lines)


def write_page(page: Path, result: FleetResult) -> None:
    """Put the table between the marks of a page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = f"{result.seconds / 60:g} minutes on {result.store}, seed {result.seed}."
    page.write_text(f"{before}{BEGIN}\n{head}\n\n{table(result)}\n{END}{after}")
