"""The command line of the fleet."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from soak.fleet.fleet import Fleet
from soak.fleet.verdict import FleetResult, judge, table, write_page

__all__ = ["main"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak.fleet", description=__doc__)
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default="7", help="fixes what is said and who is struck")
    parser.add_argument("--threads", type=int, default=60)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--place", type=Path, help="where evidence is kept")
    parser.add_argument("--json", type=Path, help="write the result here, too")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    return parser.parse_args()


async def _play(fleet: Fleet) -> FleetResult:
    try:
        await fleet.play()
        return await judge(fleet)
    finally:
        if fleet.server is not None:
            fleet.server.close()


def main() -> int:
    """Run the fleet; 1 when something was found."""
    asked = _arguments()
    place = (asked.place or Path(tempfile.gettempdir())) / f"treadle-fleet-{secrets.token_hex(3)}"
    place.mkdir(parents=True)
    fleet = Fleet(
        place,
        asked.store,
        asked.minutes * 60,
        asked.seed,
        workers=asked.workers,
        threads=asked.threads,
    )
    result = asyncio.run(_play(fleet))
    print(table(result))
    for finding in result.report.findings[:40]:
        print(f"  {finding.row}: {finding.where}: {finding.what[-800:]}")
    if asked.json:
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    if asked.page:
        write_page(asked.page, result)
    if result.report.clean:
        shutil.rmtree(place, ignore_errors=True)
        return 0
    print(f"the evidence is in {place}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
