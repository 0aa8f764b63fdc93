from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from .state_texts import CTX, said, told, with_


def test_environment_whole():
    now = with_(
        cwd="C:\\repo",
        approval_policy="never",
        sandbox_mode="danger-full-access",
        shell="powershell",
    )
    assert said("environment", now) == snapshot(
        [
            """\
<environment_context>
  <cwd>C:\\repo</cwd>
  <approval_policy>never</approval_policy>
  <sandbox_mode>danger-full-access</sandbox_mode>
  <network_access>enabled</network_access>
  <shell>powershell</shell>
</environment_context>\
"""
        ]
    )


def test_environment_names_writable_roots_of_a_writable_workspace():
    now = with_(sandbox_mode="workspace-write", writable_roots=("/cache", "/a & b"), shell="zsh")
    assert said("environment", now) == snapshot(
        [
            """\
<environment_context>
  <cwd>/repo</cwd>
  <approval_policy>on-request</approval_policy>
  <sandbox_mode>workspace-write</sandbox_mode>
  <network_access>restricted</network_access>
  <writable_roots>
    <root>/cache</root>
    <root>/a & b</root>
  </writable_roots>
  <shell>zsh</shell>
</environment_context>\
"""
        ]
    )


@pytest.mark.parametrize(
    ("mode", "network", "told_mode", "told_network"),
    [
        ("danger-full-access", False, "danger-full-access", "enabled"),
        ("read-only", True, "read-only", "enabled"),
        ("read-only", False, "read-only", "restricted"),
        ("workspace-write", True, "workspace-write", "enabled"),
        ("workspace-write", False, "workspace-write", "restricted"),
        ("external-sandbox", True, "danger-full-access", "enabled"),
        ("external-sandbox", False, "danger-full-access", "restricted"),
    ],
)
def test_environment_derives_the_network_from_the_mode(
    mode: str, network: bool, told_mode: str, told_network: str
):
    now = with_(sandbox_mode=mode, network_access=network, writable_roots=("/x",))
    [text] = said("environment", now)
    assert f"<sandbox_mode>{told_mode}</sandbox_mode>" in text
    assert f"<network_access>{told_network}</network_access>" in text
    assert ("<root>/x</root>" in text) == (mode == "workspace-write")


def test_environment_difference_names_the_changed_groups_and_the_shell():
    before = with_(sandbox_mode="workspace-write", shell="bash")
    now = with_(sandbox_mode="workspace-write", network_access=True, approval_policy="never")
    assert said("environment", now, before) == snapshot(
        [
            """\
<environment_context>
  <approval_policy>never</approval_policy>
  <sandbox_mode>workspace-write</sandbox_mode>
  <network_access>enabled</network_access>
  <shell>bash</shell>
</environment_context>\
"""
        ]
    )


def test_environment_with_only_another_shell_is_noted_without_words():
    telling = told(with_(shell="zsh"), CTX)
    assert telling.messages == ()
    assert [mark.id for mark in telling.silent] == ["environment"]
