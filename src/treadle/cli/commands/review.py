"""`treadle review`: a review of the working tree, a branch or a commit, as a thread of its own."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec
from msgspec import Struct

from ...core.wire import Json, json_bytes
from ...prompt.review_message import Review, ReviewTarget, review_schema
from ..cli_home import Home
from ..command_options import as_json, prompt_argument, runs
from ..exec_report import PlainReport
from ..interrupts import INTERRUPTED, LIMITED
from ..lazy_group import examples
from ..output import one_line, printable, say, say_json
from ..review_run import finding_place, for_review, read_only, read_review, review_title
from ..review_target import find_target
from ..run_options import take_run_options, with_run_options
from ..single_turn import SingleTurn
from ..terminal_input import is_attended
from ..thread_heading import about
from ..thread_setup import Setup, open_thread, prepare, warn_of_project

__all__ = ["command"]

_FOUND = 1


class ReviewRequest(Struct, frozen=True, kw_only=True):
    """What is reviewed, and how the result is shown."""

    text: str | None
    base: str | None
    commit: str | None
    fail_on: int | None
    as_json: bool


@click.command(
    "review",
    epilog=examples(
        "treadle review",
        "treadle review --base main",
        'treadle review --commit HEAD "look at the locking"',
        "treadle review --base main --fail-on 1    for a build server",
    ),
)
@prompt_argument
@click.option("--base", metavar="BRANCH", help="Review what was done since this branch.")
@click.option("--commit", metavar="COMMIT", help="Review this commit.")
@click.option(
    "--fail-on",
    type=click.IntRange(0, 3),
    help="Exit with 1 if a finding has this priority or a weightier one (0 is the weightiest).",
)
@with_run_options
@as_json
@runs
async def command(home: Home, **asked: Any) -> int:
    """Review changes: those since the last commit, of a branch, or of one commit.

    PROMPT says what to look at in particular. The reviewer works in a thread of its own, reads
    what it needs and changes nothing: its sandbox is read-only, unless --sandbox says
    otherwise. Findings have a priority: 0 must not be merged, 1 should be mended first, 2 can
    follow, 3 is small. Ask the reviewer more with `treadle exec --resume THREAD`.
    """
    options, request = take_run_options(asked), ReviewRequest(**asked)
    if request.base and request.commit:
        raise click.UsageError("--base and --commit exclude each other; leave one out.")
    setup = for_review(await prepare(home, read_only(options), attended=False))
    target = await find_target(setup.home, setup.cwd, base=request.base, commit=request.commit)
    if not target.files:
        return _say_nothing(request)
    warn_of_project(setup)
    return await _run(setup, request, target)


async def _run(setup: Setup, request: ReviewRequest, target: ReviewTarget) -> int:
    report = PlainReport(live=False, answers=False)
    schema = Json(json_bytes(review_schema()))
    async with open_thread(setup, title=review_title(target)) as thread:
        report.show_start(thread.id, about(setup, thread))
        attended = is_attended() and not request.as_json
        turn = SingleTurn(thread, report, setup.settings, attended=attended)
        done = await turn.run(target.message(request.text or ""), schema=schema)
    if done.status != "completed":
        if done.limit is not None:
            return LIMITED
        return INTERRUPTED if done.status == "interrupted" else 1
    review = read_review(done.text)
    if request.as_json:
        say_json({"thread": thread.id, **msgspec.to_builtins(review)})
    else:
        _show(review)
    weightiest = min((each.priority for each in review.findings), default=4)
    return _FOUND if request.fail_on is not None and weightiest <= request.fail_on else 0


def _say_nothing(request: ReviewRequest) -> int:
    if request.as_json:
        say_json({"thread": None, "summary": "nothing has changed", "findings": []})
    else:
        say("nothing has changed; name a branch with --base, or a commit with --commit")
    return 0


def _show(review: Review) -> None:
    colour = sys.stdout.isatty()
    for number, each in enumerate(review.findings, 1):
        head = f"{number}. {one_line(each.title)}"
        click.echo(click.style(head, bold=True) if colour else head)
        click.echo(f"   {finding_place(each)}")
        for line in printable(each.detail.strip()).splitlines():
            click.echo(click.wrap_text(line, 88, "   ", "   ") if line.strip() else "")
        click.echo("")
    if not review.findings:
        say("no findings")
    say(review.summary.strip())
