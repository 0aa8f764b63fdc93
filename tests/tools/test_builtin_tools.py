from __future__ import annotations

import base64
import json
import struct
import zlib

import msgspec
import pytest
from inline_snapshot import snapshot

from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
)
from treadle.core.specs import SPECS, spec_name
from treadle.models.catalog import Catalog
from treadle.models.profile import ModelProfile, Shell
from treadle.tools.builtin_tools import builtin_tools
from treadle.tools.contract import AnswerOption, ToolResult, UserQuestion
from treadle.tools.dispatch import Dispatch, tools_by_name
from treadle.tools.view_image import MOST_BYTES

from .scenes import Scene, model_text

PATCH = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"


def png(width: int = 2, height: int = 3) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        checked = kind + body
        return struct.pack(">I", len(body)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height)))
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def outline(profile: ModelProfile) -> str:
    """Each tool with its parameters; a star marks the required ones."""
    lines = []
    for tool in builtin_tools(profile):
        schema = json.loads(SPECS.encode(tool.spec)).get("parameters", {})
        lines.append(spec_name(tool.spec) + (" (parallel)" if tool.parallel else ""))
        for name, each in schema.get("properties", {}).items():
            star = "*" if name in schema.get("required", ()) else ""
            kinds = "|".join(each.get("enum", [each["type"]]))
            lines.append(f"  {star}{name} {kinds}")
    return "\n".join(lines)


def test_the_tools_of_a_current_model_are_pinned():
    profile = ModelProfile(slug="m", apply_patch="freeform", images=True, original_images=True)
    assert outline(profile) == snapshot("""\
exec_command (parallel)
  *cmd string
  justification string
  login boolean
  max_output_tokens number
  prefix_rule array
  sandbox_permissions use_default|require_escalated
  shell string
  tty boolean
  workdir string
  yield_time_ms number
write_stdin (parallel)
  chars string
  max_output_tokens number
  *session_id number
  yield_time_ms number
update_plan
  explanation string
  *plan array
request_user_input
  *questions array
apply_patch
view_image (parallel)
  detail high|original
  *path string
read_output (parallel)
  *handle string
  limit number
  offset number
  pattern string\
""")


def test_the_tools_of_older_models_are_pinned():
    families: tuple[Shell, ...] = ("shell_command", "shell", "local")
    profiles = [ModelProfile(slug="m", shell=shell, apply_patch="function") for shell in families]
    assert "\n".join(outline(p).partition("\nupdate_plan")[0] for p in profiles) == snapshot("""\
shell_command
  *command string
  justification string
  login boolean
  sandbox_permissions use_default|require_escalated
  timeout_ms number
  workdir string
shell
  *command array
  justification string
  sandbox_permissions use_default|require_escalated
  timeout_ms number
  workdir string
local_shell\
""")


def test_a_specification_is_pinned_to_the_byte():
    spec = builtin_tools(ModelProfile(slug="m"))[2].spec
    assert msgspec.json.format(SPECS.encode(spec), indent=1).decode() == snapshot("""\
{
 "type": "function",
 "name": "update_plan",
 "description": "Replaces the plan of your work. At most one step is in_progress at a time.",
 "strict": false,
 "parameters": {
  "type": "object",
  "properties": {
   "explanation": {
    "type": "string",
    "description": "Why the plan changed."
   },
   "plan": {
    "type": "array",
    "items": {
     "type": "object",
     "properties": {
      "status": {
       "type": "string",
       "enum": [
        "pending",
        "in_progress",
        "completed"
       ]
      },
      "step": {
       "type": "string"
      }
     },
     "required": [
      "step",
      "status"
     ],
     "additionalProperties": false
    },
    "description": "All of the steps."
   }
  },
  "required": [
   "plan"
  ],
  "additionalProperties": false
 }
}\
""")


@pytest.mark.parametrize("name", ["exec_command", "update_plan", "request_user_input"])
def test_schemas_are_closed_and_sorted(name: str):
    profile = ModelProfile(slug="m")
    spec = next(t.spec for t in builtin_tools(profile) if spec_name(t.spec) == name)
    schema = json.loads(SPECS.encode(spec))["parameters"]
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert list(node["properties"]) == sorted(node["properties"])
            waiting += node["properties"].values()
        if "items" in node:
            waiting.append(node["items"])


def test_the_same_profile_gives_the_same_bytes():
    profile = ModelProfile(slug="m", apply_patch="freeform", images=True)
    first, second = ([SPECS.encode(tool.spec) for tool in builtin_tools(profile)] for _ in range(2))
    assert first == second


