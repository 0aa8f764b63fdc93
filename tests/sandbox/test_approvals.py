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
)
from treadle.sandbox.place import CommandPlace, resolve_place
from treadle.sandbox.policy import SandboxPolicy
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
    return judge_command(
        command,
        mode=mode,  # type: ignore[arg-type]
        approval=approval,  # type: ignore[arg-type]
        approved=approved,
        place=place(),
    )


def place() -> CommandPlace:
    """A place with the system's programs on its search path; `/w` need not exist."""
    return resolve_place(
        Path("/w"), SandboxPolicy(), Path("/w"), home=Path("/home/treadle"), environ={}
    )


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
    wish = Escalation("May I fetch the image?", ("docker", "pull"))
    assert verdict("docker pull left-pad", "on-request", escalation=wish) == snapshot(
        Ask(
            argv=("bash", "-lc", "docker pull left-pad"),
            cwd="/w",
            reason="the model says: May I fetch the image?",
            outside=True,
            prefix=("docker", "pull"),
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
        ("docker pull a", ("docker", "pull"), ("docker", "pull")),
        ("docker pull a", (), ("docker", "pull", "a")),
        ("docker pull a", ("docker",), None),
        ("docker pull a", ("podman",), None),
        ("docker pull a && docker ps", ("docker", "pull"), None),
        ("docker pull a && docker pull -q b", ("docker", "pull"), ("docker", "pull")),
        ("docker pull --platform x b", ("docker", "pull"), None),
        ("npm test", ("npm", "test"), None),
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


def test_within_the_sandbox_more_can_be_approved_than_outside():
    inside = verdict("npm test", "untrusted")
    nothing_confined = verdict("npm test", "untrusted", "danger-full-access")
    assert isinstance(inside, Ask)
    assert isinstance(nothing_confined, Ask)
    assert (inside.prefix, nothing_confined.prefix) == (("npm", "test"), None)


def test_a_remembered_prefix_lets_out_only_what_it_was_given_for():
    out = PastApprovals((PrefixRule(("docker", "pull"), outside=True, directory="/w"),))
    inside = PastApprovals((PrefixRule(("docker", "pull"), directory="/w"),))
    wish = Escalation("please")
    assert [
        short(verdict("docker pull all", "untrusted", approved=out)),
        short(verdict("docker pull a && docker pull b", "never", escalation=wish, approved=out)),
        short(verdict("docker pull a && docker push b", "untrusted", approved=out)),
        short(verdict("docker pull a && ls", "untrusted", approved=out)),
        short(verdict("docker pull-all", "untrusted", approved=out)),
        short(verdict("docker pull a > x", "untrusted", approved=out)),
        short(verdict("docker pull --config x a", "untrusted", approved=out)),
        short(verdict("docker pull all", "untrusted", approved=inside)),
        short(verdict("docker pull a", "on-request", escalation=wish, approved=inside)),
        short(verdict("docker pull a", "untrusted", "danger-full-access", approved=inside)),
        short(verdict("docker pull a", "untrusted", "danger-full-access", approved=out)),
    ] == [
        *("outside", "outside", "ask", "inside", "ask", "ask", "ask", "inside", "ask to leave"),
        *("ask", "outside"),
    ]


def test_git_only_looks_where_it_is_confined():
    assert short(verdict("git status", "untrusted")) == "inside"
    assert short(verdict("git status", "untrusted", "danger-full-access")) == "ask"


def asked(text: str, **how: object) -> Ask:
    result = verdict(text, "untrusted", **how)  # type: ignore[arg-type]
    assert isinstance(result, Ask)
    return result


def test_a_command_approved_for_the_thread_is_not_asked_again(tmp_path: Path):
    approvals = Approvals(tmp_path)
    ask = asked("make")
    approvals.record("thr_1", ask, ForThread())
    again = [
        short(verdict("make", "untrusted", approved=approvals.load("thr_1", "/w"))),
        short(verdict("make x", "untrusted", approved=approvals.load("thr_1", "/w"))),
        short(verdict("make", "untrusted", approved=approvals.load("thr_2", "/w"))),
        short(
            verdict(
                "make",
                "untrusted",
                escalation=Escalation(),
                approved=approvals.load("thr_1", "/w"),
            )
        ),
    ]
    approvals.forget("thr_1")
    again.append(short(verdict("make", "untrusted", approved=approvals.load("thr_1", "/w"))))
    assert again == ["inside", "ask", "ask", "ask to leave", "ask"]


@pytest.mark.parametrize("answer", [Once(), No("not now"), NoAndStop()])
def test_other_answers_are_not_remembered(tmp_path: Path, answer: Decision):
    approvals = Approvals(tmp_path)
    approvals.record("thr_1", asked("make"), answer)
    assert approvals.load("thr_1", "/w") == PastApprovals()
    assert list(tmp_path.iterdir()) == []


def test_an_approved_prefix_is_kept_for_every_thread_and_process(tmp_path: Path):
    ask = asked("docker pull a", escalation=Escalation("", ("docker", "pull")))
    Approvals(tmp_path).record("thr_1", ask, ForPrefix(("docker", "pull")))
    rule = PrefixRule(("docker", "pull"), outside=True, directory="/w")
    places = ("/w", "/w/below", "/", "/www", "/elsewhere", "/w/..")
    assert [Approvals(tmp_path).load("thr_2", each).prefixes for each in places] == [
        *((rule,), (rule,), (), (), (), ()),
    ]
    file = tmp_path / "rules.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == snapshot(
        """\
{
  "version": 2,
  "prefixes": [
    {
      "prefix": [
        "docker",
        "pull"
      ],
      "outside": true,
      "directory": "/w"
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
    saved = {rule.prefix[1] for rule in Approvals(tmp_path).load_prefixes("/w")}
    assert saved == {f"target{number}" for number in range(12)}


def test_prefixes_that_are_too_broad_or_beside_the_point_are_refused(tmp_path: Path):
    approvals = Approvals(tmp_path)
    with pytest.raises(ConfigError, match="would approve too much"):
        approvals.record("t", asked("make all"), ForPrefix(("make",)))
    with pytest.raises(ConfigError, match="does not begin the command"):
        approvals.record("t", asked("make all"), ForPrefix(("make", "al")))
    assert approvals.load_prefixes("/w") == ()


def test_a_broken_file_of_rules_is_named(tmp_path: Path):
    (tmp_path / "rules.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cannot read the approved commands in .*rules\.json"):
        Approvals(tmp_path).load_prefixes("/w")


def write_rules(home: Path, *rules: dict[str, object], version: int = 2) -> None:
    content = {"version": version, "prefixes": rules}
    (home / "rules.json").write_bytes(msgspec.json.encode(content))


def test_a_rule_written_by_hand_cannot_be_too_broad(tmp_path: Path):
    write_rules(
        tmp_path,
        {"prefix": ["bash"], "directory": "/w"},
        {"prefix": ["make", "all"], "outside": True, "directory": "/w"},
        {"prefix": ["make", "all"], "directory": "/w"},
    )
    assert Approvals(tmp_path).load_prefixes("/w") == (PrefixRule(("make", "all"), directory="/w"),)


def test_rules_without_a_directory_hold_nowhere_and_that_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    write_rules(tmp_path, {"prefix": ["docker", "pull"], "outside": True}, version=1)
    before = (tmp_path / "rules.json").read_bytes()
    approvals = Approvals(tmp_path)
    assert approvals.load_prefixes("/w") == approvals.load_prefixes("/") == ()
    assert (tmp_path / "rules.json").read_bytes() == before
    assert [record.getMessage() for record in caplog.records] == [
        (
            f"1 approved prefixes in '{tmp_path}/rules.json' hold no longer: they name no "
            "directory, or could run anything; approve them again where you need them"
        )
    ]


def test_rules_of_a_newer_treadle_are_not_guessed_at(tmp_path: Path):
    write_rules(tmp_path, version=3)
    with pytest.raises(ConfigError, match="have version 3, and this Treadle reads 2"):
        Approvals(tmp_path).load_prefixes("/w")


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
