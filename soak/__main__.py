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
    parser = argparse.ArgumentParser(prog="python -m soak", description="Treadle under chaos.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default="7", help="fixes the plan of faults")
    known = ", ".join(role.name for role in ROLES)
    parser.add_argument("--roles", help=f"only these, with commas: {known}")
    parser.add_argument("--short", action="store_true", help="the smaller cast")
    parser.add_argument("--place", type=Path, help="where evidence is kept")
    parser.add_argument("--json", type=Path, help="write the result here, too")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    asked = parser.parse_args()
    asked.cast = SHORT if asked.short else ROLES
    if asked.roles:
        names = set(asked.roles.split(","))
        if unknown := sorted(names - {role.name for role in asked.cast}):
            there = ", ".join(role.name for role in asked.cast)
            parser.error(f"no role {unknown[0]!r}; there are {there}")
        asked.cast = [role for role in asked.cast if role.name in names]
    return asked


def main() -> int:
    """Run a soak; 1 when something was found."""
    asked = arguments()
    enter_namespace([sys.executable, "-m", "soak", *sys.argv[1:]])
    parent = asked.place or Path(tempfile.gettempdir())
    place = Place(parent / f"treadle-soak-{secrets.token_hex(3)}")
    conductor = Conductor(place, asked.cast, asked.minutes * 60, asked.seed)
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
