from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from treadle.cli.prompt_preview import PLACEHOLDER
from treadle.policy.auth import ApiKey, CredentialStore
from treadle.thread.thread import Thread

from .scripts import scripted
from .terminal import Treadle
from .test_terminal import shown, without_colour

KEY = "sk-planted-0123456789abcdef"

NO_KEY = "no key for the provider 'openai'; run `treadle auth add openai`, or set OPENAI_API_KEY"


def kept(treadle: Treadle) -> dict[str, Any]:
    """Every file of a home, with its bytes; what SQLite makes beside a log comes and goes."""
    files = [path for path in treadle.home.rglob("*") if path.is_file()]
    steady = [path for path in files if not path.name.endswith(("-wal", "-shm"))]
    return {str(path.relative_to(treadle.home)): path.read_bytes() for path in steady}


def profiles(treadle: Treadle, *names: str) -> None:
    credentials = CredentialStore(treadle.home, keyring=None)
    for name in names:
        credentials.secrets.put(name, ApiKey(provider="openai", key=KEY + name[-1]))


def test_every_domain_is_told_and_a_missing_key_is_no_obstacle(treadle):
    done = treadle("plan", "fix the bug")
    assert [line.split(maxsplit=2 if line[0] != " " else 1) for line in done.lines] == snapshot(
        [
            ["DOMAIN", "WHAT", "DECIDED"],
            ["route", "model", "openai:gpt-5.5"],
            ["api", "responses at the provider's own address, by https+sse"],
            ["harness", "treadle (auto_treadle)"],
            [
                "auth",
                "profile",
                NO_KEY,
            ],
            ["tools", "offered", "13, without strict schemas"],
            [
                "names",
                (
                    "exec_command, write_stdin, update_plan, request_user_input, apply_patch, "
                    "view_image, read_output, spawn_agent, send_input, interrupt_agent, "
                    "wait_agent, list_agents, skill"
                ),
            ],
            ["hooks", "events", "none"],
            ["prompt", "overlays", "none"],
            ["transcript", "repairs", "none"],
            ["params", "parallel_tool_calls", "true"],
            ["effort", "medium"],
            ["verbosity", "low"],
            ["outcome", "asked", "openai:gpt-5.5"],
            ["then", "none"],
            ["delivery", "channels", "none"],
            ["silence", "NO_REPLY"],
        ]
    )
    assert done.err == ""
    assert kept(treadle) == {}


def test_the_plan_for_programs_is_the_one_that_the_turn_goes_by(treadle):
    model = scripted(treadle, {"text": "Done."})
    flags = ("--model", model, "--effort", "low", "--sandbox", "read-only")
    told = treadle("plan", "go", "--json", *flags).json
    started = treadle("exec", "go", "--json", *flags).json_lines[1]
    assert (told["harness"]["id"], told["harness"]["reason"], told["transport"]) == (
        started["harness"],
        started["harness_reason"],
        started["transport"],
    )
    assert sorted(told) == snapshot(
        [
            "auth",
            "capabilities",
            "delivery",
            "family",
            "harness",
            "hooks",
            "limits",
            "outcome",
            "params",
            "pricing",
            "prompt",
            "summaries",
            "target",
            "text_calls",
            "tools",
            "transcript",
            "transport",
            "unheld",
            "window_use",
        ]
    )

    async def planned() -> dict[str, Any]:
        async with Thread.open(started["thread"], home=treadle.home) as thread:
            async for _ in thread.run("again"):
                pass
            assert thread.plan is not None
            told: dict[str, Any] = json.loads(json.dumps(thread.plan.to_builtins()))
            return told

    again = asyncio.run(planned())
    assert {**told, "params": {}, "tools": {}} == {**again, "params": {}, "tools": {}}


def test_profiles_are_told_in_order_and_never_their_secrets(treadle):
    profiles(treadle, "openai:a", "openai:b")
    before = kept(treadle)
    flags = ("--fallback", "anthropic:claude-opus-5", "--profile", "openai:b")
    told = treadle("plan", *flags, "--json")
    assert told.json["auth"] == {"profile": "openai:b", "source": "user", "others": ["openai:a"]}
    assert told.json["outcome"]["models"] == ["openai:gpt-5.5", "anthropic:claude-opus-5"]
    lines = [line.split(maxsplit=1) for line in treadle("plan", *flags).lines]
    assert ["auth", "profile              openai:b (you chose it)"] in lines
    assert ["then", "openai:a"] in lines
    assert ["then", "anthropic:claude-opus-5"] in lines
    assert treadle("plan", "--json").json["auth"]["source"] == "auto"
    assert KEY not in told.text
    assert kept(treadle) == before
    assert "there is no profile 'openai:c'" in treadle.refused("plan", "--profile", "openai:c")


def test_a_thread_is_looked_at_beside_its_writer_and_left_as_it_was(treadle, worked):
    profiles(treadle, "openai:a")
    before = kept(treadle)

    async def beside() -> Any:
        async with Thread.open(worked, home=treadle.home):
            return await asyncio.to_thread(treadle, "plan", "go on", "--thread", "last", "--json")

    told = asyncio.run(beside()).json
    assert (told["target"]["model"], told["auth"]["profile"]) == ("gpt-5.5", "openai:a")
    after = kept(treadle)
    assert after.pop("auth.json") == before.pop("auth.json")
    assert set(after) == set(before)


