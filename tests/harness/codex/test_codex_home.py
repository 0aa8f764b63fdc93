from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot

from treadle.core.errors import ConfigError
from treadle.harness.codex.app_server import AppServer
from treadle.harness.codex.codex_home import (
    UNLIMITED,
    CodexHome,
    ExtraModel,
    edit_catalog,
    write_catalog,
)
from treadle.harness.codex.protocol.client_requests import StartThread, StartTurn, TextInput
from treadle.harness.codex.protocol.notifications import (
    ItemCompletedNotification,
    Notification,
    TokenUsageNotification,
    TurnCompletedNotification,
)
from treadle.harness.codex.protocol.server_requests import ClientReply, ServerRequest
from treadle.harness.codex.protocol.types import CommandItem, parse_item
from treadle.harness.codex.server_access import ProviderRoute, server_access
from treadle.harness.codex.server_connection import AppServerConnection
from treadle.harness.contract import Identity
from treadle.models.providers import ProviderConfig
from treadle.prompt.codex_import import find_codex
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer as Said
from treadle.testing.script import Call, Script

from .real_servers import private_environ, real_command, serving

BINARY = Path("/opt/codex")


async def nobody(ask: ServerRequest) -> ClientReply:
    raise AssertionError(f"nothing should be asked, but was: {ask.method}")


async def play(connection: AppServerConnection, start: StartThread) -> list[Notification]:
    opened, events = await connection.open_thread(start, nobody)
    async with events:
        await connection.call(StartTurn(thread_id=opened.thread.id, input=(TextInput(text="hi"),)))
        heard: list[Notification] = []
        async for event in events:
            heard.append(event)
            if isinstance(event, TurnCompletedNotification):
                return heard
    raise AssertionError("the turn did not end")


def test_a_private_home_is_closed_to_others_and_knows_no_provider(tmp_path: Path):
    home = CodexHome.below(tmp_path)
    launch = home.prepare(BINARY, {"PATH": "/bin", "HOME": "/home/me"})
    config = (home.directory / "config.toml").read_text()
    assert stat.S_IMODE(home.directory.stat().st_mode) == 0o700
    assert tomllib.loads(config)["features"] == snapshot(
        {
            "plugins": False,
            "apps": False,
            "unbounded_connection_retries": False,
            "shell_snapshot": False,
        }
    )
    assert config == snapshot("""\
check_for_update_on_startup = false
analytics.enabled = false
history.persistence = "none"
features.plugins = false
features.apps = false
features.unbounded_connection_retries = false
thread_unload_delay_secs = 1
features.shell_snapshot = false
model_provider = "treadle"
model_providers.treadle.name = "nowhere"
model_providers.treadle.base_url = "http://127.0.0.1:9/v1"
model_providers.treadle.wire_api = "responses"
model_providers.treadle.requires_openai_auth = false
model_providers.treadle.supports_websockets = false
""")
    assert launch.arguments == ("app-server",)
    assert launch.environment == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "CODEX_HOME": str(tmp_path / "codex" / "home"),
    }


def test_a_key_reaches_the_process_and_nothing_else(tmp_path: Path):
    home = CodexHome.below(tmp_path)
    route = ProviderRoute(
        provider="acme",
        base_url="https://acme.example/v1",
        env_key="ACME_KEY",
        env_headers={"x-team": "ACME_TEAM"},
    )
    environ = {"PATH": "/bin", "ACME_KEY": "hidden-key", "OTHER_TOKEN": "not for Codex"}
    launch = home.prepare(BINARY, environ, [route], secrets={"ACME_TEAM": "hidden-team"})
    held = {"ACME_KEY": "hidden-key", "ACME_TEAM": "hidden-team"}
    assert launch.environment == {"PATH": "/bin", "CODEX_HOME": str(home.directory), **held}
    written = (home.directory / "config.toml").read_text()
    shown = f"{launch!r} {launch.arguments} {written} {route.config()}"
    assert "hidden" not in shown
    assert launch.arguments == snapshot(
        (
            "-c",
            "features.shell_snapshot = false",
            "-c",
            'shell_environment_policy.exclude = ["ACME_KEY", "ACME_TEAM"]',
            "app-server",
        )
    )
    assert launch.scrub("failed with\n hidden-key and sk-abcdefghijkl") == "failed with … and …"


