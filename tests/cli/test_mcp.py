from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from tests.mcp.scenes import SERVER

from .scripts import call
from .terminal import Treadle
from .test_chat import answers
from .window import window


def planned(treadle: Treadle, **plan: object) -> list[str]:
    """The command of a server of our own."""
    file = treadle.project / "plan.json"
    file.write_text(json.dumps(plan))
    return [sys.executable, "-S", "-E", str(SERVER), str(file)]


def test_adding_connects_and_later_threads_know_the_tools(treadle):
    command = planned(treadle, tools=["echo", "add"], instructions="Be kind.")
    added = treadle("mcp", "add", "echo", "--", *command).text
    assert "it runs outside the sandbox, with your rights, when a thread needs it\n" in added
    assert "it offers 2 tools, of about " in added
    (treadle.project / "plan.json").write_text(json.dumps({"dead": True}))
    shown = treadle("prompt", "--json", "--model", "openai:gpt-5.5", "hi").json
    assert "mcp__echo__add" in json.dumps(shown)
    (row,) = treadle("mcp", "list", "--json").json
    assert (row["tools"], row["tokens"] > 20, row["protocol"]) == (2, True, "2025-11-25")
    seen = treadle.attempt("mcp", "test", "echo", "--json")
    assert seen.code == 1
    assert seen.json["reason"] == "it ended with exit code 4: no licence"


def test_one_server_is_shown_with_its_unusual_settings_and_without_values_of_variables(treadle):
    (treadle.home / "config.toml").write_text(
        '[mcp.servers.one]\ncommand = "x"\nenv = {TOKEN = "planted-value"}\ntimeout = 5\n'
    )
    done = treadle("mcp", "get", "one")
    assert "planted-value" not in done.text
    assert done.lines[-2:] == ['env            ["TOKEN"]', "timeout        5.0"]
    settings = treadle("mcp", "get", "one", "--json").json["settings"]
    assert settings == {"env": ["TOKEN"], "timeout": 5.0}


def test_the_servers_of_a_turn_are_those_of_the_settings(treadle):
    command = planned(treadle, tools=["echo"])
    treadle("mcp", "add", "echo", "--approval", "approve", "--", *command)
    script = treadle.project / "script.toml"
    script.write_text(
        '[[answer]]\ncalls = [{name = "mcp__echo__echo", arguments = {text = "it works"}}]\n'
        '[[answer]]\ntext = "done"\n'
    )
    said = treadle("exec", "--model", f"scripted:{script}", "--json", "go").text
    assert "it works" in said


def test_servers_of_a_project_count_once_they_are_trusted_as_they_are(treadle):
    file = treadle.project / ".mcp.json"
    entry = {"command": sys.executable, "args": ["-c", "pass"], "env": {"A": "${A:-b}"}}
    servers = {"one": entry, "two": {"type": "sse", "url": "https://x.example"}}
    file.write_text(json.dumps({"mcpServers": servers}))
    assert treadle("mcp", "list", "--json").json == []
    shown = treadle("mcp", "trust").text
    where = f"runs outside the sandbox: A='${{A:-b}}' {sys.executable} -c pass"
    assert f"one: trusted; {where}" in shown
    assert "two: not trusted; its transport 'sse' is not spoken; use stdio or http" in shown
    (row,) = treadle("mcp", "list", "--json").json
    assert (row["name"], row["origin"]) == ("one", str(file))
    servers["one"] = entry | {"args": ["-c", "import evil"]}
    file.write_text(json.dumps({"mcpServers": servers}))
    assert treadle("mcp", "list", "--json").json == []
    assert "then `treadle mcp trust one` lets it count" in treadle.refused("mcp", "test", "one")
    script = treadle.project / "script.toml"
    script.write_text('[[answer]]\ntext = "done"\n')
    done = treadle("exec", "--model", f"scripted:{script}", "go")
    assert "MCP servers of this project are not used: one, two; read " in done.err


def test_a_file_of_a_project_that_cannot_be_read_keeps_nobody_from_working(treadle):
    file = treadle.project / ".mcp.json"
    file.write_text("{no")
    answers(treadle, {"text": "Done."})
    for args in (["exec", "go"], ["mcp", "list"], ["prompt", "go"]):
        done = treadle(*args)
        said = f"treadle: MCP servers of this project are not used: {str(file)!r} is no JSON"
        assert done.err.count(said) == 1, done.err
    assert "is no JSON" in treadle.refused("mcp", "trust")


