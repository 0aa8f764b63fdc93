from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from treadle.prompt import ContextUpdate
from treadle.prompt.working_environment import prefix_lines

from .state_texts import said, told, with_


def test_permissions_whole():
    now = with_(
        sandbox_mode="workspace-write",
        writable_roots=("/cache",),
        approval_policy="untrusted",
        approved_prefixes=(("git", "pull"), ("ls",), ("cat",)),
    )
    assert said("permissions", now) == snapshot(
        [
            """\
<permissions instructions>
Commands run in a sandbox (`sandbox_mode` is `workspace-write`).
They may read files anywhere and write below the working directory and the writable roots only.
They cannot reach the network.

Writable roots:
- /cache

Every command that no rule allows is shown to the user first (`approval_policy` is `untrusted`).
Ask for few, and make each one easy to judge.

In this directory the user has approved commands that start with one of these prefixes
and go on with plain arguments; in doubt they are shown again:
- ["ls"]
- ["cat"]
- ["git", "pull"]
</permissions instructions>\
"""
        ]
    )


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_a_list_of_hosts_is_told_as_what_it_is(mode: str):
    now = with_(sandbox_mode=mode, network_hosts=("docs.example.org", "*.example.com"))
    [text] = said("permissions", now)
    assert "They can reach these hosts only" in text
    assert "docs.example.org, *.example.com\n" in text
    assert "They cannot reach the network" not in text
    [environment] = said("environment", now)
    assert "<network_access>restricted</network_access>\n  <network_hosts>\n" in environment
    assert "    <host>*.example.com</host>\n" in environment


def test_without_a_sandbox_no_list_of_hosts_is_claimed():
    now = with_(sandbox_mode="danger-full-access", network_hosts=("docs.example.org",))
    [text] = said("permissions", now)
    assert "They can reach the network." in text
    assert "docs.example.org" not in text


def test_permissions_with_only_new_prefixes_are_one_note():
    before = with_(approved_prefixes=(("ls",),))
    now = with_(approved_prefixes=(("ls",), ("npm", "test"), ("git", "pull")))
    assert said("permissions", now, before) == snapshot(
        [
            """\
Approved command prefix saved:
- ["git", "pull"]
- ["npm", "test"]\
"""
        ]
    )


def test_permissions_with_a_prefix_taken_back_are_told_whole():
    before = with_(approved_prefixes=(("ls",), ("rm",)))
    now = with_(approved_prefixes=(("ls",), ("cat",)))
    [text] = said("permissions", now, before)
    assert text.startswith("<permissions instructions>")
    assert '- ["rm"]' not in text


def test_the_same_prefixes_in_another_order_are_no_change():
    before = with_(approved_prefixes=(("ls",), ("cat",)))
    now = with_(approved_prefixes=(("cat",), ("ls",), ("cat",)))
    assert told(now, before) == ContextUpdate()


@pytest.mark.parametrize("policy", ["untrusted", "on-failure", "on-request", "never"])
@pytest.mark.parametrize("mode", ["read-only", "workspace-write", "danger-full-access"])
def test_permissions_name_the_policy_and_the_mode(policy: str, mode: str):
    [text] = said("permissions", with_(approval_policy=policy, sandbox_mode=mode))
    assert f"`approval_policy` is `{policy}`" in text
    assert f"`sandbox_mode` is `{mode}`" in text


def test_prefixes_are_sorted_by_length_then_size_then_letters():
    prefixes = [("git", "push"), ("b",), ("a",), ("cc",), ("git", "pull"), ('say "hi"',)]
    assert prefix_lines(prefixes) == snapshot("""\
- ["a"]
- ["b"]
- ["cc"]
- ["say \\"hi\\""]
- ["git", "pull"]
- ["git", "push"]\
""")


def test_many_prefixes_are_cut_visibly():
    lines = prefix_lines((f"c{n:03}",) for n in range(120))
    assert lines.count("\n- ") == 99
    assert lines.endswith('- ["c099"]...\n[Some commands were truncated]')


def test_long_prefixes_are_cut_to_five_thousand_characters():
    lines = prefix_lines((f"{n}" * 900,) for n in range(8))
    assert len(lines) == 5000 + len("...\n[Some commands were truncated]")
    assert lines.endswith("...\n[Some commands were truncated]")
