from __future__ import annotations

import json
from typing import Any

from tests.harness.codex.scenes import MODEL, hear, open_stage
from treadle.core.specs import SPECS, spec_name
from treadle.models.catalog import Catalog
from treadle.tools.builtin_tools import builtin_tools


def meaning(schema: Any) -> Any:
    """A schema as code reads it: its words are our own, and names are required in any order."""
    if isinstance(schema, dict):
        kept = {
            name: sorted(each) if name == "required" else meaning(each)
            for name, each in schema.items()
            if not (name == "description" and isinstance(each, str))
        }
        kept.pop("format", None)
        return kept
    return [meaning(each) for each in schema] if isinstance(schema, list) else schema


async def test_tools_of_the_same_name_have_the_schemas_of_codex(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await hear(thread, "hi")
    theirs = {tool.get("name"): meaning(tool) for tool in stage.requests[0].payload["tools"]}
    made = builtin_tools(Catalog.load().profile(MODEL))
    ours = {spec_name(tool.spec): meaning(json.loads(SPECS.encode(tool.spec))) for tool in made}
    shared = ["apply_patch", "exec_command", "request_user_input", "view_image", "write_stdin"]
    assert sorted(theirs.keys() & ours.keys()) == shared
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
