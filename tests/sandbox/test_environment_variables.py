from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from treadle.core.redact import is_secret
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