def test_servers_of_others_are_taken_over_without_their_secrets(treadle):
    user = Path(treadle.env["HOME"])
    (user / ".codex").mkdir(parents=True)
    (user / ".codex/config.toml").write_text(
        '[mcp_servers.docs]\nurl = "https://docs.example/mcp"\nbearer_token_env_var = "T"\n'
        "tool_timeout_sec = 7\nenabled_tools = ['read']\n"
        'scopes = ["read"]\n[mcp_servers.docs.tools.read]\napproval_mode = "approve"\n'
        '[mcp_servers.docs.oauth]\nclient_id = "c"\ncallback_port = 7777\n'
        '[mcp_servers.odd]\ncommand = "x"\nargs = "abc"\n'
        '[mcp_servers.plain]\ncommand = "x"\n'
    )
    claude = {"command": "npx", "args": ["-y", "x"], "env": {"API_KEY": "sk-12345678901234567890"}}
    # Claude has the servers of a directory, and much else, in the same file.
    here = {str(treadle.project): {"mcpServers": {"here": {"command": "x"}}}, "/else": {}}
    told = {"mcpServers": {"mine": claude, "bad": 3}, "projects": here, "history": "x" * (2 << 20)}
    (user / ".claude.json").write_text(json.dumps(told))
    assert "odd: its 'args' is no list of texts\n" in treadle("mcp", "import", "codex").text
    told = treadle("mcp", "import", "claude").text
    assert told.splitlines() == [
        "mine: added",
        "  set the variable API_KEY: its value was not copied",
        "bad: it is no table",
        "here: added",
    ]
    written = (treadle.home / "config.toml").read_text()
    assert "sk-123" not in written
    assert 'API_KEY = "${API_KEY}"' in written
    oauth = tomllib.loads(written)["mcp"]["servers"]["docs"]["oauth"]
    assert oauth == {"client_id": "c", "callback_port": 7777, "scopes": ["read"]}
    assert '[mcp.servers.plain]\ncommand = "x"\n\n[' in written
    assert f'command = "x"\ncwd = "{treadle.project}"\n' in written
    (docs, _, mine, _) = treadle("mcp", "list", "--json").json
    assert (docs["place"], mine["place"]) == ("https://docs.example/mcp", "npx -y x")
    again = treadle("mcp", "import", "codex").text
    assert "has an MCP server 'docs' already" in again


def test_a_secret_is_written_into_no_file(treadle):
    said = treadle.refused(
        *("mcp", "add", "x", "--url", "https://x.example/mcp", "--offline"),
        *("--header", "Authorization=Bearer sk-12345678901234567890"),
        code=2,
    )
    assert said == (
        "treadle: 'Authorization' looks like a secret; put it into a variable and write "
        "${VARIABLE}\n"
    )
    assert not (treadle.home / "config.toml").exists()


def test_removing_leaves_the_rest_of_the_file(treadle):
    config = treadle.home / "config.toml"
    config.write_text('# mine\neffort = "high"\n')
    for name in ("one", "two"):
        treadle("mcp", "add", name, "--url", f"https://{name}.example/mcp", "--offline")
    treadle("mcp", "remove", "one")
    assert config.read_text() == (
        '# mine\neffort = "high"\n\n[mcp.servers.two]\nurl = "https://two.example/mcp"\n'
    )
    assert "no MCP server 'one'" in treadle.refused("mcp", "remove", "one")


def test_the_chat_shows_servers_and_takes_their_prompts_and_resources(treadle):
    command = planned(
        treadle,
        tools=["echo"],
        capabilities={"prompts": {}, "resources": {}},
        prompts=[{"name": "look-at", "arguments": [{"name": "file", "required": True}]}],
        resources=[{"uri": "note://a", "name": "a"}],
        texts={"note://a": "remember the milk"},
    )
    treadle("mcp", "add", "echo", "--", *command)
    answers(treadle, {"text": "The first."}, {"text": "The second."})
    with window(treadle, columns=140, rows=30) as session:
        session.until("\n>")
        session.type("/mcp\r")
        session.until("echo", "idle", "1 tool ·")
        session.type("/mcp__echo__look_at a.py\r")
        session.until("> /mcp__echo__look_at a.py\n", "The first.")
        session.type("what is in @echo:note://a\r")
        session.until("> what is in @echo:note://a\n", "The second.")
        session.type("/mcp__echo__look-at\r")
        session.until("wants a value for 'file'")
        session.type("\x04")
        assert session.end() == 0
    body = treadle("prompt", "--thread", "last", "--json").text
    assert "a.py" in body
    assert "remember the milk" in body


def test_a_form_is_filled_in_in_the_chat_and_declined_where_nobody_is(treadle):
    fields = {"name": {"type": "string"}, "age": {"type": "integer"}}
    schema = {"type": "object", "properties": fields, "required": ["name"]}
    form = {"mode": "form", "message": "Introduce yourself", "requestedSchema": schema}
    command = planned(treadle, tools=["elicit"], elicit=form)
    treadle("mcp", "add", "echo", "--approval", "approve", "--", *command)
    answers(treadle, {"calls": [call("mcp__echo__elicit")]}, {"text": "Done."})
    done = treadle("exec", "go", "--json").text
    assert '{\\"action\\": \\"decline\\"}' in done
    with window(treadle, columns=140, rows=30) as session:
        session.until("\n>")
        session.type("go\r")
        session.until("? The MCP server 'echo' asks: Introduce yourself", "name", "answer >")
        session.type("Ann\r")
        session.until("    age", "answer >")
        session.type("seven\r")
        session.until("'seven' is no answer to it: it wants a whole number", "answer >")
        session.type("7\r")
        session.until("Done.", "cached\n>")
        session.type("\x04")
        assert session.end() == 0
    shown = treadle("show", "last").text
    assert '"content": {"name": "Ann", "age": 7}' in shown


def test_what_trusting_a_server_would_run_is_shown_whole_and_forges_no_line(treadle):
    file = treadle.project / ".mcp.json"
    hidden = {"command": "git", "args": ["a b"], "env": {"GIT_SSH_COMMAND": "evil me"}}
    forged = {"command": "sh", "args": ["-c", "x\nnice: trusted; https://nice.example"]}
    file.write_text(json.dumps({"mcpServers": {"one": hidden, "a\nnice: trusted": forged}}))
    one, other = treadle("mcp", "trust", "--show").text.splitlines()
    assert one == (
        "one: not trusted; runs outside the sandbox: GIT_SSH_COMMAND='evil me' git 'a b'"
    )
    assert other.startswith("a nice: trusted: not trusted; ")
