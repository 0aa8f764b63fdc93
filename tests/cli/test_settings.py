from __future__ import annotations

import json

from inline_snapshot import snapshot

from .scripts import scripted, shell
from .test_terminal import screen


def test_config_shows_each_value_with_its_source(treadle):
    (treadle.home / "config.toml").write_text('model = "a"\nnetwork = true\n')
    treadle.environ["TREADLE_SANDBOX"] = "read-only"
    shown = treadle("config").text.replace(str(treadle.home), "HOME")
    assert [line.split() for line in shown.splitlines()[:8]] == [
        ["KEY", "VALUE", "FROM"],
        ["model", '"a"', "HOME/config.toml:1"],
        ["fallbacks", "[]", "default"],
        ["effort", "-", "default"],
        ["verbosity", "-", "default"],
        ["sandbox", '"read-only"', "TREADLE_SANDBOX"],
        ["approval", '"on-request"', "default"],
        ["network", "true", "HOME/config.toml:2"],
    ]
    treadle.environ["TREADLE_MODEL"] = "b"
    explained = treadle("config", "explain", "model").text.replace(str(treadle.home), "HOME")
    assert explained == snapshot(
        """\
KEY    VALUE             FROM
model  "b"               TREADLE_MODEL
model  "a"               HOME/config.toml:1 (overridden)
model  "openai:gpt-5.5"  default (overridden)
"""
    )
    assert treadle("config", "explain", "network", "--json").json[0] == {
        "key": "network",
        "value": True,
        "layer": "user",
        "source": f"{treadle.home}/config.toml:2",
        "used": True,
    }


def test_a_wrong_configuration_stops_every_command_that_needs_it(treadle):
    (treadle.home / "config.toml").write_text("modle = 'x'\n")
    for args in (["exec", "x"], ["prompt", "x"], ["new", "x"], ["config"], ["models"]):
        said = treadle.refused(*args)
        assert said.startswith(
            f"treadle: {treadle.home}/config.toml:1: key 'modle' is unknown; did you"
        )
    assert treadle("threads", "--json").json == []


def test_a_project_is_told_about_until_it_is_trusted(treadle):
    file = treadle.project / ".treadle" / "config.toml"
    file.parent.mkdir()
    file.write_text('developer_instructions = "Whistle."\n')
    done = treadle("prompt", "x", "--json")
    assert "Whistle" not in done.text
    assert done.err == f"treadle: {file} is ignored; read it, then `treadle trust` lets it count\n"
    assert f"{file} is not used: it is not trusted" in treadle("config").text
    assert treadle("trust").text == f"trusted: {file}\n"
    done = treadle("prompt", "x", "--json")
    assert ("Whistle" in done.text, done.err) == (True, "")
    assert treadle("trust", "--remove", "--json").json == {
        "file": str(file),
        "trusted": False,
        "notes": [],
        "hooks": [],
        "agents": [],
        "skills": [],
    }
    assert "Whistle" not in treadle("prompt", "x", "--json").text
    file.unlink()
    assert "it has no .treadle/config.toml" in treadle.refused("trust")


def test_the_configured_model_is_asked_and_a_thread_keeps_its_own(treadle):
    first = scripted(treadle, {"text": "First."}, name="first.jsonl")
    second = scripted(treadle, {"text": "Second."}, name="second.jsonl")
    (treadle.home / "config.toml").write_text(f'model = "{first}"\n')
    assert treadle("exec", "x").text == "First.\n"
    (treadle.home / "config.toml").write_text(f'model = "{second}"\n')
    assert treadle("exec", "x", "--last").text == "First.\n"
    assert treadle("exec", "x").text == "Second.\n"
    treadle.environ["TREADLE_MODEL"] = first
    assert treadle("exec", "x", "--last").text == "First.\n"


