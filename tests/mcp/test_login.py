from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from msgspec.structs import replace

from tests.mcp.authorization import LoginPlace, browse, login_place
from treadle.config.mcp_settings import McpOAuthSettings, McpServerSettings
from treadle.core.errors import ConfigError, TreadleError
from treadle.core.redact import redact_known
from treadle.mcp.login import auth_for, login, logout
from treadle.mcp.mcp_errors import ServerUnavailable
from treadle.mcp.redirects import LoginRefused
from treadle.mcp.server_auth import LoginNeeded
from treadle.mcp.server_settings import McpServer
from treadle.mcp.servers import McpServers
from treadle.policy.auth.credential import ServerLogin
from treadle.policy.auth.secrets import SecretStore

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def vault(home: Path) -> SecretStore:
    return SecretStore(home, None)


def server_at(place: LoginPlace, name: str = "docs", **oauth: Any) -> McpServer:
    settings = McpServerSettings(url=place.resource, oauth=McpOAuthSettings(**oauth))
    return McpServer(name=name, settings=settings)


def stored(home: Path) -> ServerLogin:
    found = vault(home).get("mcp:docs")
    assert isinstance(found, ServerLogin)
    return found


def end_token(home: Path) -> None:
    """Let the time of the access token be over."""
    vault(home).put("mcp:docs", replace(stored(home), expires=1))


async def call(server: McpServer, home: Path) -> int:
    """What a transport does in a turn."""
    auth = auth_for(server, home, secrets=vault(home), environ={})
    async with httpx2.AsyncClient(auth=auth, timeout=30) as http:
        assert server.settings.url is not None
        return (await http.post(server.settings.url, json=PING)).status_code


async def log_in(server: McpServer, home: Path, **more: Any) -> Any:
    return await login(server, home, browse, secrets=vault(home), environ={}, **more)


async def test_a_user_logs_in_and_a_turn_uses_it_also_in_another_process(tmp_path: Path) -> None:
    async with login_place() as place:
        server = server_at(place)
        with pytest.raises(LoginNeeded, match="treadle mcp login docs"):
            await call(server, tmp_path)
        assert place.clients == {}, "a turn registers nowhere"
        report = await log_in(server, tmp_path)
        assert (report.issuer, report.scope, report.needed) == (place.issuer, "read", True)
        assert await call(server, tmp_path) == 200
        (asked,) = place.asked
        assert (asked["code_challenge_method"], asked["resource"]) == ("S256", place.resource)
        assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"
        (form,) = place.exchanged
        assert form["resource"] == place.resource
    assert (tmp_path / "auth.json").stat().st_mode & 0o777 == 0o600
    assert redact_known(stored(tmp_path).access) == "…"


async def test_metadata_is_found_as_openid_connect_has_it(tmp_path: Path) -> None:
    async with login_place(oidc_only=True) as place:
        await log_in(server_at(place), tmp_path)
        assert await call(server_at(place), tmp_path) == 200


async def test_a_server_that_lets_everybody_in_needs_no_login(tmp_path: Path) -> None:
    everything = ("initialize", "tools/list", "ping")
    async with login_place(open_to=everything, published=False) as place:
        assert (await log_in(server_at(place), tmp_path)).needed is False
        assert await call(server_at(place), tmp_path) == 200
    assert vault(tmp_path).profiles() == ()


@pytest.mark.parametrize("open_to", [("initialize",), ("initialize", "tools/list")])
async def test_a_server_that_asks_late_is_logged_in_to(
    tmp_path: Path, open_to: tuple[str, ...]
) -> None:
    async with login_place(open_to=open_to) as place:
        server = server_at(place)
        with pytest.raises(LoginNeeded):
            await call(server, tmp_path)
        assert (await log_in(server, tmp_path)).needed is True
        assert await call(server, tmp_path) == 200


