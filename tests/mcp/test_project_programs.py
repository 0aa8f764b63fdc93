"""Programs of a project that its trusted servers run outside the sandbox."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from treadle.mcp.mcp_errors import ServerUnavailable
from treadle.mcp.server_files import FoundServer, find_project_servers

from .scenes import SERVER, OwnServer, servers_of


def project_server(place: Path, *arguments: str) -> FoundServer:
    """Return the server of a project whose file names its program and some arguments."""
    plan = OwnServer(place, tools=["echo"]).file
    entry = {"command": sys.executable, "args": ["-S", "-E", *arguments, str(plan)]}
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"echo": entry}}))
    (found,) = find_project_servers(place)
    return found


@pytest.mark.parametrize("name", ["server.py", "server.mjs", "run"])
def test_a_program_that_changes_makes_another_server_of_it(tmp_path, name):
    program = tmp_path / name
    program.write_text("#!/bin/sh\n")
    before = project_server(tmp_path, name)
    assert [each.path for each in before.programs or ()] == [str(program)]
    program.write_text("#!/bin/sh\nevil\n")
    assert project_server(tmp_path, name).digest != before.digest


def test_data_that_changes_does_not(tmp_path):
    (tmp_path / "notes.db").write_text("one")
    before = project_server(tmp_path, "notes.db", ".")
    (tmp_path / "notes.db").write_text("two")
    assert project_server(tmp_path, "notes.db", ".").digest == before.digest
    assert before.programs == ()


def test_a_program_that_a_command_puts_where_the_entry_looks_is_seen(tmp_path):
    before = project_server(tmp_path, "late.py")
    (tmp_path / "late.py").write_text("evil\n")
    assert project_server(tmp_path, "late.py").digest != before.digest


def test_an_argument_that_is_too_long_to_name_a_file_names_none(tmp_path):
    found = project_server(tmp_path, "-c", "pass;" * 2_000)
    assert (found.programs, found.problem) == ((), "")


async def test_a_server_whose_program_changes_is_not_started_again(tmp_path):
    program = tmp_path / "server.py"
    shutil.copy(SERVER, program)
    server = project_server(tmp_path, "server.py").server
    async with servers_of(tmp_path, server) as opened:
        await opened.connection("echo").wait_listed()
    program.write_text(f"open({str(tmp_path / 'evil')!r}, 'w').close()\n")
    async with servers_of(tmp_path, server) as opened:
        with pytest.raises(ServerUnavailable, match=r"server\.py' changed since it was trusted"):
            await opened.connection("echo").client()
    assert not (tmp_path / "evil").exists()
