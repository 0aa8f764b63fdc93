"""Commands: whatever a model wants to run, it is decided, and never run unasked by mistake."""

from __future__ import annotations

from typing import get_args

from treadle.sandbox.approvals import ApprovalPolicy, Command, Escalation
from treadle.sandbox.commands import loose_commands, plain_commands
from treadle.sandbox.safety import is_dangerous, is_safe_read_only
from treadle.sandbox.verdict import Run, judge_command
from treadle.tools.patch import PatchError, find_patch

__all__ = ["WORDS", "check"]

WORDS = (
    *(b"ls", b"cat ", b"rm -rf ", b"git status", b"find . -exec ", b"sudo ", b"bash -c ", b"eval "),
    *(b"&&", b"||", b";", b"|", b"&", b"\n", b">", b"<<EOF\n", b"EOF", b"$(", b"`", b"${", b")"),
    *(b"'", b'"', b"\\", b"\\\n", b"\r", b"\f", b"\xc2\xa0", b"{a,b}", b"*", b"~", b"#", b"!"),
    *(b"apply_patch <<'EOF'\n*** Begin Patch\n", b"cd x && ", b"if ", b"then ", b"time ", b"\0"),
)


def check(data: bytes) -> None:
    """Every way to read the script ends, and they agree with each other."""
    script = data.decode(errors="surrogateescape")
    argv = ("bash", "-lc", script)
    plain, dangerous, safe = plain_commands(argv), is_dangerous(argv), is_safe_read_only(argv)
    list(loose_commands(script))
    assert not (safe and dangerous)
    for command in plain or ():
        assert all(isinstance(word, str) for word in command)
        assert not safe or is_safe_read_only(command)
        assert not is_dangerous(command) or dangerous
    for approval in get_args(ApprovalPolicy):
        verdict = judge_command(Command(argv, "/w"), mode="workspace-write", approval=approval)
        assert not dangerous or not isinstance(verdict, Run)
        escaping = Command(argv, "/w", Escalation("please"))
        assert not isinstance(
            judge_command(escaping, mode="workspace-write", approval=approval), Run
        )
    try:
        find_patch(script)
        find_patch(argv)
    except PatchError:
        return
