"""Fifty needles in up to a million messages: things said once, asked for over the whole home.

The messages around them are made-up talk about work on software (`talks`), whose words the
needles share. Of the fifty, 32 are exact (paths, errors, codes, identifiers, three scripts
without spaces), six are about somebody, and twelve are decisions that are asked for in other
words. What is counted is how many stand first, and among the first five.

    python -m benchmarks.needles [--size 100000] [--vectors] [--home DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

from treadle.store import SqliteIndex, SqliteStore
from treadle.store.contract import Search

from .recall_quality import write_talk
from .talks import Said, WorkTalk

NEEDLES = {
    "path": (
        ("the fix went into src/ledger/rounding/half_even.py", "src/ledger/rounding/half_even.py"),
        ("see ops/helm/values-canary.yaml for the limits", "values-canary.yaml"),
        ("I left notes in docs/adr/0042-queue.md", "0042-queue.md"),
        ("tests/webhook/test_replay_order.py is the one", "test_replay_order.py"),
        ("it reads /etc/gateway/quota.toml at start", "/etc/gateway/quota.toml"),
        ("look at scripts/backfill_avatars.sh", "backfill_avatars.sh"),
    ),
    "error": (
        ("pytest says AssertionError: expected 17 rows, found 16", "expected 17 rows, found 16"),
        ("redis answered MISCONF Errors writing to the AOF file", "MISCONF writing AOF file"),
        ("upstream sent too big header while reading", "upstream sent too big header"),
        ("OSError: [Errno 28] No space left on device", "Errno 28 no space left on device"),
        ("kafka: LEADER_NOT_AVAILABLE for partition 9", "LEADER_NOT_AVAILABLE partition 9"),
        ("error[E0499]: cannot borrow as mutable twice", "E0499 cannot borrow"),
    ),
    "code": (
        ("the ticket is OPS-48213, please follow it", "OPS-48213"),
        ("commit 9f3c2ab7 brought it in", "9f3c2ab7"),
        ("the customer number is 7741-0093-A", "7741-0093-A"),
        ("build 20.4.1733 was the last good one", "build 20.4.1733"),
        ("port 48151 is taken by the queue", "which port 48151"),
        ("rotate key AKX7QJ2 today", "AKX7QJ2"),
        ("trace 6b1e-44d0-a9 shows it", "trace 6b1e-44d0-a9"),
        ("the flag is --retry-jitter=0.35", "--retry-jitter 0.35"),
    ),
    "identifier": (
        ("parseInvoiceHeader drops the last field", "parseInvoiceHeader"),
        ("MAX_INFLIGHT_UPLOADS is read too late", "max inflight uploads"),
        ("WebhookReplayGuard has no tests", "webhook replay guard"),
        ("call reset_session_clock() first", "reset_session_clock"),
        ("the column is_tombstoned is new", "is_tombstoned"),
        ("useAvatarCropper leaks a listener", "useAvatarCropper"),
    ),
    "script": (
        ("請求書の丸め処理を修正しました", "丸め処理"),
        ("夜間バッチは三時に始まります", "夜間バッチ"),
        ("把队列的上限改成四百", "队列的上限"),
        ("证书下个月过期, 请更新", "证书 过期"),
        ("결제 모듈의 시간 제한을 늘렸습니다", "결제 모듈의 시간 제한"),
        ("로그 보관 기간은 구십 일입니다", "로그 보관 기간"),
    ),
    "name": (
        ("Ottilie Brandauer reviews every change of the pricing table", "what does Brandauer do"),
        ("Kwabena has the keys of the Frankfurt region", "who is Kwabena"),
        ("ask Thorvald about the ledger migration, he wrote it", "Thorvald ledger migration"),
        ("Ximena said that the mail worker may be switched off", "what did Ximena say"),
        ("the checkout belongs to the Puffin team since May", "Puffin team checkout"),
        ("Dr. Okonjo signs the export of profiles", "who signs the export of profiles"),
    ),
    "reworded": (
        ("old invoices are thrown away after ninety days", "how long do we retain past bills"),
        ("from now on nobody ships on Fridays", "which weekday must releases not happen"),
        ("the avatar bucket costs too much, we move it to cold storage",
         "what was done about expensive profile pictures"),
        ("we write everything in British spelling", "which variety of English do texts use"),
        ("passwords need fourteen characters at least", "minimum length of a secret phrase"),
        ("the search box stays at the top left, whatever design says",
         "where does the field for finding things go"),
        ("two people have to approve before money is paid out",
         "how many must agree to a refund being sent"),
        ("never call customers by their first name in mails", "how do letters address clients"),
        ("the nightly build may take an hour, not longer", "time budget of the automatic compile"),
        ("we gave up on the native app, the site is enough", "why is there no mobile program"),
        ("throw an exception instead of returning None", "what should functions do on failure"),
        ("the office network is blocked on the weekend", "can we connect from work on Sundays"),
    ),
}  # fmt: skip
EXACT = ("path", "error", "code", "identifier", "script")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--vectors", action="store_true", help="with the extra `semantic`")
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.home) as directory:
        home = Path(directory)
        async with await SqliteStore.open(home) as store:
            index = SqliteIndex(store, home)
            print(f"{await write(store, options.size):,} messages are written")
            await timed("words", index.catch_up())
            await ask_all(index)
            if options.vectors:
                await timed("vectors", index.build_vectors())
                await ask_all(index)
            await index.close()


async def write(store: SqliteStore, size: int) -> int:
    """Write talks with the needles spread over them; return how many messages there are."""
    pick, written, seed = random.Random(11), 0, 0
    hidden = [text for each in NEEDLES.values() for text, _ in each]
    pick.shuffle(hidden)
    places = sorted(pick.sample(range(size), len(hidden)))
    while written < size:
        seed += 1
        talk = WorkTalk(5_000_000 + seed).talk(facts=0)
        while places and places[0] < written + len(talk.turns):
            at = places.pop(0) - written
            talk.turns.insert(at, Said("user", hidden.pop(), talk.turns[at].time))
        await write_talk(store, talk)
        written += len(talk.turns)
    return written


async def timed(what: str, work) -> None:  # noqa: ANN001 - any coroutine
    started, busy = time.perf_counter(), time.process_time()
    await work
    print(
        f"{what}: {time.perf_counter() - started:.0f} s, {time.process_time() - busy:.0f} s of CPU"
    )


async def ask_all(index: SqliteIndex) -> None:
    """Ask for every needle over the home, and print how many were found."""
    first: Counter[str] = Counter()
    five: Counter[str] = Counter()
    took: list[float] = []
    for kind, listed in NEEDLES.items():
        for text, question in listed:
            busy = time.process_time()
            asked = Search(question, limit=5, wait_for_vectors=True)
            hits = await index.search(asked, catch_up=False)
            took.append(time.process_time() - busy)
            found = [hit.snippet == text for hit in hits]
            first[kind] += found[:1] == [True]
            five[kind] += any(found)
    for name, kinds in (("exact", EXACT), ("name", ["name"]), ("reworded", ["reworded"])):
        total = sum(len(NEEDLES[kind]) for kind in kinds)
        at_one, at_five = (sum(count[kind] for kind in kinds) for count in (first, five))
        print(f"{name:9} first {at_one}, in the first five {at_five} of {total}")
    print(f"all: in the first five {five.total()} of {sum(map(len, NEEDLES.values()))}")
    print(f"ms of CPU: median {statistics.median(took) * 1e3:.1f}, most {max(took) * 1e3:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
