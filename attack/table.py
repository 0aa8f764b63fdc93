"""The table: what an attack came to, for a terminal and for the page."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from attack.areas import all_areas
from attack.runner import Tried

__all__ = ["BEGIN", "END", "AttackResult", "Identity", "describe_failures", "table", "write_page"]

BEGIN = "<!-- attack: begin -->"
END = "<!-- attack: end -->"


class Identity(Struct, frozen=True):
    """What was tried as one user."""

    uid: int
    tried: list[Tried]
    seconds: float

    @property
    def title(self) -> str:
        """Return what this user is called."""
        return "root" if self.uid == 0 else f"user {self.uid}"


class AttackResult(Struct, frozen=True):
    """What an attack came to."""

    identities: list[Identity]

    @property
    def held(self) -> bool:
        """Return whether Treadle held everywhere."""
        return not self.failures

    @property
    def failures(self) -> list[tuple[Identity, Tried]]:
        """Return what did not hold, or could not be tried."""
        return [(each, tried) for each in self.identities for tried in each.tried if not tried.held]


def table(result: AttackResult) -> str:
    """Return a row for each area, as Markdown."""
    titles = {area.name: area.title for area in all_areas()}
    titles["leftovers"] = "what is left on the machine afterwards"
    heads = [f"{each.title}: tried | held" for each in result.identities]
    lines = [f"| area | what | {' | '.join(heads)} |", f"|---|---|{'---:|---:|' * len(heads)}"]
    for name, title in titles.items():
        cells = [_cells(each, name) for each in result.identities]
        if any(tried for tried, _ in cells):
            counts = " | ".join(f"{tried} | {held}" for tried, held in cells)
            lines.append(f"| {name} | {title} | {counts} |")
    sums = [(len(each.tried), sum(t.held for t in each.tried)) for each in result.identities]
    lines.append(f"| **all** | | {' | '.join(f'{tried} | {held}' for tried, held in sums)} |")
    return "\n".join(lines)


def _cells(identity: Identity, area: str) -> tuple[int, int]:
    tried = [each for each in identity.tried if each.area == area]
    return len(tried), sum(each.held for each in tried)


def describe_failures(result: AttackResult) -> str:
    """Return what did not hold, with its evidence."""
    return "\n".join(
        f"NOT HELD ({identity.title}) {tried.area}: {tried.name}\n"
        f"    {(tried.evidence or f'could not be tried: {tried.error}').strip()}"
        for identity, tried in result.failures
    )


def write_page(page: Path, result: AttackResult) -> None:
    """Put the table between the marks of a page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    seconds = " and ".join(f"{each.seconds:.0f} s as {each.title}" for each in result.identities)
    failed = describe_failures(result)
    told = f"\n\n```\n{failed}\n```" if failed else ""
    page.write_text(f"{before}{BEGIN}\nIt took {seconds}.\n\n{table(result)}{told}\n{END}{after}")
