from __future__ import annotations

import json
import re

from inline_snapshot import snapshot

from treadle.core.specs import SPECS
from treadle.tools.builtin_specs import APPLY_PATCH_FREEFORM, APPLY_PATCH_FUNCTION, GRAMMAR
from treadle.tools.patch import parse_patch


def test_the_freeform_tool_carries_the_grammar():
    spec = json.loads(SPECS.encode(APPLY_PATCH_FREEFORM))
    description = spec.pop("description")
    assert spec == {
        "type": "custom",
        "name": "apply_patch",
        "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
    }
    assert "FREEFORM" in description


def test_the_function_takes_the_patch_as_its_input():
    spec = json.loads(SPECS.encode(APPLY_PATCH_FUNCTION))
    spec.pop("description")
    assert spec == snapshot(
        {
            "type": "function",
            "name": "apply_patch",
            "strict": False,
            "parameters": {
                "type": "object",
                "properties": {
                    "input": {
                        "type": "string",
                        "description": "The whole patch, from Begin to End.",
                    }
                },
                "required": ["input"],
                "additionalProperties": False,
            },
        }
    )


def test_the_example_that_models_are_shown_parses():
    shown = re.search(
        r"^\*\*\* Begin.*?^\*\*\* End Patch$",
        APPLY_PATCH_FUNCTION.description,
        re.MULTILINE | re.DOTALL,
    )
    assert shown
    assert [type(hunk).__name__ for hunk in parse_patch(shown[0]).hunks] == [
        "AddFile",
        "UpdateFile",
        "DeleteFile",
    ]
