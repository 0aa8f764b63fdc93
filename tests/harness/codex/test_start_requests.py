from __future__ import annotations

import msgspec
import pytest

from treadle.core.errors import ConfigError
from treadle.harness.codex.start_requests import (
    approval_policy,
    check_network,
    collaboration_mode,
    sandbox_config,
    sandbox_mode,
    sandbox_policy,
)
from treadle.prompt.prompt_context import CollaborationMode, PromptContext

WRITER = PromptContext(
    cwd="", sandbox_mode="workspace-write", writable_roots=("/srv",), network_access=True
)


@pytest.mark.parametrize(
    ("told", "meant"),
    [("never", "never"), ("untrusted", "untrusted"), ("on-failure", "on-request")],
)
def test_approvals_have_the_names_that_codex_knows(told, meant):
    assert approval_policy(PromptContext(cwd="", approval_policy=told)) == meant


@pytest.mark.parametrize(
    ("mode", "sandbox", "policy"),
    [
        ("read-only", "read-only", {"type": "readOnly", "networkAccess": False}),
        (
            "workspace-write",
            "workspace-write",
            {"type": "workspaceWrite", "writableRoots": [], "networkAccess": False},
        ),
        ("danger-full-access", "danger-full-access", {"type": "dangerFullAccess"}),
        ("external-sandbox", "danger-full-access", {"type": "dangerFullAccess"}),
    ],
)
def test_a_sandbox_means_the_same_at_the_start_of_a_thread_and_of_a_turn(mode, sandbox, policy):
    settings = PromptContext(cwd="", sandbox_mode=mode)
    assert sandbox_mode(settings) == sandbox
    assert sandbox_policy(settings) == policy


def test_roots_and_the_network_are_named_both_ways_and_also_where_there_are_none():
    assert sandbox_config(PromptContext(cwd="", sandbox_mode="read-only")) == {}
    assert sandbox_config(PromptContext(cwd="", sandbox_mode="workspace-write")) == {
        "sandbox_workspace_write.writable_roots": [],
        "sandbox_workspace_write.network_access": False,
    }
    assert sandbox_config(WRITER) == {
        "sandbox_workspace_write.writable_roots": ["/srv"],
        "sandbox_workspace_write.network_access": True,
    }
    assert sandbox_policy(WRITER) == {
        "type": "workspaceWrite",
        "writableRoots": ["/srv"],
        "networkAccess": True,
    }


@pytest.mark.parametrize(
    ("mode", "name", "instructions"),
    [
        (None, "default", None),
        (CollaborationMode("default"), "default", None),
        (CollaborationMode("plan"), "plan", None),
        (CollaborationMode("plan", "Think."), "plan", "Think."),
        (CollaborationMode("pairing", "Together."), "default", "Together."),
    ],
)
def test_a_mode_that_codex_does_not_know_is_the_usual_one_with_its_words(mode, name, instructions):
    settings = PromptContext(cwd="", collaboration_mode=mode)
    assert collaboration_mode(settings, "gpt-5.5", "low") == {
        "mode": name,
        "settings": {
            "model": "gpt-5.5",
            "reasoning_effort": "low",
            "developer_instructions": instructions,
        },
    }


def test_a_list_of_hosts_is_refused_because_codex_cannot_keep_it():
    listed = PromptContext(
        cwd="", sandbox_mode="workspace-write", network_hosts=("docs.example.org",)
    )
    with pytest.raises(ConfigError, match=r"hosts \['docs\.example\.org'\].*--harness treadle"):
        check_network(listed)
    # Where there is no sandbox, no list holds anywhere.
    check_network(msgspec.structs.replace(listed, sandbox_mode="danger-full-access"))
    check_network(msgspec.structs.replace(listed, network_hosts=()))
