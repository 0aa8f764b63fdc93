"""The verdict: what the auditor is given, and what a soak came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from soak.answers import WORDS
from soak.player import Player
from soak.provider import Sent
from treadle.testing.audit import Evidence, Report, read_acks

__all__ = ["Result", "evidence_of", "sent_names", "summarise_strikes"]


class Result(Struct, frozen=True, kw_only=True):
    """What a soak came to."""

    seed: str
    seconds: float
    report: Report
    done: dict[str, int]
    """What happened, so that the zeros mean something."""
    memory_per_hour: float | None = None
    """Megabytes by which the steady worker grew, per hour; None where it was too short to tell."""
    memory: tuple[tuple[int, float], ...] = ()
    """Its resident megabytes, by the second, every half minute."""
    disk: str = ""
    """How disks were filled."""
    evidence: str = ""
    """Where it is kept, if something was found."""


def evidence_of(root: Path, players: Sequence[Player], sent: Iterable[Sent]) -> Evidence:
    """Everything that a run in `root` has left."""
    lines = (
        line
        for file in sorted((root / "heard").iterdir())
        for line in file.read_bytes().splitlines()
    )
    names, strays = sent_names(sent)
    threads = (life for player in players for life in player.threads.values())
    return Evidence(
        homes=tuple(sorted({player.home for player in players})),
        acks=tuple(read_acks(lines)),
        words=WORDS,
        sent=names,
        strays=strays,
        effects=_effects(root),
        engines={life.thread: life.engine for life in threads},
        secrets=tuple(key for player in players for key in player.keys.values()),
        foreign=("/codex/home/",),
        files=tuple(root / name for name in ("projects", "heard", "logs")),
        mark=root.name,
    )


def summarise_strikes(
    players: Sequence[Player], sent: Sequence[Sent], dealt: Counter[str]
) -> dict[str, int]:
    """What was done to whom, and what came of it."""
    turns = sum((player.turns for player in players), Counter[str]())
    troubles = sum((player.troubles for player in players), Counter[str]())
    answers = Counter(each.trouble for each in sent if each.trouble != "none")
    return {
        **{f"threads of {player.role.name}": len(player.threads) for player in players},
        **_count_lines("turns {}", turns),
        "starts of workers": sum(player.starts for player in players),
        **_count_lines("blow: {}", dealt),
        "answers of the provider": len(sent),
        **_count_lines("answer: {}", answers),
        **_count_lines("told to the host: {}", troubles),
    }


def _count_lines(words: str, counts: Counter[str]) -> dict[str, int]:
    return {words.format(name): count for name, count in sorted(counts.items())}


def sent_names(sent: Iterable[Sent]) -> tuple[Counter[str], frozenset[str]]:
    """Return how often each name was sent, and those that belong to no call."""
    names: Counter[str] = Counter()
    strays: set[str] = set()
    for each in sent:
        for name in (*each.words, *each.calls, *each.strays):
            names[name] += each.times
        # The ids of items are made of the same names.
        for word in each.words:
            names[f"msg_{word.removeprefix('word')}"] += each.times
        strays.update(each.strays)
    return names, frozenset(strays)


def _effects(root: Path) -> Counter[str]:
    files = root.glob("projects/*/effects/*.txt")
    return Counter(line for file in files for line in file.read_text().split())
