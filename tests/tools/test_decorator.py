from __future__ import annotations

import threading
from typing import Annotated, Literal

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec import Struct

from treadle.core.items import InputText
from treadle.core.specs import SPECS
from treadle.tools.contract import ToolContext, ToolResult
from treadle.tools.decorator import PythonTool, tool

from .scenes import Scene, function_call


class Place(Struct, forbid_unknown_fields=True):
    path: str
    line: int = 1


@tool(parallel=True)
async def find(
    pattern: Annotated[str, msgspec.Meta(description="What to look for.")],
    places: list[Place],
    context: ToolContext,
    mode: Literal["plain", "word"] = "plain",
    limit: int | None = None,
) -> str:
    """Find a pattern in places."""
    return f"{context.thread} {pattern} {places} {mode} {limit}"


async def run(scene: Scene, made: PythonTool, arguments: str) -> ToolResult:
    return await made.run(function_call(made.spec.name, arguments), scene.context)


def test_the_schema_is_sorted_written_out_and_closed():
    assert msgspec.json.format(SPECS.encode(find.spec), indent=1).decode() == snapshot("""\
{
 "type": "function",
 "name": "find",
 "description": "Find a pattern in places.",
 "strict": false,
 "parameters": {
  "type": "object",
  "properties": {
   "limit": {
    "anyOf": [
     {
      "type": "integer"
     },
     {
      "type": "null"
     }
    ]
   },
   "mode": {
    "default": "plain",
    "enum": [
     "plain",
     "word"
    ]
   },
   "pattern": {
    "type": "string",
    "description": "What to look for."
   },
   "places": {
    "type": "array",
    "items": {
     "type": "object",
     "properties": {
      "line": {
       "type": "integer",
       "default": 1
      },
      "path": {
       "type": "string"
      }
     },
     "required": [
      "path"
     ],
     "additionalProperties": false
    }
   }
  },
  "required": [
   "pattern",
   "places"
  ],
  "additionalProperties": false
 }
}\
""")
    assert find.parallel


async def test_arguments_arrive_typed_and_the_context_with_them(scene: Scene):
    result = await run(scene, find, '{"pattern": "x", "places": [{"path": "a"}], "limit": 3.0}')
    assert result == ToolResult("thr_1 x [Place(path='a', line=1)] plain 3")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"places": []}', "Object missing required field `pattern`"),
        ('{"pattern": 1, "places": []}', "Expected `str`, got `int` - at `$.pattern`"),
        (
            '{"pattern": "", "places": [{"path": "", "line": "x"}]}',
            "Expected `int`, got `str` - at `$.places[0].line`",
        ),
        (
            '{"pattern": "", "places": [], "mode": "fuzzy"}',
            "Invalid enum value 'fuzzy' - at `$.mode`",
        ),
        ('{"pattern": "", "places": [], "context": 1}', "Object contains unknown field `context`"),
        ("?", "JSON is malformed: invalid character (byte 0); send one JSON object"),
    ],
)
async def test_bad_arguments_name_the_place_and_the_type(scene: Scene, arguments: str, said: str):
    result = await run(scene, find, arguments)
    assert result == ToolResult(f"invalid arguments for find: {said}", success=False)


async def test_a_plain_function_runs_in_a_thread(scene: Scene):
    @tool
    def where() -> str:
        """Say where it runs."""
        return threading.current_thread().name

    result = await run(scene, where, "{}")
    assert result.output != threading.main_thread().name
    assert where() == threading.main_thread().name


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("text", ToolResult("text")),
        (None, ToolResult("Done")),
        ({"b": 1, "a": [True]}, ToolResult('{"b":1,"a":[true]}')),
        (Place("p"), ToolResult('{"path":"p","line":1}')),
        ((InputText("part"),), ToolResult((InputText("part"),))),
        (ToolResult("no", success=False), ToolResult("no", success=False)),
    ],
)
async def test_what_a_function_may_return(scene: Scene, value: object, result: ToolResult):
    @tool(name="give", description="Gives.")
    async def made() -> object:
        return value

    assert made.spec.name == "give"
    assert await run(scene, made, "") == result


async def test_a_list_as_default_is_not_shared(scene: Scene):
    @tool
    async def collect(found: list[str] = []) -> str:  # noqa: B006 - what hosts write
        """Collect."""
        found.append("x")
        return ",".join(found)

    assert (await run(scene, collect, "{}")).output == "x"
    assert (await run(scene, collect, "{}")).output == "x"


def test_what_cannot_become_a_tool_is_refused_at_once():
    with pytest.raises(TypeError, match="give 'silent' a docstring"):

        @tool
        async def silent() -> None: ...

    with pytest.raises(TypeError, match=r"args.* cannot be given by name"):

        @tool
        async def loose(*args: str) -> None:
            """Loose."""

    with pytest.raises(TypeError, match="annotate the parameter 'what'"):

        @tool
        async def bare(what) -> None:
            """Bare."""


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start

    async def count(self, by: int) -> str:
        """Count on."""
        return str(self.start + by)


async def test_tools_of_one_method_share_their_shape_and_call_their_own_object(scene: Scene):
    one, other = tool(Counter(1).count), tool(Counter(10).count)
    assert one.spec is other.spec
    assert tool(description="Otherwise.")(Counter(1).count).spec.description == "Otherwise."
    assert [(await run(scene, made, '{"by":2}')).output for made in (one, other)] == ["3", "12"]
