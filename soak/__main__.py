"""The command line of the soak."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from soak.conductor import Conductor
from soak.places import Place, enter_namespace
from soak.roles import ROLES, SHORT
from soak.table import table, write_page
from soak.verdict import Result

__all__ = ["main"]


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m soak", description="Weft under chaos.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default="7", help="fixes the plan of faults")
    parser.add_argument("--roles", default="", help="only these, with commas")
    parser.add_argument("--short", action="store_true", help="the smaller cast")
    parser.add_argument("--place", type=Path, help="where evidence is kept")
    parser.add_argument("--json", type=Path, help="write the result here, too")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    return parser.parse_args()


def main() -> int:
    """Run a soak; 1 when something was found."""
    asked = arguments()
    enter_namespace([sys.executable, "-m", "soak", *sys.argv[1:]])
    parent = asked.place or Path(tempfile.gettempdir())
    place = Place(parent / f"weft-soak-{secrets.token_hex(3)}")
    chosen = SHORT if asked.short else ROLES
    roles = [role for role in chosen if not asked.roles or role.name in asked.roles.split(",")]
    conductor = Conductor(place, roles, asked.minutes * 60, asked.seed)
    try:
        result = asyncio.run(conductor.run())
        found = not result.report.clean
        if found:
            for disk in conductor.disks.values():
                disk.keep()
            result = msgspec.structs.replace(result, evidence=str(place.root))
    finally:
        for disk in conductor.disks.values():
            disk.unmount()
    tell(result)
    if asked.json:
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    if asked.page:
        write_page(asked.page, result)
    if not found:
        shutil.rmtree(place.root, ignore_errors=True)
    return int(found)


def tell(result: Result) -> None:
    """Print what was found."""
    print(table(result))
    for finding in result.report.findings[:40]:
        print(f"  {finding.row}: {finding.where}: {finding.what[-1500:]}")
    if result.evidence:
        print(f"the evidence is in {result.evidence}")


if __name__ == "__main__":
    sys.exit(main())
