from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle.config import Config, ExplainedSetting, Settings, load_config
from treadle.config.config_file import ConfigFile, find_project_file
from treadle.config.layers import environment_values
from treadle.config.settings import (
    AgentsMd,
    CodexSettings,
    HookSettings,
    ModelSettings,
    Price,
    ProviderSettings,
    key_variable,
)
from treadle.config.trusted_files import TrustStore
from treadle.core.errors import ConfigError


@dataclass
class Place:
    """A home and a project, each with a configuration or none."""

    home: Path
    project: Path
    environ: dict[str, str] = field(default_factory=dict)

    def user(self, text: str) -> Path:
        file = self.home / "config.toml"
        file.write_text(text)
        return file

    def own(self, text: str, *, trusted: bool = True) -> Path:
        file = self.project / ".treadle" / "config.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        if trusted:
            TrustStore(self.home).trust(file)
        return file

    def load(self, **flags: tuple[str, object]) -> Config:
        return load_config(self.home, self.project, self.environ, flags)

    def refused(self, **flags: tuple[str, object]) -> str:
        with pytest.raises(ConfigError) as caught:
            self.load(**flags)
        return str(caught.value).replace(str(self.home), "HOME").replace(str(self.project), "HERE")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / ".git").mkdir(parents=True)
    return Place(home, project)


def test_nothing_settled_leaves_the_defaults(place):
    assert place.load().settings == Settings()


def test_the_later_layer_wins_key_by_key(place):
    place.user('model = "a"\neffort = "low"\nnetwork = true\nsandbox = "read-only"\n')
    place.own('effort = "medium"\napproval = "untrusted"\n')
    place.environ = {"TREADLE_NETWORK": "off", "TREADLE_EFFORT": "high"}
    config = place.load(model=("--model", "b"))
    assert config.settings == Settings(
        model="b", effort="high", network=False, sandbox="read-only", approval="untrusted"
    )
    layers = {key: config.layer_of(key) for key in ("model", "effort", "approval", "verbosity")}
    assert layers == {
        "model": "flag",
        "effort": "environment",
        "approval": "project",
        "verbosity": "default",
    }


def test_tables_are_joined_leaf_by_leaf(place):
    place.user(
        "[providers.mine]\napi = 'chat'\nbase_url = 'http://a'\n"
        "[prices.'mine:m']\ninput = 1\noutput = 2\n"
        "[hooks.log]\nevent = 'turn_end'\ncommand = ['log']\n"
        "[agents_md]\nmax_bytes = 10\n"
    )
    place.own(
        "[providers.mine]\nbase_url = 'http://b'\nheaders = { a = 'b' }\n"
        "[hooks.lint]\nevent = 'after_tool_call'\ncommand = ['lint']\ntools = ['apply_patch']\n"
    )
    assert place.load().settings == Settings(
        providers={
            "mine": ProviderSettings(api="chat", base_url="http://b", headers={"a": "b"}),
        },
        prices={"mine:m": Price(input=1.0, output=2.0)},
        hooks={
            "log": HookSettings(event="turn_end", command=("log",)),
            "lint": HookSettings(
                event="after_tool_call", command=("lint",), tools=("apply_patch",)
            ),
        },
        agents_md=AgentsMd(max_bytes=10),
    )


def test_a_harness_is_settled_for_all_for_a_model_for_a_provider_and_in_its_own_table(place):
    place.user(
        "harness = 'treadle'\n"
        "[models.'openai:gpt-5.5']\nharness = 'codex'\n"
        "[providers.mine]\nharness = 'parrot'\n"
        "[codex]\nbinary = '/opt/codex'\nprojection = 'text'\nrequest_timeout = 5\n"
        "[harnesses.parrot]\nvolume = 11\napi_key = 'hunter2'\n"
    )
    place.environ = {"TREADLE_HARNESS": "codex"}
    config = place.load()
    assert config.settings == Settings(
        harness="codex",
        models={"openai:gpt-5.5": ModelSettings(harness="codex")},
        providers={"mine": ProviderSettings(harness="parrot")},
        codex=CodexSettings(binary="/opt/codex", projection="text", request_timeout=5.0),
        harnesses={"parrot": {"volume": 11, "api_key": "hunter2"}},
    )
    shown = {each.key: each.value for each in config.explain()}
    assert (shown["codex.home"], shown["harnesses.parrot.volume"]) == ("private", 11)
    assert "hunter2" not in str(shown)