def test_a_proxy_with_a_password_reaches_the_process_and_no_command(tmp_path: Path):
    home = CodexHome.below(tmp_path)
    environ = {
        "PATH": "/bin",
        "https_proxy": "http://me:p%40ss-word@proxy:8080",
        "HTTP_PROXY": "http://plain:8080",
        "NO_PROXY": "localhost",
        "DATABASE": "postgres://me:pw@db",
    }
    launch = home.prepare(BINARY, environ)
    assert launch.environment == {
        "PATH": "/bin",
        "https_proxy": environ["https_proxy"],
        "HTTP_PROXY": environ["HTTP_PROXY"],
        "NO_PROXY": "localhost",
        "CODEX_HOME": str(home.directory),
    }
    assert 'shell_environment_policy.exclude = ["https_proxy"]' in launch.arguments
    assert "p%40ss" not in launch.scrub(f"cannot reach {environ['https_proxy']}")


def test_processes_with_other_keys_share_a_home_without_changing_it(tmp_path: Path):
    home = CodexHome.below(tmp_path)
    launches = [
        home.prepare(
            BINARY, {name: "k"}, [ProviderRoute(provider="p", base_url="http://h", env_key=name)]
        )
        for name in ("ONE_KEY", "TWO_KEY")
    ]
    kept = (home.directory / "config.toml").stat()
    home.prepare(BINARY, {}, catalog=Path("/c.json"))
    assert (home.directory / "config.toml").stat().st_mtime_ns == kept.st_mtime_ns
    assert [launch.arguments[3] for launch in launches] == [
        'shell_environment_policy.exclude = ["ONE_KEY"]',
        'shell_environment_policy.exclude = ["TWO_KEY"]',
    ]


def test_harnesses_that_start_at_once_share_a_home(tmp_path: Path):
    home = CodexHome.below(tmp_path)
    for _ in range(20):
        (home.directory / "config.toml").unlink(missing_ok=True)
        with ThreadPoolExecutor(8) as pool:
            launches = [pool.submit(home.prepare, BINARY, {"PATH": "/bin"}) for _ in range(8)]
        assert len({launch.result().arguments for launch in launches}) == 1
    assert [file.name for file in home.directory.iterdir()] == ["config.toml"]


def test_a_key_that_is_missing_is_named(tmp_path: Path):
    route = ProviderRoute(provider="acme", base_url="http://h", env_key="ACME_KEY")
    told = "no key for the provider 'acme'; run `treadle auth add acme`, or set ACME_KEY"
    with pytest.raises(ConfigError, match=told):
        CodexHome.below(tmp_path).prepare(BINARY, {}, [route])


def test_a_route_is_told_in_the_words_of_codex():
    route = ProviderRoute(
        provider="acme",
        base_url="https://acme.example/v1",
        env_key="ACME_KEY",
        headers={"x-a": "b"},
        env_headers={"x-e": "ACME_E"},
        query_params={"v": "1"},
        retries=2,
        idle_seconds=1.5,
    )
    assert route.config() == snapshot(
        {
            "model_providers.treadle": {
                "name": "acme",
                "base_url": "https://acme.example/v1",
                "wire_api": "responses",
                "requires_openai_auth": False,
                "supports_websockets": False,
                "env_key": "ACME_KEY",
                "http_headers": {"x-a": "b"},
                "env_http_headers": {"x-e": "ACME_E"},
                "query_params": {"v": "1"},
                "request_max_retries": 0,
                "stream_max_retries": 2,
                "stream_idle_timeout_ms": 1500,
            }
        }
    )


