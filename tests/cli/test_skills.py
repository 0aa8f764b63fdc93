"""Skills on the command line and in the chat."""

from __future__ import annotations

import json
import re

from tests.skills.scenes import write_skill

from .scripts import scripted
from .test_chat import answers
from .window import window


def listed(treadle) -> dict[str, str]:
    return {row["name"]: row["state"] for row in treadle("skills", "--json").json["skills"]}


def test_skills_of_a_project_count_one_by_one_after_trust(treadle):
    place = treadle.project / ".agents" / "skills"
    write_skill(place, "alpha", body="Alpha text.")
    write_skill(place, "beta")
    assert listed(treadle) == {"alpha": "is not trusted", "beta": "is not trusted"}
    assert "Alpha text." in treadle("skills", "show", "alpha").text
    assert treadle("skills", "trust", "alpha").text == "trusted: alpha\n"
    assert listed(treadle) == {"alpha": "listed", "beta": "is not trusted"}
    assert [row["trusted"] for row in treadle("trust", "--json").json["skills"]] == [True, True]
    (place / "beta" / "helper.sh").write_text("echo hi")
    assert listed(treadle) == {"alpha": "listed", "beta": "has changed since it was trusted"}
    shown = treadle("trust", "--show").text.split("\n")
    assert shown == [
        "  skill alpha counts",
        "  skill beta does not count: it has changed since it was trusted",
        "",
    ]
    assert treadle("skills", "trust", "--remove").text == "not trusted any more: alpha\n"


def test_exec_warns_of_skills_that_are_not_used_and_uses_the_others(treadle):
    write_skill(treadle.project / ".claude" / "skills", "alpha", body="Alpha text.")
    write_skill(treadle.home / "skills", "mine", body="My text.")
    model = scripted(treadle, {"text": "Done.", "times": 0})
    done = treadle("exec", "/mine now", "--model", model)
    assert "1 skill not trusted and not used (alpha)" in done.err
    sent = treadle("prompt", "--thread", "last").text
    assert "developer  <permissions> <skills>" in sent
    assert re.search(r"(?m)^skills +about \d+ tokens, for the list and its changes$", sent)
    assert "user       <skill>" in sent
    body = treadle("prompt", "--thread", "last", "--json").text
    assert "My text." in body
    assert "alpha" not in body.partition('"input"')[2].replace(str(treadle.project), "")


def test_a_new_skill_is_sound_and_is_counted_at_once(treadle):
    treadle("skills", "new", "deploy", "--description", "Ships it.", "--project")
    assert listed(treadle) == {"deploy": "listed"}
    assert treadle("skills", "check").text == "nothing is wrong\n"
    again = treadle.refused("skills", "new", "deploy", "--project")
    assert "exists; choose another name" in again
    assert "'../evil' cannot be a name" in treadle.refused("skills", "new", "../evil")
    assert "`treadle skills` lists them" in treadle.refused("skills", "show", "nothing")


def test_check_names_what_is_wrong_and_fails_for_what_cannot_be_used(treadle):
    directory = write_skill(treadle.project, "Bad_Name", unknown="x")
    done = treadle("skills", "check", str(directory), "--json")
    assert [each["what"] for each in done.json["problems"]] == [
        "has the name 'Bad_Name'; the format wants a-z, 0-9 and single '-'",
        "has keys that nobody knows: unknown",
    ]
    (directory / "SKILL.md").write_text("no front matter")
    failed = treadle.attempt("skills", "check", str(directory))
    assert failed.code == 1
    assert failed.text.startswith("cannot be used: ")
    assert "it has no front matter" in failed.text


def test_settings_turn_skills_off_one_by_one_and_all(treadle):
    write_skill(treadle.home / "skills", "alpha")
    write_skill(treadle.home / "skills", "beta")
    (treadle.home / "config.toml").write_text('[skills]\ndisabled = ["beta"]\n')
    assert listed(treadle) == {"alpha": "listed"}
    (treadle.home / "config.toml").write_text("[skills]\nenabled = false\n")
    body = json.loads(treadle("prompt", "go", "--json").text)
    assert "skill" not in [each.get("name") for each in body["tools"]]
    assert "alpha" not in json.dumps(body["input"])


def test_the_chat_lists_skills_calls_them_and_asks_about_a_projects(treadle):
    write_skill(treadle.home / "skills", "mine", "Mine to call.", body="My text.")
    write_skill(treadle.home / "skills", "status", "Never reached.")
    write_skill(treadle.project / ".agents" / "skills", "theirs", body="Their text.")
    answers(treadle, {"text": "Mine is done."}, {"text": "Theirs is done."})
    with window(treadle, columns=160, rows=40) as session:
        session.until("1 skill not trusted and not used (theirs)", "\n>")
        session.type("/skills\r")
        session.until("/mine", "listed · user · Mine to call.", "/theirs", "is not trusted")
        session.type("/mine go\r")
        session.until("> /mine go\n", "Mine is done.")
        session.type("/theirs\r")
        session.until("Their text.", "Use this skill of the project?")
        session.type("yes\r")
        session.until("> /theirs\n", "Theirs is done.")
        session.type("/mi\t")
        session.until("Mine to call.")
        session.type("\x15")
        session.type("/min\r")
        session.until("there is no command /min; did you mean /mine?")
        session.type("\x04")
        assert session.end() == 0
    body = treadle("prompt", "--thread", "last", "--json").text
    assert "My text." in body
    assert "Their text." in body