def test_every_value_knows_where_it_is_from(place):
    user = place.user(
        '# mine\nmodel = "a"\n\nwritable_roots = [\n  "/srv", # one\n]\n\n'
        'developer_instructions = """\nmodel = "no"\n"""\n[providers.x]\napi = "chat"\n'
    )
    place.environ = {"TREADLE_MODEL": "b"}
    config = place.load(sandbox=("--yolo", "danger-full-access"))
    assert config.explain("model") == [
        ExplainedSetting(key="model", value="b", layer="environment", source="TREADLE_MODEL"),
        ExplainedSetting(key="model", value="a", layer="user", source=f"{user}:2", used=False),
        ExplainedSetting(
            key="model", value="openai:gpt-5.5", layer="default", source="", used=False
        ),
    ]
    assert {entry.key: entry.source for entry in config.explain() if entry.source} == {
        "model": "TREADLE_MODEL",
        "sandbox": "--yolo",
        "writable_roots": f"{user}:4",
        "developer_instructions": f"{user}:8",
        "providers.x.api": f"{user}:12",
    }


def test_headers_are_told_by_name_only(place):
    place.user("[providers.x]\nheaders = { authorization = 'Bearer secret' }\n")
    (entry,) = place.load().explain("providers")
    assert entry.value == {"authorization": "…"}


def test_engines_have_tables_in_words_of_their_own_joined_key_by_key(place):
    place.user(
        "engine = 'mine'\n[engines.mine]\ndepth = 3\nname = 'a'\n"
        "[engines.mine.store]\nkind = 'disk'\n[engines.other]\non = true\n"
    )
    place.own("[engines.mine]\nname = 'b'\n")
    place.environ = {"TREADLE_CITATIONS": "off"}
    config = place.load(engine=("--engine", "other"))
    assert config.settings == Settings(
        engine="other",
        citations="off",
        engines={
            "mine": {"depth": 3, "name": "b", "store": {"kind": "disk"}},
            "other": {"on": True},
        },
    )
    assert [(entry.key, entry.value, entry.layer) for entry in config.explain("engines.mine")] == [
        ("engines.mine.depth", 3, "user"),
        ("engines.mine.name", "b", "project"),
        ("engines.mine.name", "a", "user"),
        ("engines.mine.store", {"kind": "disk"}, "user"),
    ]


def test_a_project_that_is_not_trusted_chooses_no_engine(place):
    file = place.own("engine = 'theirs'\n[engines.theirs]\na = 1\n", trusted=False)
    config = place.load()
    assert (config.settings, config.untrusted) == (Settings(), file)


def test_secrets_of_engines_are_told_by_name_only(place):
    place.user(
        "[engines.x]\napi_key = 'hunter2'\nmax_tokens = 400\n"
        "[engines.x.db]\npassword = 'hunter2'\nname = 'x'\n"
    )
    assert {entry.key: entry.value for entry in place.load().explain("engines")} == {
        "engines.x.api_key": "…",
        "engines.x.db": {"password": "…", "name": "x"},
        "engines.x.max_tokens": 400,
    }


