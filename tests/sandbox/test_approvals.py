from __future__ import annotations

import stat
import threading
from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot

from treadle.core.errors import ConfigError
from treadle.sandbox.approvals import (
    Approvals,
    Ask,
    Command,
    Decision,
    Escalation,
    ForPrefix,
    ForThread,
    No,
    NoAndStop,
    Once,
    PastApprovals,
    PrefixRule,
    is_banned,
)
from treadle.sandbox.verdict import (
    Refuse,
    Run,
    Verdict,
    can_offer_outside,
    judge_command,
    judge_patch,
    was_denied,
)

NOTHING = PastApprovals()


def verdict(
    text: str,
    approval: str,
    mode: str = "workspace-write",
    *,
    escalation: Escalation | None = None,
    approved: PastApprovals = NOTHING,
) -> Verdict:
    command = Command(("bash", "-lc", text), "/w", escalation)
    return judge_command(command, mode=mode, approval=approval, approved=approved)  # type: ignore[arg-type]


def short(result: Verdict) -> str:
    match result:
        case Run(sandboxed):
            return "inside" if sandboxed else "outside"
        case Ask(outside=outside):
            return "ask to leave" if outside else "ask"
        case Refuse():
            return "refuse"


def test_the_whole_table_of_decisions():
    wishes = Escalation("needs it")
    table = {
        (text, wish is not None): [
            short(verdict(text, approval, mode, escalation=wish))
            for mode in ("workspace-write", "danger-full-access")
            for approval in ("never", "on-request", "untrusted")
        ]
        for text in ("ls | wc -l", "make", "rm -rf x")
        for wish in (None, wishes)
    }
    assert table == snapshot(
        {
            ("ls | wc -l", False): ["inside", "inside", "inside", "outside", "outside", "outside"],
            ("ls | wc -l", True): [
                "refuse",
                "ask to leave",
                "ask to leave",
                "outside",
                "outside",
                "outside",
            ],
            ("make", False): ["inside", "inside", "ask", "outside", "outside", "ask"],
            ("make", True): [
                "refuse",
                "ask to leave",
                "ask to leave",
                "outside",
                "outside",
                "ask",
            ],
            ("rm -rf x", False): ["refuse", "ask", "ask", "refuse", "ask", "ask"],
            ("rm -rf x", True): [
                "refuse",
                "ask to leave",
                "ask to leave",
                "refuse",
                "ask",
                "ask",
            ],
        }
    )


def test_the_reason_repeats_what_the_model_said():
    wish = Escalation("May I fetch the packages?", ("npm", "install"))
    assert verdict("npm install left-pad", "on-request", escalation=wish) == snapshot(
        Ask(
            argv=("bash", "-lc", "npm install left-pad"),
            cwd="/w",
            reason="`bash -lc 'npm install left-pad'` requires approval: May I fetch the packages?",
            outside=True,
            prefix=("npm", "install"),
        )
    )


def test_refusals_say_what_to_do_instead():
    assert verdict("make", "never", escalation=Escalation()) == snapshot(
        Refuse(
            "`bash -lc make` rejected: it asks to leave the sandbox, and nobody is asked for "
            "approval; run it inside"
        )
    )
    assert verdict("rm -rf x", "never") == snapshot(
        Refuse(
            "`bash -lc 'rm -rf x'` rejected: it removes files by force, and nobody is asked for "
            "approval"
        )
    )


@pytest.mark.parametrize(
    ("text", "wished", "offered"),
    [
        ("npm test", ("npm", "test"), ("npm", "test")),
        ("npm test", (), ("npm", "test")),
        ("npm test", ("npm",), None),
        ("npm test", ("yarn",), None),
        ("npm test && npm ci", ("npm", "test"), None),
        ("npm test -a && npm test -b", ("npm", "test"), ("npm", "test")),
        ("echo $X", ("echo",), None),
        ("rm -rf x", ("rm", "-rf", "x"), None),
    ],
)
def test_a_prefix_is_offered_only_if_it_settles_the_whole_command(
    text: str, wished: tuple[str, ...], offered: tuple[str, ...] | None
):
    asked = verdict(text, "on-request", escalation=Escalation("", wished))
    assert isinstance(asked, Ask)
    assert asked.prefix == offered


def test_a_remembered_prefix_lets_out_only_what_it_was_given_for():
    out = PastApprovals((PrefixRule(("make", "fetch"), outside=True),))
    inside = PastApprovals((PrefixRule(("make", "fetch")),))
    wish = Escalation("please")
    assert [
        short(verdict("make fetch all", "untrusted", approved=out)),
        short(verdict("make fetch && make fetch b", "never", escalation=wish, approved=out)),
        short(verdict("make fetch && make all", "untrusted", approved=out)),
        short(verdict("make fetch && ls", "untrusted", approved=out)),
        short(verdict("make fetch-all", "untrusted", approved=out)),
        short(verdict("make fetch > x", "untrusted", approved=out)),
        short(verdict("make fetch all", "untrusted", approved=inside)),
        short(verdict("make fetch", "on-request", escalation=wish, approved=inside)),
    ] == ["outside", "outside", "ask", "inside", "ask", "ask", "inside", "ask to leave"]


def asked(text: str, **how: object) -> Ask:
    result = verdict(text, "untrusted", **how)  # type: ignore[arg-type]
    assert isinstance(result, Ask)
    return result