async def test_who_was_registered_by_the_user_is_not_registered_again(tmp_path: Path) -> None:
    async with login_place(registers=False) as place:
        place.clients["mine"] = {"client_secret": "s3cret-of-mine"}
        own = {"client_id": "mine", "client_secret_variable": "MINE"}
        server, environ = server_at(place, **own), {"MINE": "s3cret-of-mine"}
        with pytest.raises(ConfigError, match="MINE is not set"):
            await log_in(server, tmp_path)
        await login(server, tmp_path, browse, secrets=vault(tmp_path), environ=environ)
        assert [each["client_id"] for each in place.asked] == ["mine"]
        assert "client_secret" not in place.exchanged[0]


async def test_a_document_can_be_the_client(tmp_path: Path) -> None:
    document = "https://agents.example/treadle.json"
    async with login_place(documents=True, registers=False) as place:
        await log_in(server_at(place, client_id=document), tmp_path)
        assert [each["client_id"] for each in place.asked] == [document]


async def test_where_nobody_is_registered_it_says_what_to_set(tmp_path: Path) -> None:
    async with login_place(registers=False) as place:
        with pytest.raises(LoginRefused, match=r"mcp.servers.docs.oauth.client_id"):
            await log_in(server_at(place), tmp_path)
    assert vault(tmp_path).profiles() == ()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"pkce": None}, "PKCE"),
        ({"pkce": ("plain",)}, "PKCE"),
        ({"issuer": "https://evil.example"}, "issuer"),
        ({"redirect_issuer": "https://evil.example"}, "iss"),
        ({"redirect_issuer": None}, "iss"),
        ({"resource": "https://evil.example/mcp"}, "resource"),
        ({"audience": "https://evil.example/mcp"}, "answers 401 to the token"),
        ({"denies": True}, "not today"),
        ({"token_error": True}, "401"),
    ],
)
async def test_a_login_that_breaks_a_rule_is_refused_and_stores_nothing(
    tmp_path: Path, fault: dict[str, Any], said: str
) -> None:
    async with login_place(**fault) as place:
        with pytest.raises(LoginRefused) as caught:
            await log_in(server_at(place), tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert vault(tmp_path).profiles() == ()


async def test_a_failed_login_leaves_the_earlier_one(tmp_path: Path) -> None:
    async with login_place() as place:
        await log_in(server_at(place), tmp_path)
        before = stored(tmp_path)
        place.faults.denies = True
        with pytest.raises(LoginRefused):
            await log_in(server_at(place), tmp_path)
        assert stored(tmp_path) == before
        assert await call(server_at(place), tmp_path) == 200


async def test_a_redirect_with_a_wrong_state_is_refused_and_the_login_goes_on(
    tmp_path: Path,
) -> None:
    answers: list[int] = []

    async def attacked(url: str) -> None:
        back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        strange = ("", "code=evil", "code=evil&state=x", "error=no")
        places = [f"{back}?{said}" for said in strange]
        async with httpx2.AsyncClient() as http:
            for place in (*places, back.replace("/callback", "/other")):
                answer = await http.get(place)
                answers.append(answer.status_code)
        await browse(url)

    async with login_place() as place:
        server = server_at(place)
        await login(server, tmp_path, attacked, secrets=vault(tmp_path), environ={})
        assert [form["code"] for form in place.exchanged] != ["evil"]
        assert await call(server, tmp_path) == 200
    assert answers == [400] * 5


async def test_a_login_that_is_cancelled_stores_nothing_and_frees_its_port(tmp_path: Path) -> None:
    shown: asyncio.Future[str] = asyncio.Future()

    async def show(url: str) -> None:
        shown.set_result(url)

    async with login_place() as place:
        task = asyncio.create_task(
            login(server_at(place), tmp_path, show, secrets=vault(tmp_path), environ={})
        )
        back = parse_qs(urlsplit(await shown).query)["redirect_uri"][0]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(httpx2.ConnectError):
            async with httpx2.AsyncClient() as http:
                await http.get(back)
        # The same port is free for the next login.
        port = urlsplit(back).port
        await log_in(server_at(place, callback_port=port), tmp_path)
        assert urlsplit(place.asked[-1]["redirect_uri"]).port == port


async def test_a_token_that_has_ended_is_refreshed_and_the_pair_kept(tmp_path: Path) -> None:
    async with login_place() as place:
        server = server_at(place)
        await log_in(server, tmp_path)
        first = stored(tmp_path)
        end_token(tmp_path)
        assert await call(server, tmp_path) == 200
        second = stored(tmp_path)
        assert second.access != first.access
        assert second.refresh != first.refresh
        assert second.scope == "read"
        assert place.exchanged[-1]["resource"] == place.resource
        assert await call(server, tmp_path) == 200
        assert len(place.exchanged) == 2


async def test_a_token_that_is_refused_before_its_time_is_refreshed_once(tmp_path: Path) -> None:
    async with login_place() as place:
        server = server_at(place)
        await log_in(server, tmp_path)
        place.access.clear()
        assert await call(server, tmp_path) == 200
        place.access.clear()
        place.refresh.clear()
        with pytest.raises(LoginNeeded):
            await call(server, tmp_path)


async def test_many_calls_at_once_refresh_one_after_the_other(tmp_path: Path) -> None:
    async with login_place() as place:
        server = server_at(place)
        await log_in(server, tmp_path)
        end_token(tmp_path)
        # Each has a client of its own, as processes would; a refresh token is good once.
        assert set(await asyncio.gather(*(call(server, tmp_path) for _ in range(6)))) == {200}


async def test_more_scopes_are_asked_for_on_top_of_those_that_were_given(tmp_path: Path) -> None:
    async with login_place() as place:
        server = server_at(place, scopes=("profile",))
        await log_in(server, tmp_path)
        place.needed = "read write"
        with pytest.raises(LoginNeeded) as caught:
            await call(server, tmp_path)
        assert caught.value.scopes == ("write",)
        assert "--scope write" in str(caught.value)
        report = await log_in(server, tmp_path, scopes=caught.value.scopes)
        assert set(report.scope.split()) == {"read", "profile", "write"}
        assert await call(server, tmp_path) == 200


async def test_a_login_is_never_used_at_another_address(tmp_path: Path) -> None:
    async with login_place() as place, login_place() as other:
        await log_in(server_at(place), tmp_path)
        # Another project has a server of the same name.
        with pytest.raises(LoginNeeded):
            await call(server_at(other), tmp_path)
        assert other.exchanged == []


async def test_a_connection_says_which_command_logs_in(tmp_path: Path) -> None:
    async with login_place() as place:
        async with McpServers([server_at(place)], home=tmp_path, backoff=(0.01,)) as servers:
            with pytest.raises(ServerUnavailable, match="run `treadle mcp login docs`"):
                await servers.client("docs")
        assert place.clients == {}


async def test_who_has_a_header_of_its_own_is_asked_for_no_login(tmp_path: Path) -> None:
    async with login_place() as place:
        own = McpServerSettings(url=place.resource, headers={"AUTHORIZATION": "Basic x"})
        server = McpServer(name="docs", settings=own)
        async with McpServers([server], home=tmp_path, backoff=(0.01,)) as servers:
            with pytest.raises(ServerUnavailable) as caught:
                await servers.client("docs")
        assert "login" not in str(caught.value)


async def test_a_logout_forgets_the_login(tmp_path: Path) -> None:
    async with login_place() as place:
        server = server_at(place)
        await log_in(server, tmp_path)
        assert await logout(server, tmp_path, secrets=vault(tmp_path)) is True
        assert await logout(server, tmp_path, secrets=vault(tmp_path)) is False
        with pytest.raises(LoginNeeded):
            await call(server, tmp_path)
    assert "at-" not in json.dumps((tmp_path / "auth.json").read_text())


@pytest.mark.parametrize(
    "settings",
    [
        McpServerSettings(command="x"),
        McpServerSettings(url="https://${NOWHERE}/mcp"),
        McpServerSettings(url="http://127.0.0.1:9/mcp"),
    ],
)
async def test_a_server_that_nobody_can_log_in_to_is_a_clear_error(
    tmp_path: Path, settings: McpServerSettings
) -> None:
    with pytest.raises(TreadleError) as caught:
        await log_in(McpServer(name="odd", settings=settings), tmp_path)
    assert "odd" in str(caught.value)
