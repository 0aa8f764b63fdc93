from __future__ import annotations

import json
import re

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec import Struct

from treadle.core.specs import SPECS, FunctionTool
from treadle.tools import apply_patch, exec_command, shell, stored_output, user_tools, view_image
from treadle.tools import builtin_specs as specs
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


ARGUMENTS: dict[str, tuple[FunctionTool, type[Struct]]] = {
    "exec_command": (specs.EXEC_COMMAND, exec_command._ExecArguments),
    "write_stdin": (specs.WRITE_STDIN, exec_command._WriteArguments),
    "shell": (specs.SHELL, shell._ShellArguments),
    "shell_command": (specs.SHELL_COMMAND, shell._ShellCommandArguments),
    "update_plan": (specs.UPDATE_PLAN, user_tools._PlanArguments),
    "request_user_input": (specs.REQUEST_USER_INPUT, user_tools._QuestionArguments),
    "apply_patch": (specs.APPLY_PATCH_FUNCTION, apply_patch._Arguments),
    "view_image": (specs.VIEW_ORIGINAL_IMAGE, view_image._Arguments),
    "read_output": (specs.READ_OUTPUT, stored_output._Arguments),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_tool_takes_the_arguments_that_models_are_told_of(name: str):
    spec, arguments = ARGUMENTS[name]
    schema = json.loads(SPECS.encode(spec))["parameters"]
    fields = msgspec.structs.fields(arguments)
    assert set(schema["properties"]) == {field.encode_name for field in fields}
    assert set(schema["required"]) == {field.encode_name for field in fields if field.required}
