from __future__ import annotations

from typing import Any

import pytest

from treadle.delivery.channel import Reply
from treadle.delivery.decision import (
    CONTINUING,
    NO_VISIBLE_REPLY,
    NOT_DELIVERED,
    Decision,
    Deliver,
    Retry,
    SentByTool,
    Suppress,
    TurnFacts,
    decide,
)

IMAGE = "https://example.com/a.png"
ANSWER = Reply(text="The answer is 4.")
MADE = Reply(media=(IMAGE,), always=True)
PROGRESS = SentByTool(text="Half done.", final=False)


def notice(text: str, *, is_error: bool = False) -> Deliver:
    return Deliver((Reply(text=text, kind="status", is_error=is_error, always=True),))


def turn(*replies: Reply, **facts: Any) -> TurnFacts:
    return TurnFacts(replies=replies, **facts)


def private(*replies: Reply, **facts: Any) -> TurnFacts:
    return TurnFacts(replies=replies, visible="tool-only", **facts)


SILENT = Suppress("silent")
FAILURE = Deliver((Reply(text="Rate limit reached.", is_error=True, kind="status", always=True),))
FAILED: dict[str, Any] = {"status": "failed", "failure": "Rate limit reached."}

ROWS: dict[str, tuple[TurnFacts, Decision]] = {
    "text": (turn(ANSWER), Deliver((ANSWER,))),
    "media-with-token": (
        turn(Reply(text="NO_REPLY", media=(IMAGE,))),
        Deliver((Reply(media=(IMAGE,)),)),
    ),
    "FU-1": (turn(ANSWER, sent=(SentByTool(text=ANSWER.text),)), SILENT),
    "FU-7": (turn(pending=True), notice(CONTINUING)),
    "FU-8": (turn(Reply(text="NO_REPLY"), pending=True), notice(CONTINUING)),
    "FU-9": (turn(Reply(text="On my way."), pending=True), Deliver((Reply(text="On my way."),))),
    "FU-11": (turn(Reply(text="NO_REPLY")), SILENT),
    "FU-12": (turn(Reply(text="NO_REPLY"), expected="optional"), SILENT),
    "FU-14": (turn(ANSWER, sends="deny"), Suppress("send-policy")),
    "FU-15": (turn(ANSWER, status="aborted"), Suppress("aborted")),
    "FU-21": (private(ANSWER, internal=True), SILENT),
    "FU-22": (private(ANSWER, expected="optional"), SILENT),
    "FU-25": (private(ANSWER), Retry()),
    "FU-26": (
        private(ANSWER, MADE),
        Deliver((MADE,)),
    ),
    "FU-30": (
        private(
            ANSWER,
            MADE,
            sent=(SentByTool(media=(IMAGE,), final=False),),
        ),
        Retry(),
    ),
    "FU-32": (private(ANSWER, retried=True), notice(NOT_DELIVERED, is_error=True)),
    "FU-33": (turn(internal=True, **FAILED), SILENT),
    "FU-34": (private(**FAILED), FAILURE),
    "FU-35": (private(expected="optional", **FAILED), FAILURE),
    "FU-36": (private(ANSWER, **FAILED), FAILURE),
    "FU-37": (turn(expected="optional", **FAILED), FAILURE),
    "FU-38": (turn(**FAILED), FAILURE),
    "FU-40": (turn(sent=(SentByTool(text="Done."),), **FAILED), SILENT),
    "FU-41": (turn(pending=True, **FAILED), SILENT),
    "FU-42": (turn(asked=True, **FAILED), SILENT),
    "FU-44": (turn(sent=(PROGRESS,)), notice(NO_VISIBLE_REPLY)),
    "FU-47": (turn(sent=(SentByTool(text="x", to_origin=False),)), notice(NO_VISIBLE_REPLY)),
    "FU-48": (turn(sent=(SentByTool(text="Done."),)), SILENT),
    "FU-50": (turn(asked=True), SILENT),
    "asked-while-agents-work": (turn(asked=True, pending=True), SILENT),
    "FU-51": (turn(pending=True, sent=(PROGRESS,)), SILENT),
    "FU-52": (private(pending=True, sent=(PROGRESS,)), SILENT),
    "FU-53": (private(asked=True), SILENT),
    "FU-54": (private(), notice(NO_VISIBLE_REPLY)),
    "FU-55": (private(sent=(PROGRESS,)), notice(NO_VISIBLE_REPLY)),
    "nothing-said": (turn(), notice(NO_VISIBLE_REPLY)),
    "nothing-expected": (turn(expected="optional"), SILENT),
    "failed-without-words": (
        turn(status="failed"),
        notice(NO_VISIBLE_REPLY, is_error=True),
    ),
    "part-of-a-failed-turn": (turn(Reply(text="part", kind="block"), **FAILED), FAILURE),
    "sent-medium": (
        turn(Reply(text="Look", media=(IMAGE,)), sent=(SentByTool(media=(IMAGE,)),)),
        Deliver((Reply(text="Look"),)),
    ),
    "sent-as-progress": (
        turn(ANSWER, sent=(SentByTool(text=ANSWER.text, final=False),)),
        SILENT,
    ),
    "sent-elsewhere": (
        turn(ANSWER, sent=(SentByTool(text=ANSWER.text, to_origin=False),)),
        Deliver((ANSWER,)),
    ),
    "own-token": (turn(Reply(text="QUIET"), token="QUIET"), SILENT),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_a_turn_tells_follows_from_its_facts(row):
    facts, decision = ROWS[row]
    assert decide(facts) == decision