@pytest.mark.parametrize("harness", ["treadle", "codex"])
def test_it_says_which_harness_and_what_that_one_brings(treadle, harness):
    treadle.environ["OPENAI_API_KEY"] = KEY
    told = treadle("plan", "--harness", harness, "--json")
    assert told.json["harness"]["id"] == told.json["target"].get("harness", "treadle") == harness
    assert told.json["harness"]["traits"]["tools"] == (harness == "codex")
    names = [spec["name"] for spec in told.json["tools"]["specs"]]
    assert ("exec_command" in names) == (harness == "treadle")
    assert kept(treadle) == {}


def test_parameters_of_provider_and_model_reach_the_plan_and_a_choice_wins(treadle):
    (treadle.home / "config.toml").write_text(
        '[providers.openai.params]\nparallelToolCalls = false\ntextVerbosity = "high"\n'
        '[models."gpt-5.5".params]\nreasoning_effort = "high"\nverbosity = "medium"\n'
    )
    assert treadle("plan", "--json").json["params"] == {
        "parallel_tool_calls": False,
        "effort": "high",
        "verbosity": "medium",
    }
    assert treadle("plan", "--effort", "low", "--json").json["params"]["effort"] == "low"
    other = treadle("plan", "--model", "openai:gpt-5.4", "--json").json["params"]
    assert (other["parallel_tool_calls"], other["verbosity"]) == (False, "high")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("temprature = 1", "key 'models.\"gpt-5.5\".params.temprature' is unknown"),
        ("paralel_tool_calls = true", "did you mean 'parallel_tool_calls'?"),
        ("parallelToolCalls = 1", "is 1; accepted: true or false"),
        ('verbosity = "loud"', "is 'loud'; accepted: 'low', 'medium', 'high'"),
    ],
)
def test_a_parameter_that_cannot_be_sent_is_named_with_its_place(treadle, line, said):
    (treadle.home / "config.toml").write_text(f'[models."gpt-5.5".params]\n{line}\n')
    refusal = treadle.refused("plan")
    assert refusal.startswith(f"treadle: {treadle.home}/config.toml:2: ")
    assert said in refusal


def test_an_engine_brings_its_tools_and_keeps_nothing(treadle):
    names = [
        s["name"] for s in treadle("plan", "--engine", "lossless", "--json").json["tools"]["specs"]
    ]
    assert "recall_search" in names
    assert kept(treadle) == {}
    said = treadle.refused("plan", "--engine", "nowhere", code=2)
    assert "no context engine 'nowhere' is installed" in said
    assert kept(treadle) == {}


def test_the_channel_is_told_and_nothing_is_delivered(treadle):
    (treadle.home / "config.toml").write_text(
        'channel = "here"\n[channels.here]\nkind = "terminal"\n'
    )
    assert treadle("plan", "--json").json["delivery"] == {"channels": ["here"]}
    assert "channels             here" in treadle("plan").text
    treadle.environ["TREADLE_CHANNEL"] = "there"
    assert "there is no channel 'there'" in treadle.refused("plan")


def test_overlays_of_packages_are_found(treadle):
    package = treadle.home.parent / "packages"
    (package / "house-1.0.dist-info").mkdir(parents=True)
    (package / "house-1.0.dist-info" / "METADATA").write_text("Name: house\nVersion: 1.0\n")
    (package / "house-1.0.dist-info" / "entry_points.txt").write_text(
        "[treadle.overlays]\nhouse = house:House\n"
    )
    (package / "house.py").write_text(
        "from treadle.prompt.contributions import Contribution\n"
        "class House:\n"
        "    id = 'house'\n"
        "    def contribute(self, audience, settings):\n"
        "        return Contribution(stable_prefix=f'{audience.model} in {settings.cwd}')\n"
    )
    treadle.environ["PYTHONPATH"] = str(package)
    told = treadle("plan", "--json").json["prompt"]
    assert told == {
        "contribution": {"stable_prefix": f"gpt-5.5 in {treadle.project}"},
        "sources": ["house"],
    }
    assert "overlays             house" in treadle("plan").text


def test_a_terminal_gets_a_table_that_fits(treadle):
    text = without_colour(shown(treadle, "plan", "go", columns=70))
    assert max(map(len, text.splitlines())) <= 70
    assert "DECIDED" in text


def test_the_request_that_is_shown_beforehand_is_the_one_that_the_plan_leads_to(treadle):
    (treadle.home / "config.toml").write_text(
        "[providers.scripted.params]\nparallelToolCalls = false\n"
    )
    flags = ("--model", scripted(treadle, {"text": "Done."}), "--engine", "lossless")
    shown_before = treadle("prompt", "go", *flags, "--json").out
    treadle("exec", "go", *flags)
    entries = treadle("show", "last", "--all", "--json").json_lines
    sent = next(entry for entry in entries if entry["kind"] == "request")
    after = treadle("prompt", "--thread", "last", "--at", str(sent["seq"]), "--json").out
    assert after.replace(sent["thread"].encode(), PLACEHOLDER.encode()) == shown_before
    body = json.loads(shown_before)
    assert body["parallel_tool_calls"] is False
    assert "recall_search" in [tool.get("name") for tool in body["tools"]]
