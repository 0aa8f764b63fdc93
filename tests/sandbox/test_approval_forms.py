"""Questions about commands, as terminals, editors, browsers and MCP clients put them."""

from __future__ import annotations

import pytest

from treadle.acp.editor_questions import approval_call, approval_options
from treadle.cli.user_questions import approval_text, options_of
from treadle.harness.events import ApprovalRequested
from treadle.mcp_server.user_forms import form_message, form_schema
from treadle.sandbox.approval_forms import LONGEST_COMMAND, named_decision
from treadle.sandbox.approvals import Ask, ForPrefix, ForThread, No, NoAndStop, Once

LONG = Ask(argv=("write", "a" * 50_000 + " rm -rf /"), cwd="/x", reason="why")
PREFIXES = {
    "too long": ("git", "x" * 300),
    "not printable": ("git", "\u202etuo"),
}


def asked(ask: Ask) -> dict[str, str]:
    """Return the text of the question, by who shows it."""
    return {
        "terminal": approval_text(ask),
        "editor": approval_call("call", ask).title or "",
        "client": form_message(ApprovalRequested(id="q", call=ask)),
    }


def test_what_is_left_out_of_a_long_command_is_told_and_its_end_is_shown():
    for text in asked(LONG).values():
        assert "CHARACTERS ARE NOT SHOWN" in text
        assert "rm -rf /" in text
        assert len(text) < LONGEST_COMMAND + 300


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_prefix_that_nobody_can_read_is_offered_to_nobody(prefix):
    ask = Ask(argv=("git", "push"), cwd="/x", reason="why", prefix=prefix)
    readable = Ask(argv=("git", "push"), cwd="/x", reason="why", prefix=("git", "push"))
    for each, offered in ((ask, False), (readable, True)):
        choices = str(form_schema(ApprovalRequested(id="q", call=each)))
        assert ("(p)refix" in options_of(each)) == offered
        assert ("prefix" in {option.option_id for option in approval_options(each)}) == offered
        assert ("'const': 'prefix'" in choices) == offered
        assert isinstance(named_decision("prefix", each), ForPrefix) == offered


def test_only_a_known_word_is_an_answer():
    ask = Ask(argv=("ls",), cwd="/x", reason="why")
    known = {"once": Once(), "thread": ForThread(), "no": No("later"), "stop": NoAndStop()}
    assert {word: named_decision(word, ask, "later") for word in known} == known
    for word in ("yes", "Once", "", None, 1, ["once"]):
        assert named_decision(word, ask) is None