def test_queries_and_headers_from_variables_reach_codex():
    azure = ProviderConfig(
        base_url="https://mine.openai.azure.com/openai?api-version=old",
        query_params={"api-version": "preview"},
        env_headers={"x-team": "TEAM"},
    )
    environ = {"AZURE_OPENAI_API_KEY": "azure-secret", "TEAM": "team-secret"}
    access = server_access("azure", Identity(), providers={"azure": azure}, environ=environ)
    assert access.route is not None
    assert (access.route.base_url, access.route.query_params, access.route.env_key) == (
        "https://mine.openai.azure.com/openai",
        {"api-version": "preview"},
        None,
    )
    assert access.route.env_headers == {"x-team": "TEAM", "api-key": "AZURE_OPENAI_API_KEY"}
    assert access.secrets == environ


def test_a_certificate_that_codex_cannot_show_is_refused():
    config = ProviderConfig(api="responses", base_url="https://h", client_certificate="me.pem")
    with pytest.raises(ConfigError, match="cannot use the certificates of the provider 'acme'"):
        server_access(
            "acme",
            Identity(),
            providers={"acme": config},
            environ={"ACME_API_KEY": "k"},
        )


def test_the_users_home_is_found_and_not_written_to(tmp_path: Path):
    environ = {"HOME": str(tmp_path), "OPENAI_API_KEY": "theirs"}
    home = CodexHome.of_user(environ)
    launch = home.prepare(BINARY, environ)
    assert home == CodexHome(tmp_path / ".codex", private=False)
    assert launch.arguments == ("app-server",)
    # Codex refuses a named home that is not there, and makes one that nobody names.
    assert launch.environment == environ
    assert list(tmp_path.iterdir()) == []
    home.directory.mkdir()
    launch = home.prepare(BINARY, environ)
    assert launch.environment == {**environ, "CODEX_HOME": str(tmp_path / ".codex")}
    assert list(home.directory.iterdir()) == []
    assert CodexHome.of_user({"CODEX_HOME": "/x", "HOME": "/y"}).directory == Path("/x")


def test_a_route_in_the_users_home_is_given_by_arguments_beside_the_users_exclusions(
    tmp_path: Path,
):
    config = tmp_path / "config.toml"
    config.write_text('[shell_environment_policy]\nexclude = ["MINE_*"]\n')
    before = config.read_text()
    home = CodexHome.of_user({"CODEX_HOME": str(tmp_path)})
    route = ProviderRoute(provider="acme", base_url="http://h", env_key="ACME_KEY")
    launch = home.prepare(BINARY, {"ACME_KEY": "hidden"}, [route], catalog=Path("/c.json"))
    assert launch.arguments[1::2] == snapshot(
        (
            'model_provider = "treadle"',
            'model_providers.treadle.name = "nowhere"',
            'model_providers.treadle.base_url = "http://127.0.0.1:9/v1"',
            'model_providers.treadle.wire_api = "responses"',
            "model_providers.treadle.requires_openai_auth = false",
            "model_providers.treadle.supports_websockets = false",
            "features.shell_snapshot = false",
            'shell_environment_policy.exclude = ["MINE_*", "ACME_KEY"]',
            'model_catalog_json = "/c.json"',
        )
    )
    assert launch.arguments[-1] == "app-server"
    assert (config.read_text(), list(tmp_path.iterdir())) == (before, [config])


async def test_two_providers_are_served_by_one_process_and_their_keys_stay_hidden(tmp_path: Path):
    shows = Script(answers=(Said(calls=(Call(name="exec_command", arguments={"cmd": "env"}),)),
                            Said(text="one")))  # fmt: skip
    async with FakeServer(shows) as one, FakeServer(Script(answers=(Said(text="two"),))) as two:
        routes = [
            ProviderRoute(
                provider="one", base_url=one.base_url, env_key="KEY_ONE", headers={"x-a": "b"}
            ),
            ProviderRoute(provider="two", base_url=two.base_url, env_key="KEY_TWO"),
        ]
        home = CodexHome.below(tmp_path / "treadle")
        environ = {**private_environ(tmp_path), "KEY_ONE": "first-key", "KEY_TWO": "second-key"}
        launch = home.prepare(find_codex(), environ, routes)
        start = StartThread(cwd=str(tmp_path), model="any", sandbox="danger-full-access")
        async with serving(AppServer(launch)) as server:
            connection = await server.connection()
            heard = await asyncio.gather(
                *(
                    play(connection, msgspec.structs.replace(start, config=route.config()))
                    for route in routes
                )
            )
        assert [request.headers["authorization"] for request in one.requests] == [
            "Bearer first-key"
        ] * 2
        assert [request.headers["authorization"] for request in two.requests] == [
            "Bearer second-key"
        ]
        assert one.requests[0].headers["x-a"] == "b"
    commands = [parse_item(e.item) for e in heard[0] if isinstance(e, ItemCompletedNotification)]
    printed = [c.aggregated_output or "" for c in commands if isinstance(c, CommandItem)]
    assert len(printed) == 1
    assert "HOME=" in printed[0]
    kept = [path for path in home.directory.rglob("*") if path.is_file()]
    assert kept
    for key in (b"first-key", b"second-key"):
        assert key.decode() not in printed[0]
        assert not any(key in path.read_bytes() for path in kept)


