from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from msgspec import Raw, Struct

from treadle.core.specs import FunctionTool
from treadle.core.wire import UNREADABLE, json_bytes
from treadle.policy.schema import normalise
from treadle.policy.target import Target
from treadle.tools.arguments import InvalidArguments, parse_arguments
from treadle.tools.pipe.protocol import decode_reply

from .starved import LIES

ROOT = Path(__file__).parent.parent.parent
ENDS = {
    "headers without end": "ModelError connection",
    "a stream without end": "StreamCut too_large",
    "nesting without end": "StreamCut ",
    "an error without end": "InvalidRequest ",
}


class Taken(Struct):
    name: str


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_costs_no_memory_for_what_it_only_claims(lie: str):
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.starved", "responses", lie],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout.rstrip("\n")) == ("", ENDS.get(lie, "StreamCut connection"))


def test_references_that_multiply_are_not_written_out():
    doubled = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(1000)
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}}
    data = json_bytes({**schema, "$defs": {**doubled, "d1000": {"type": "null"}}})
    tool = FunctionTool(name="look", description="", parameters=Raw(data))
    tracemalloc.start()
    inventory = normalise([tool], Target(provider="openai", model="m", native=True))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(inventory.specs) == 1
    assert most < 30 * len(data)


@pytest.mark.parametrize(
    "number", ["1e308", "9" * 4000, "1e999999999", "-1e400", "0." + "9" * 9999]
)
def test_a_number_of_a_call_costs_no_more_than_its_digits(number: str):
    tracemalloc.start()
    with pytest.raises(InvalidArguments):
        parse_arguments("look", f'{{"name":{number}}}', Taken)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20


@pytest.mark.parametrize(
    "claim", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
)
def test_a_message_of_a_pipe_costs_no_memory_for_what_it_only_claims(claim: bytes):
    tracemalloc.start()
    with pytest.raises(UNREADABLE):
        decode_reply(b"\x92\x01" + claim)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