def test_hooks_of_the_configuration_run(treadle):
    heard = treadle.home.parent / "heard.jsonl"
    hook = treadle.home.parent / "hook"
    hook.write_text(f"#!/bin/sh\ncat >> {heard}; echo >> {heard}\n")
    hook.chmod(0o755)
    (treadle.home / "config.toml").write_text(
        f"[hooks.a]\nevent = 'before_tool_call'\ncommand = ['{hook}']\n"
        f"[hooks.b]\nevent = 'turn_end'\ncommand = ['{hook}']\n"
    )
    model = scripted(treadle, {"calls": [shell("true")]}, {"text": "Done."})
    treadle("exec", "x", "--model", model)
    events = [json.loads(line)["event"] for line in heard.read_text().splitlines()]
    assert events == ["before_tool_call", "turn_end"]


def test_a_configured_provider_is_asked_with_the_kept_key(treadle):
    script = treadle.home.parent / "script.toml"
    script.write_text('[[answer]]\ntext = "Hello."\n')
    import subprocess

    from .terminal import SCRIPT

    with subprocess.Popen(
        [SCRIPT, "fake", str(script), "--json"], stdout=subprocess.PIPE, env=treadle.env
    ) as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["base_url"]
        (treadle.home / "config.toml").write_text(
            f"[providers.mine]\napi = 'chat'\nbase_url = '{address}'\nkey_variable = 'MINE'\n"
        )
        said = treadle.attempt("exec", "x", "--model", "mine:m").err
        assert "no key for the provider 'mine'; run `treadle auth add mine`, or set MINE" in said
        treadle("auth", "set", "mine", stdin=b"sk-mine\n")
        assert treadle("exec", "x", "--model", "mine:m").text == "Hello.\n"
        server.terminate()


def test_keys_are_listed_by_name_and_never_shown(treadle):
    assert treadle("auth").text == "no keys are known; `treadle auth add PROVIDER` stores one\n"
    said = [treadle("auth", "set", "openai", stdin=b"sk-very-secret\n")]
    treadle.environ["ANTHROPIC_API_KEY"] = "sk-very-secret"
    said += [
        treadle("auth"),
        treadle("auth", "list", "--json"),
        treadle("models"),
        treadle("doctor"),
    ]
    assert said[1].text == snapshot(
        """\
PROFILE                KIND     FROM               STATE
anthropic:environment  api_key  ANTHROPIC_API_KEY  ready
openai:default         api_key  file               ready
"""
    )
    assert [done for done in said if "secret" in done.text + done.err] == []
    assert (treadle.home / "auth.json").stat().st_mode & 0o777 == 0o600
    assert treadle("auth", "remove", "openai").text == "removed openai:default\n"
    assert "no profile 'openai'" in treadle.refused("auth", "remove", "openai")
    said_of = treadle.refused("auth", "set", "opnai", stdin=b"x")
    assert said_of == "treadle: no provider 'opnai'; did you mean 'openai'?\n"


def test_commands_never_see_a_kept_key(treadle):
    treadle("auth", "set", "openai", stdin=b"sk-very-secret\n")
    look = shell(f"env; cat {treadle.home}/auth.json")
    for flags in (["--sandbox", "workspace-write"], ["--sandbox", "read-only"]):
        model = scripted(treadle, {"calls": [look]}, {"text": "Looked."})
        treadle("exec", "x", "--model", model, *flags)
        assert "sk-very-secret" not in treadle("show", "last", "--all").text


def test_a_key_is_asked_for_unseen(treadle):
    with screen(treadle, "auth", "set", "openai") as terminal:
        terminal.until(b"Key of openai: ")
        terminal.type(b"sk-typed\n")
        code, text = terminal.end()
    assert code == 0
    assert "sk-typed" not in text
    assert "sk-typed" in (treadle.home / "auth.json").read_text()


def test_models_are_listed_with_what_they_can_do(treadle):
    treadle("auth", "set", "openai", stdin=b"sk\n")
    known = {entry["model"]: entry for entry in treadle("models", "--json").json}
    assert known["openai:gpt-5.5"] == snapshot(
        {
            "model": "openai:gpt-5.5",
            "provider": "openai",
            "recommended": False,
            "window": 272000,
            "max_window": 272000,
            "efforts": ["low", "medium", "high", "xhigh"],
            "default_effort": "medium",
            "shell": "unified_exec",
            "apply_patch": "freeform",
            "images": True,
            "key": "kept",
            "reported": "",
        }
    )
    assert " gpt-5.5 " in treadle("models").text