def test_every_model_of_the_catalog_gets_tools_with_distinct_names():
    catalog = Catalog.load()
    for slug in ("gpt-5.5", "gpt-5.2", "gpt-oss-120b", "unheard-of"):
        names = [spec_name(tool.spec) for tool in builtin_tools(catalog.profile(slug))]
        assert len(names) == len(set(names))


async def test_an_image_becomes_a_data_url(scene: Scene):
    (scene.cwd / "red.png").write_bytes(png())
    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    assert await scene.call("view_image", path="red.png") == ToolResult((InputImage(url, "high"),))


async def test_an_image_in_its_own_resolution_needs_a_model_that_takes_it(scene: Scene):
    (scene.cwd / "red.png").write_bytes(png())
    assert await scene.call("view_image", path="red.png", detail="original") == ToolResult(
        "invalid arguments for view_image: this model has no `original`", success=False
    )
    profile = ModelProfile(slug="m", images=True, original_images=True)
    result = await scene.but(tools=builtin_tools(profile)).call(
        "view_image", path="red.png", detail="original"
    )
    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    assert result == ToolResult((InputImage(url, "original"),))


UNKNOWN = "it is not a PNG, JPEG, GIF or WebP image"
NO_HEADER = "its header cannot be read"
DAMAGED = "it is damaged; the checksum of its 'IDAT' part is wrong"
CUT = "it is cut short; its end is missing"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.png", None, "[Errno 2] No such file or directory: '{cwd}/none.png'"),
        ("notes.txt", b"words", f"'notes.txt' could not be read: {UNKNOWN}"),
        ("empty.png", b"", f"'empty.png' could not be read: {UNKNOWN}"),
        ("short.png", png()[:20], f"'short.png' could not be read: {UNKNOWN}; {NO_HEADER}"),
        ("cut.png", png()[:-9], f"'cut.png' could not be read: {CUT}"),
        (
            "bad.png",
            png().replace(b"IDATx", b"IDATy"),
            f"'bad.png' could not be read: {DAMAGED}",
        ),
        ("flat.png", png(0, 5), f"'flat.png' could not be read: {UNKNOWN}; {NO_HEADER}"),
        (
            "huge.png",
            png() + b"\0" * MOST_BYTES,
            f"'huge.png' is larger than {MOST_BYTES} bytes; make it smaller",
        ),
    ],
)
async def test_what_is_no_image_is_named(scene: Scene, name: str, content: bytes | None, said: str):
    if content is not None:
        (scene.cwd / name).write_bytes(content)
    assert await scene.call("view_image", path=name) == ToolResult(
        f"view_image failed: {said.format(cwd=scene.cwd)}", success=False
    )


async def test_a_directory_and_a_hidden_file_are_no_images(scene: Scene):
    result = await scene.call("view_image", path=".")
    assert model_text(result) == f"view_image failed: [Errno 21] Is a directory: '{scene.cwd}'"
    (scene.home / "key.png").write_bytes(png())
    (scene.cwd / "link.png").symlink_to(scene.home / "key.png")
    for path in (str(scene.home / "key.png"), "link.png"):
        result = await scene.call("view_image", path=path)
        assert not result.success
        assert "is hidden by the sandbox policy" in model_text(result)


def test_models_without_eyes_have_no_images():
    names = [spec_name(tool.spec) for tool in builtin_tools(ModelProfile(slug="m"))]
    assert "view_image" not in names


async def test_a_plan_is_taken_note_of(scene: Scene):
    plan = [{"step": "look", "status": "completed"}, {"step": "act", "status": "in_progress"}]
    assert await scene.call("update_plan", plan=plan, explanation="why") == ToolResult(
        "Plan updated"
    )
    result = await scene.call("update_plan", plan=[{"step": "look", "status": "done"}])
    assert result == ToolResult(
        "invalid arguments for update_plan: Invalid enum value 'done' - at `$.plan[0].status`",
        success=False,
    )


QUESTION = {
    "id": "colour",
    "header": "Colour",
    "question": "Which colour?",
    "options": [
        {"label": "Red", "description": "Warm."},
        {"label": "Blue", "description": "Cold."},
    ],
}