async def test_only_a_thread_that_asks_has_its_window_lifted(tmp_path: Path):
    own = (ExtraModel(slug="mine", context_window=50_000),)
    catalog = await write_catalog(find_codex(), tmp_path / "catalog", own)
    assert await write_catalog(find_codex(), tmp_path / "catalog", own) == catalog
    async with FakeServer(Script(answers=(Said(text="hello"),), loop=True)) as fake:
        route = ProviderRoute(provider="fake", base_url=fake.base_url)
        launch = real_command(tmp_path, route, catalog=catalog)
        windows: list[int | None] = []
        async with serving(AppServer(launch)) as server:
            connection = await server.connection()
            for model, more in (
                ("gpt-5.5", {}),
                ("gpt-5.5", UNLIMITED),
                ("mine", {}),
                ("mine", UNLIMITED),
            ):
                start = StartThread(
                    cwd=str(tmp_path), model=model, config={**route.config(), **more}
                )
                events = await play(connection, start)
                usage = [e.token_usage for e in events if isinstance(e, TokenUsageNotification)]
                windows.append(usage[-1].model_context_window)
    assert windows == [258_400, 95_000_000, 47_500, 95_000_000]


def test_a_catalog_keeps_what_it_does_not_change():
    listing = {"models": [{"slug": "gpt-5.5", "max_context_window": 1, "x": [1]}], "also": 2}
    own = ExtraModel(slug="mine", context_window=7)
    assert msgspec.json.decode(edit_catalog(msgspec.json.encode(listing), [own])) == {
        "models": [
            {"slug": "gpt-5.5", "max_context_window": 100_000_000, "x": [1]},
            {
                "slug": "mine",
                "max_context_window": 100_000_000,
                "x": [1],
                "display_name": "mine",
                "upgrade": None,
                "context_window": 7,
            },
        ],
        "also": 2,
    }


@pytest.mark.parametrize("listing", [b"no", b"[]", b'{"models":[{}]}'])
def test_a_catalog_in_another_shape_is_told(listing):
    with pytest.raises(ConfigError, match="cannot read the model list of this Codex"):
        edit_catalog(listing)


def test_a_model_like_an_unknown_one_is_told():
    with pytest.raises(ConfigError, match=r"does not know the model 'gpt-5\.5'"):
        edit_catalog(b'{"models":[{"slug":"a"}]}', [ExtraModel(slug="b", context_window=1)])


def looked_for(directory: Path, plugins: str) -> dict[str, object]:
    directory.mkdir()
    command = ("unshare", "--map-root-user", "--net", "--mount", sys.executable, "-m")
    said = subprocess.run(
        (*command, "tests.harness.codex.name_server", str(directory), plugins),
        check=True,
        capture_output=True,
        timeout=60,
    )
    heard: dict[str, object] = json.loads(said.stdout.splitlines()[-1])
    return heard


def test_nothing_but_the_provider_is_contacted(tmp_path: Path):
    assert looked_for(tmp_path / "ours", "") == {"turn": "completed", "names": []}
    # The same with plugins on shows that a look for a name would have been heard.
    assert looked_for(tmp_path / "bare", "plugins")["names"] != []