def test_a_key_that_does_not_exist_cannot_be_explained(place):
    with pytest.raises(ConfigError, match="there is no key 'sandbx'; did you mean 'sandbox'"):
        place.load().explain("sandbx")
    assert place.load().explain("providers.mine.api") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'model = "a"\nsanbox = "read-only"\n',
            (
                "HOME/config.toml:2: key 'sanbox' is unknown; did you mean 'sandbox'? (accepted: "
                "agents, agents_md, approval, channel, channels, citations, codex, "
                "compaction, "
                "context, developer_instructions, effort, "
                "engine, engines, executor, fallbacks, harness, harnesses, hooks, "
                "instructions, limits, mcp, mode, "
                "model, models, "
                "network, notify, notify_after, otel, personality, plain, prices, providers, "
                "recall, recall_threads, rewind_files, sandbox, "
                "skills, store, tell_window_use, tool_output_token_limit, verbosity, "
                "writable_roots)"
            ),
        ),
        (
            'sandbox = "none"',
            (
                "HOME/config.toml:1: 'sandbox' is 'none'; accepted: 'read-only', "
                "'workspace-write', 'danger-full-access'"
            ),
        ),
        (
            'network = "yes"',
            (
                "HOME/config.toml:1: 'network' is 'yes'; accepted: true or false or "
                "a list of hosts such as 'docs.example.org', '*.example.com'"
            ),
        ),
        (
            'network = ["docs.example.org", "*"]',
            (
                "HOME/config.toml:1: 'network' is ['docs.example.org', '*']; accepted: "
                "true or false or a list of hosts such as 'docs.example.org', '*.example.com'"
            ),
        ),
        ("fallbacks = 3", "HOME/config.toml:1: 'fallbacks' is 3; accepted: a list of strings"),
        (
            "tool_output_token_limit = 0",
            "HOME/config.toml:1: 'tool_output_token_limit' is 0; accepted: a whole number above 0",
        ),
        (
            "\n\n[providers.x]\napi = 'soap'\n",
            (
                "HOME/config.toml:4: 'providers.x.api' is 'soap'; accepted: 'responses', 'chat', "
                "'messages'"
            ),
        ),
        (
            "providers.x.headers = 3",
            "HOME/config.toml:1: 'providers.x.headers' is 3; accepted: a table of strings",
        ),
        ("hooks = 3", "HOME/config.toml:1: 'hooks' must be a table, not 3"),
        ("[engines]\nx = 3", "HOME/config.toml:2: 'engines.x' must be a table, not 3"),
        (
            "citations = 'never'",
            "HOME/config.toml:1: 'citations' is 'never'; accepted: 'auto', 'on', 'off'",
        ),
        (
            "[hooks.a]\nevent = 'turn_end'\n",
            (
                "hooks.a is not complete: Object missing required field `command` - at "
                "`$.hooks[...]`; add it"
            ),
        ),
        (
            "[codex]\nhome = 'mine'\n",
            "HOME/config.toml:2: 'codex.home' is 'mine'; accepted: 'private', 'user'",
        ),
        (
            "[models.'openai:gpt-5.5']\nharnes = 'codex'\n",
            (
                "HOME/config.toml:2: key 'models.\"openai:gpt-5.5\".harnes' is unknown; "
                "did you mean 'harness'? (accepted: fallbacks, harness, params)"
            ),
        ),
        (
            "model = ",
            (
                "HOME/config.toml is not valid TOML: Invalid value (at end of document); "
                "correct or remove it"
            ),
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_is_accepted(place, text, said):
    place.user(text)
    assert place.refused() == said


def test_the_network_may_be_a_list_of_hosts(place: Place):
    place.user('network = ["docs.example.org", "*.example.com"]\n')
    assert place.load().settings.network == ("docs.example.org", "*.example.com")
    environ = {"TREADLE_NETWORK": "a.example.com,b.example.com"}
    assert environment_values(environ) == {("network",): ("a.example.com", "b.example.com")}
    assert environment_values({"TREADLE_NETWORK": "off"}) == {("network",): False}


def test_variables_are_read_in_the_type_of_their_key(place):
    place.environ = {
        "TREADLE_NETWORK": "1",
        "TREADLE_WRITABLE_ROOTS": "/a:/b",
        "TREADLE_TOOL_OUTPUT_TOKEN_LIMIT": "500",
        "TREADLE_VERBOSITY": "",
        "TREADLE_HOME": "/somewhere",
        "TREADLE_THREAD_ID": "thr_1",
    }
    assert place.load().settings == Settings(
        network=True, writable_roots=("/a", "/b"), tool_output_token_limit=500
    )


def test_a_variable_that_is_wrong_or_nearly_right_is_an_error(place):
    place.environ = {"TREADLE_SANDBOX": "off"}
    assert place.refused() == snapshot(
        "TREADLE_SANDBOX: 'sandbox' is 'off'; accepted: 'read-only', 'workspace-write', "
        "'danger-full-access'"
    )
    place.environ = {"TREADLE_SANBOX": "read-only"}
    assert place.refused() == (
        "the variable 'TREADLE_SANBOX' sets nothing; did you mean 'TREADLE_SANDBOX'? Unset it"
    )


def test_a_project_counts_only_while_its_file_is_the_one_that_was_trusted(place):
    file = place.own('sandbox = "danger-full-access"\n', trusted=False)
    config = place.load()
    assert (config.settings, config.untrusted) == (Settings(), file)
    TrustStore(place.home).trust(file)
    assert place.load().settings.sandbox == "danger-full-access"
    file.write_text('sandbox = "danger-full-access"\napproval = "never"\n')
    assert place.load().untrusted == file
    TrustStore(place.home).trust(file)
    assert TrustStore(place.home).files == (str(file),)
    assert TrustStore(place.home).distrust(file)
    assert not TrustStore(place.home).distrust(file)
    assert place.load().settings == Settings()


def test_the_project_s_file_is_the_nearest_below_its_root(place):
    file = place.own("", trusted=False)
    deep = place.project / "a" / "b"
    deep.mkdir(parents=True)
    assert find_project_file(deep) == file
    (place.project / "a" / ".git").mkdir()
    assert find_project_file(deep) is None


@given(
    st.lists(
        st.sampled_from(["model = 'm'", "# c", "", "effort = '''\n\nx'''", "network = true"]),
        unique_by=lambda line: line or object(),
    )
)
def test_a_line_is_found_whatever_stands_around_it(lines):
    import tomllib

    text = "\n".join(lines)
    file = ConfigFile(Path("f"), text, tomllib.loads(text))
    for key in file.table:
        number = int(file.locate((key,)).removeprefix("f:"))
        assert text.splitlines()[number - 1].startswith(f"{key} =")


def test_a_provider_may_name_the_variable_of_its_key():
    assert key_variable("some-provider", {}) == "SOME_PROVIDER_API_KEY"
    elsewhere = {"openai": ProviderSettings(key_variable="OTHER")}
    assert key_variable("openai", elsewhere) == "OTHER"