async def test_questions_are_put_to_the_user(scene: Scene):
    asked: list[tuple[UserQuestion, ...]] = []

    async def consult(questions: tuple[UserQuestion, ...]) -> dict[str, tuple[str, ...]]:
        asked.append(questions)
        return {"colour": ("Blue", "but light")}

    result = await scene.but(ask_questions=consult).call("request_user_input", questions=[QUESTION])
    assert result == ToolResult('{"answers":{"colour":{"answers":["Blue","but light"]}}}')
    options = (AnswerOption("Red", "Warm."), AnswerOption("Blue", "Cold."))
    assert asked == [
        (UserQuestion(id="colour", header="Colour", question="Which colour?", options=options),)
    ]


async def test_questions_without_anybody_to_ask_are_answered_honestly(scene: Scene):
    result = await scene.call("request_user_input", questions=[QUESTION])
    assert result == ToolResult(
        "request_user_input failed: nobody can be asked here; decide for yourself and say so",
        success=False,
    )

    async def dismissed(questions: tuple[UserQuestion, ...]) -> None:
        assert len(questions) == 1

    result = await scene.but(ask_questions=dismissed).call(
        "request_user_input", questions=[QUESTION]
    )
    assert result == ToolResult("request_user_input failed: the user did not answer", success=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"options": []}, "Expected `array` of length >= 2 - at `$.questions[0].options`"),
        (
            {"header": "much too long a header"},
            "Expected `str` of length <= 12 - at `$.questions[0].header`",
        ),
    ],
)
async def test_malformed_questions_are_named(scene: Scene, changes: dict[str, object], said: str):
    result = await scene.call("request_user_input", questions=[{**QUESTION, **changes}])
    assert result == ToolResult(f"invalid arguments for request_user_input: {said}", success=False)


async def test_a_freeform_patch_that_is_called_as_a_function_is_understood(scene: Scene):
    dispatch = Dispatch(tools_by_name(scene.tools), scene.context)
    arguments = json.dumps({"input": PATCH})
    dispatch.submit(FunctionCall(call_id="c1", name="apply_patch", arguments=arguments))
    dispatch.finish()
    (finished,) = [each async for each in dispatch.results()]
    assert isinstance(finished.item, FunctionCallOutput)
    assert finished.result.success, model_text(finished.result)
    assert (scene.cwd / "new.txt").read_text() == "hello\n"


async def test_a_freeform_patch_is_applied_and_answered_in_kind(scene: Scene):
    dispatch = Dispatch(tools_by_name(scene.tools), scene.context)
    dispatch.submit(CustomToolCall(call_id="c1", name="apply_patch", input=PATCH))
    dispatch.finish()
    (finished,) = [each async for each in dispatch.results()]
    assert isinstance(finished.item, CustomToolCallOutput)
    assert model_text(finished.result) == snapshot("""\
Exit code: 0
Wall time: · seconds
Output:
Success. Updated the following files:
A new.txt
""")
    assert (scene.cwd / "new.txt").read_text() == "hello\n"


async def test_a_patch_as_json_is_applied(scene: Scene):
    profile = ModelProfile(slug="m", apply_patch="function")
    json_scene = scene.but(tools=builtin_tools(profile))
    assert (await json_scene.call("apply_patch", input=PATCH)).success
    result = await json_scene.raw("apply_patch", PATCH)
    assert not result.success
    assert model_text(result).startswith("invalid arguments for apply_patch: JSON is malformed")


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (
            "nonsense",
            (
                "apply_patch verification failed: invalid patch: "
                "The first line of the patch must be '*** Begin Patch'"
            ),
        ),
        (
            "*** Begin Patch\n*** Delete File: none\n*** End Patch",
            (
                "apply_patch verification failed: Failed to read {cwd}/none: "
                "No such file or directory (os error 2)"
            ),
        ),
        ("*** Begin Patch\n*** End Patch", "patch rejected: it changes nothing"),
    ],
)
async def test_a_patch_that_cannot_be_applied_says_why(scene: Scene, patch: str, said: str):
    result = await scene.raw("apply_patch", patch)
    assert result == ToolResult(said.format(cwd=scene.cwd), success=False)


@pytest.mark.parametrize("arguments", ["[" * 100_000, '{"a":' * 100_000, '{"cmd": "\\ud800"}'])
async def test_arguments_that_nobody_can_read_are_refused(scene: Scene, arguments: str):
    result = await scene.raw("exec_command", arguments)
    assert not result.success
    assert model_text(result).startswith("invalid arguments for exec_command: ")


async def test_a_command_with_a_zero_byte_is_an_honest_result(scene: Scene):
    assert await scene.call("exec_command", cmd="echo \0") == ToolResult(
        "exec_command failed: embedded null byte", success=False
    )
