from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from treadle.core.redact import add_secrets, forget_secrets, is_secret
from treadle.sandbox.environment_variables import command_environment


def test_a_command_gets_a_plain_environment():
    given = {"PATH": "/bin", "HOME": "/h", "TERM": "xterm", "OPENAI_API_KEY": "sk", "LANG": "de"}
    assert command_environment(given, thread="thr_1", network=False) == snapshot(
        {
            "PATH": "/bin",
            "HOME": "/h",
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "LC_CTYPE": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "COLORTERM": "",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "GH_PAGER": "cat",
            "TREADLE_CI": "1",
            "TREADLE_THREAD_ID": "thr_1",
            "TREADLE_SANDBOX_NETWORK_DISABLED": "1",
        }
    )


def test_a_user_can_let_secrets_through_by_name_or_pattern():
    given = {"AWS_SECRET_ACCESS_KEY": "a", "GH_TOKEN": "b", "NPM_TOKEN": "c"}
    kept = command_environment(given, allowed=("AWS_*", "GH_TOKEN")).keys() & given.keys()
    assert kept == {"AWS_SECRET_ACCESS_KEY", "GH_TOKEN"}


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"),
        *("GITHUB_TOKEN", "github_token", "CLIENT_SECRET", "DB_PASSWORD", "PGPASSWORD"),
        *("MYSQL_PWD", "GOOGLE_APPLICATION_CREDENTIALS", "SENTRY_DSN", "GITLAB_PAT"),
        *("SMTP_PASS", "SSHPASS", "DB_PWD", "NPM_CONFIG__AUTH", "ID_JWT", "RSA_PRIVATEKEY"),
        *("SLACK_WEBHOOK_URL", "HTTP_BEARER"),
        *("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DATABASE_URL"),
    ],
)
def test_names_of_secrets_are_known(name: str):
    assert is_secret(name)


@pytest.mark.parametrize("name", ["OPENAI_KEY2", "PGPASS", "AZURE_SAS", "GITHUB_TOKEN_3"])
def test_names_with_a_number_or_a_short_form_are_known(name: str):
    assert is_secret(name)


@pytest.mark.parametrize(
    "value",
    [
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "sk_live_abcdefghijklmnop",
        "sk-proj-abcdefghijklmnop",
        "AKIAABCDEFGHIJKLMNOP",
        "Bearer abcdefgh",
        "Server=db;User Id=me;Password=hunter22;",
        '{"auths": {"host": {"token": "abcdefgh"}}}',
        "https://store.example.org/box?sv=2024&sig=abcdefghijklmnop%3D",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh",
        "-----BEGIN OPENSSH PRIVATE KEY-----abc",
    ],
)
def test_a_value_that_looks_like_a_secret_is_kept_back_whatever_its_name(value: str):
    given = {"FOO": value, "PATH": "/bin"}
    assert "FOO" not in command_environment(given)
    assert command_environment(given, allowed=("FOO",))["FOO"] == value


def test_a_known_secret_is_kept_back_in_any_variable():
    add_secrets("correct horse battery")
    try:
        assert "FOO" not in command_environment({"FOO": "x correct horse battery y"})
    finally:
        forget_secrets()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/opt/tokens:/usr/bin"),
        ("MANPATH", "/usr/share/secret:/usr/share/man"),
        ("HOME", "/home/sk-abcdefghijkl"),
        ("ORIGIN", "ssh://git@example.org/repository"),
        ("LS_COLORS", "rs=0:di=01;34:*.tar=01;31:*.key=00;32"),
        ("JAVA_OPTS", "-Xmx2g -Dfile.encoding=UTF-8"),
        ("TASK", "task-1234567890"),
        ("COMMIT", "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"),
    ],
)
def test_ordinary_values_are_kept(name: str, value: str):
    assert command_environment({name: value})[name] == value


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "PWD", "OLDPWD", "HOME", "KEYBOARD", "TOKENIZERS_PARALLELISM", "PATTERN"),
        *("MONKEY", "EDITOR", "GIT_AUTHOR_NAME", "COMPASS", "BYPASS_CACHE"),
    ],
)
def test_names_that_only_look_alike_are_kept(name: str):
    assert not is_secret(name)


def test_a_password_inside_an_address_is_a_secret():
    assert is_secret("PIP_INDEX_URL", "https://me:hunter2@example.org/simple")
    assert not is_secret("PIP_INDEX_URL", "https://example.org:8080/simple?a=b@c")
