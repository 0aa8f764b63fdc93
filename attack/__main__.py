"""The command line of the attack."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from attack.areas import AREAS, all_areas
from attack.attempt import Attempt
from attack.runner import Job, Tried
from attack.table import AttackResult, Identity, describe_failures, table, write_page
from treadle.sandbox.probe import find_bubblewrap

__all__ = ["main"]

NOBODY = 65534
_PLACE = "/var/tmp"
"""Commands may write `/tmp` by default, so nothing that they must not write lies there."""
ROOT = Path(__file__).parents[1]
HELP = """\
Attacks Treadle in every way that is known, and tells what held.

Everything takes place in temporary directories and on the loopback interface; it needs no key
and no network. Started as root, everything is tried twice: as root and as user 65534. Started
as anybody else, it is tried as that user, and the table says so. The exit code is 1 when
something did not hold, and 0 otherwise.
"""
EXAMPLES = """\
examples:
  python -m attack                           everything, below four minutes for each user
  python -m attack --list                    what is tried, and what would prove it
  python -m attack --only sandbox,hooks      two areas
  python -m attack --only store --name flip  attempts with "flip" in their names
  python -m attack --quick                   the cheapest attempts of each area
  python -m attack --weaken --only sandbox   show that attempts get through where they can
  python -m attack --page docs/security.md   write the table into the page
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m attack",
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="AREA", help=f"with commas: {', '.join(AREAS)}")
    parser.add_argument("--name", default="", help="only attempts whose names contain this")
    parser.add_argument("--list", action="store_true", help="say what would be tried, and stop")
    parser.add_argument("--quick", action="store_true", help="only the cheapest of each area")
    parser.add_argument(
        "--weaken",
        action="store_true",
        help="leave open on purpose what an area attacks, and try what must get through then",
    )
    parser.add_argument("--uid", type=int, help="only as this user")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    asked = parser.parse_args(given)
    asked.areas = tuple(asked.only.split(",")) if asked.only else ()
    if unknown := sorted(set(asked.areas) - set(AREAS)):
        parser.error(f"no area {unknown[0]!r}; there are {', '.join(AREAS)}")
    if asked.uid not in (None, os.geteuid()) and os.geteuid() != 0:
        parser.error(f"only root can become user {asked.uid}; leave out --uid")
    return asked


def chosen(asked: argparse.Namespace) -> list[Attempt]:
    """Return the attempts that were asked for."""
    return [
        each
        for area in all_areas(asked.areas)
        for each in area.attempts
        if asked.name in each.name
        and (each.quick or not asked.quick)
        and (each.proof or not asked.weaken)
    ]


def main(given: Sequence[str] | None = None) -> int:
    """Attack; 1 when something did not hold."""
    asked = arguments(given)
    attempts = chosen(asked)
    if asked.list:
        _print_list(asked)
        return 0
    if not attempts:
        print("no attempt is called like that; see --list")
        return 2
    users = [asked.uid] if asked.uid is not None else identities()
    result = AttackResult([_attack(uid, attempts, asked) for uid in users])
    if asked.json:
        print(msgspec.json.format(msgspec.json.encode(result)).decode())
    else:
        _print_table(result)
    if asked.page:
        write_page(asked.page, result)
    if asked.weaken:
        return int(
            any(
                each.held
                for identity in result.identities
                for each in identity.tried
                if each.area != "leftovers"
            )
        )
    return int(not result.held)


def identities() -> list[int]:
    """Return whom to attack as: this user, and an ordinary one where root may become one."""
    return [0, NOBODY] if os.geteuid() == 0 else [os.geteuid()]


def _attack(uid: int, attempts: Sequence[Attempt], asked: argparse.Namespace) -> Identity:
    started = time.monotonic()
    with _directories(uid) as (top, tools):
        job = Job(
            uid=uid,
            top=str(top),
            tools=str(tools),
            keys=[each.key for each in attempts],
            weak=asked.weaken,
            at_once=min(2, os.cpu_count() or 1),
        )
        command = [sys.executable, "-m", "attack.runner", msgspec.json.encode(job).decode()]
        tried = []
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout
            for line in process.stdout:
                tried.append(msgspec.json.decode(line, type=Tried))
                _show_progress(uid, len(tried), len(attempts), tried[-1])
        if process.returncode:
            tried.append(Tried(area="leftovers", name="the runner", error="it ended early"))
    _clear_progress()
    return Identity(uid, tried, round(time.monotonic() - started, 1))


@contextmanager
def _directories(uid: int) -> Iterator[tuple[Path, Path]]:
    """Yield a directory that belongs to a user, and one with the tools that it needs."""
    with tempfile.TemporaryDirectory(
        prefix="treadle-attack-", dir=_PLACE, ignore_cleanup_errors=True
    ) as made:
        place = Path(made)
        place.chmod(0o755)
        top, tools = place / "top", place / "tools"
        for each in (top, tools):
            each.mkdir()
            each.chmod(0o755)
        shutil.copy2(find_bubblewrap(tools).binary, tools / "bwrap")
        if os.geteuid() == 0:
            os.chown(top, uid, uid)
        yield top, tools


def _show_progress(uid: int, number: int, of: int, tried: Tried) -> None:
    if sys.stderr.isatty():
        said = f"as user {uid}: {min(number, of)}/{of} {tried.area}: {tried.name}"
        sys.stderr.write(f"\r\x1b[K{said[: shutil.get_terminal_size().columns - 1]}")
        sys.stderr.flush()


def _clear_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


def _print_list(asked: argparse.Namespace) -> None:
    named = {each.key for each in chosen(asked)}
    for area in all_areas(asked.areas):
        print(f"{area.name}: {area.title} (to show that they can get through: {area.weakness})")
        for each in area.attempts:
            if each.key in named:
                print(f"  {each.name}\n      {each.story}")


def _print_table(result: AttackResult) -> None:
    print(table(result))
    if len(result.identities) == 1:
        (only,) = result.identities
        print(f"\nTried as {only.title} only.", end="")
        print("" if os.geteuid() == 0 else " Start it as root to have it tried as two users.")
    for each in result.identities:
        print(f"{each.title}: {each.seconds:.0f} seconds")
    if failed := describe_failures(result):
        print(f"\n{failed}")


if __name__ == "__main__":
    sys.exit(main())
