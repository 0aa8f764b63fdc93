from __future__ import annotations

import json

from .scripts import scripted
from .test_chat import Talk
from .test_terminal import screen

HOOK = "[hooks.note]\nevent = 'UserPromptSubmit'\ncommand = ['./note.sh']\n"


def prepared(weft) -> None:
    (weft.project / ".weft").mkdir()
    (weft.project / ".weft" / "config.toml").write_text(HOOK)
    written(weft, "rain")


def written(weft, word: str) -> None:
    script = weft.project / "note.sh"
    script.write_text(f"#!/bin/sh\ncat > heard.json; echo {word} >> ran\n")
    script.chmod(0o755)


def ran(weft) -> list[str]:
    file = weft.project / "ran"
    return file.read_text().split() if file.exists() else []


def test_a_projects_hook_runs_when_it_was_trusted_and_until_it_changes(weft):
    prepared(weft)
    model = scripted(weft, *({"text": str(number)} for number in range(4)))
    weft("exec", "x", "--model", model)
    assert ran(weft) == []
    shown = weft("trust", "--show", "--json").json
    assert (shown["trusted"], [hook["trusted"] for hook in shown["hooks"]]) == (False, [False])
    given = weft("trust").lines
    file = weft.project / ".weft" / "config.toml"
    assert given == [f"trusted: {file}", "  hook note runs: UserPromptSubmit, ./note.sh"]
    assert "does not run" not in weft("exec", "x", "--model", model).err
    assert ran(weft) == ["rain"]
    heard = json.loads((weft.project / "heard.json").read_text())
    assert (heard["hook_event_name"], heard["prompt"]) == ("UserPromptSubmit", "x")
    written(weft, "snow")
    told = weft("exec", "x", "--model", model).err
    assert f"hook 'note' of {file} does not run: it is not trusted as it is" in told
    assert ran(weft) == ["rain"]
    assert weft("trust", "--show").lines[1].startswith("  hook note does not run")
    weft("trust")
    weft("exec", "x", "--model", model)
    assert ran(weft) == ["rain", "snow"]


def test_trust_can_be_looked_at_as_json(weft):
    prepared(weft)
    weft("trust")
    assert weft("trust", "--show", "--json").json == {
        "file": str(weft.project / ".weft" / "config.toml"),
        "trusted": True,
        "hooks": [
            {
                "name": "note",
                "event": "UserPromptSubmit",
                "command": ["./note.sh"],
                "files": [str(weft.project / "note.sh")],
                "trusted": True,
            }
        ],
    }
    assert "exclude each other" in weft.refused("trust", "--show", "--remove", code=2)


def test_somebody_at_a_terminal_is_asked_about_a_hook_and_sees_it(weft):
    prepared(weft)
    weft("trust")
    written(weft, "sleet")
    weft.environ["WEFT_MODEL"] = scripted(weft, {"text": "Dress warmly."})
    weft.environ["PROMPT_TOOLKIT_NO_CPR"] = "1"
    with screen(weft, columns=250) as terminal:
        person = Talk(terminal)
        person.expect("echo sleet >> ran")
        person.expect("Let it run? (y)es, (n)ot now >")
        person.say("y")
        person.seated()
        person.say("hello")
        person.expect("Dress warmly.")
        person.leave()
    assert ran(weft) == ["sleet"]