def test_a_command_approved_for_the_thread_is_not_asked_again(tmp_path: Path):
    approvals = Approvals(tmp_path)
    ask = asked("make")
    approvals.record("thr_1", ask, ForThread())
    again = [
        short(verdict("make", "untrusted", approved=approvals.load("thr_1"))),
        short(verdict("make x", "untrusted", approved=approvals.load("thr_1"))),
        short(verdict("make", "untrusted", approved=approvals.load("thr_2"))),
        short(
            verdict(
                "make",
                "untrusted",
                escalation=Escalation(),
                approved=approvals.load("thr_1"),
            )
        ),
    ]
    approvals.forget("thr_1")
    again.append(short(verdict("make", "untrusted", approved=approvals.load("thr_1"))))
    assert again == ["inside", "ask", "ask", "ask to leave", "ask"]


@pytest.mark.parametrize("answer", [Once(), No("not now"), NoAndStop()])
def test_other_answers_are_not_remembered(tmp_path: Path, answer: Decision):
    approvals = Approvals(tmp_path)
    approvals.record("thr_1", asked("make"), answer)
    assert approvals.load("thr_1") == PastApprovals()
    assert list(tmp_path.iterdir()) == []


def test_an_approved_prefix_is_kept_for_every_thread_and_process(tmp_path: Path):
    ask = asked("make fetch", escalation=Escalation("", ("make", "fetch")))
    Approvals(tmp_path).record("thr_1", ask, ForPrefix(("make", "fetch")))
    kept = Approvals(tmp_path).load("thr_2")
    assert kept == PastApprovals((PrefixRule(("make", "fetch"), outside=True),))
    file = tmp_path / "rules.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == snapshot(
        """\
{
  "version": 1,
  "prefixes": [
    {
      "prefix": [
        "make",
        "fetch"
      ],
      "outside": true
    }
  ]
}
"""
    )


def test_no_rule_is_lost_when_many_save_at_once(tmp_path: Path):
    def save(number: int) -> None:
        text = f"make target{number}"
        Approvals(tmp_path).record("t", asked(text), ForPrefix(("make", f"target{number}")))

    threads = [threading.Thread(target=save, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    saved = {rule.prefix[1] for rule in Approvals(tmp_path).load_prefixes()}
    assert saved == {f"target{number}" for number in range(12)}


def test_prefixes_that_are_too_broad_or_beside_the_point_are_refused(tmp_path: Path):
    approvals = Approvals(tmp_path)
    with pytest.raises(ConfigError, match="would approve too much"):
        approvals.record("t", asked("make all"), ForPrefix(("make",)))
    with pytest.raises(ConfigError, match="does not begin the command"):
        approvals.record("t", asked("make all"), ForPrefix(("make", "al")))
    assert approvals.load_prefixes() == ()


def test_a_broken_file_of_rules_is_named(tmp_path: Path):
    (tmp_path / "rules.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cannot read the approved commands in .*rules\.json"):
        Approvals(tmp_path).load_prefixes()


def test_a_rule_written_by_hand_cannot_be_too_broad(tmp_path: Path):
    rules = {"prefixes": [{"prefix": ["bash"]}, {"prefix": ["make", "all"]}]}
    (tmp_path / "rules.json").write_bytes(msgspec.json.encode(rules))
    assert Approvals(tmp_path).load_prefixes() == (PrefixRule(("make", "all")),)


@pytest.mark.parametrize(
    "text",
    [
        *("", "bash", "/bin/bash", "python3", "python3 -c", "python3 -u -c", "bash -lc", "env"),
        *("env A=1", "sudo", "sudo apt", "timeout 10", "timeout 10 python -c", "xargs -n 1"),
        *("git", "rm", "rm -rf", "npm run", "npm", "uv run", "find . -name x", "node -e", "make"),
    ],
)
def test_beginnings_that_could_run_anything_are_banned(text: str):
    assert is_banned(text.split())


@pytest.mark.parametrize(
    "text",
    ["git push", "npm run test", "python3 manage.py", "sudo apt install", "pytest", "cargo test"],
)
def test_beginnings_that_say_what_they_do_are_not(text: str):
    assert not is_banned(text.split())


def test_patches_are_judged_by_their_paths():
    def judged(paths: tuple[str, ...], writable: bool, confined: bool = True) -> list[str]:
        return [
            short(
                judge_patch(
                    paths=paths,
                    writable=writable,
                    approval=approval,
                    confined=confined,
                )
            )
            for approval in ("never", "on-request", "untrusted")
        ]

    assert judged((), writable=True) == ["refuse"] * 3
    assert judged(("a",), writable=True) == ["inside", "inside", "ask"]
    assert judged(("a",), writable=False) == ["refuse", "ask to leave", "ask to leave"]
    assert judged(("a",), writable=True, confined=False) == ["outside", "outside", "ask"]


def test_leaving_the_sandbox_after_a_denial_is_offered_where_users_are_asked():
    policies = ("never", "on-request", "untrusted")
    assert [can_offer_outside(each) for each in policies] == [False, False, True]  # type: ignore[arg-type]
    assert [can_offer_outside(each, patch=True) for each in policies] == [False, True, True]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "output", "denied"),
    [
        (1, "touch: cannot touch 'x': Read-only file system", True),
        (1, "PERMISSION DENIED", True),
        (159, "", True),
        (0, "permission denied", False),
        (1, "syntax error", False),
        (2, "", False),
        (126, "", False),
        (127, "not found", False),
    ],
)
def test_denials_are_told_from_failures(code: int, output: str, denied: bool):
    assert was_denied(code, output) is denied
