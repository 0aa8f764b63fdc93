from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

import treadle
from treadle.core.typed import convert, decode_json, json_decoder

MANY_AT_ONCE = """
import sys, threading, types
from treadle.core.typed import convert, decode_json, json_decoder

sys.setswitchinterval(1e-6)
module = sys.modules["kinds"] = types.ModuleType("kinds")
lines = ["from __future__ import annotations", "import msgspec"]
for number in range(100):
    lines.append(f"class Kind{number}(msgspec.Struct):")
    lines += [f"    field{each}: int | str | None = None" for each in range(30)]
exec("\\n".join(lines), vars(module))

def use(kind):
    barrier.wait()
    convert({"field1": 3, "field29": "x"}, kind)
    decode_json('{"field1": 3, "field29": "x"}', kind)
    json_decoder(kind | None).decode('{"field1": 3, "field29": "x"}')

for number in range(100):
    barrier = threading.Barrier(6)
    kind = getattr(module, f"Kind{number}")
    threads = [threading.Thread(target=use, args=(kind,)) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
print("alive")
"""


SOURCE = Path(treadle.__file__).parent
NO_STRUCTS = {*vars(builtins), "Any", "Json", "Raw"}


class Bird(Struct):
    name: str


def first_uses(text: str) -> Iterator[int]:
    """The lines at which a function, perhaps in a thread, makes a decoder of its own."""
    tree = ast.parse(text)
    functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    inside = {
        inner for node in ast.walk(tree) if isinstance(node, functions) for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        kinds = [each.value for each in node.keywords if each.arg == "type"]
        names = {each.id for kind in kinds for each in ast.walk(kind) if isinstance(each, ast.Name)}
        if (node.func.attr == "Decoder" and node in inside) or (
            node.func.attr == "decode" and names - NO_STRUCTS
        ):
            yield node.lineno


def test_a_struct_is_first_used_by_many_threads_at_once():
    done = subprocess.run([sys.executable, "-c", MANY_AT_ONCE], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"alive\n"), done.stderr


def test_values_and_documents_become_what_they_should_be():
    assert convert({"name": "duck"}, Bird) == decode_json('{"name": "duck"}', Bird) == Bird("duck")
    assert decode_json(b"null", Bird | None) is None


def test_what_is_something_else_is_refused():
    with pytest.raises(msgspec.ValidationError):
        convert({"name": 3}, Bird)
    with pytest.raises(msgspec.DecodeError):
        decode_json("{", Bird)


def test_a_decoder_that_is_made_late_reads_its_type():
    assert json_decoder(Bird).decode('{"name": "duck"}') == Bird("duck")


def test_nothing_else_works_out_a_struct_while_it_runs():
    found = {
        f"{file.relative_to(SOURCE)}:{line}"
        for file in SOURCE.rglob("*.py")
        if file != SOURCE / "core" / "typed.py"
        for line in first_uses(file.read_text(encoding="utf-8"))
    }
    assert found == set(), "make the decoder with the module, or by treadle.core.typed"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("msgspec.json.decode(data, type=Bird)", [1]),
        ("msgspec.msgpack.decode(data, type=list[Bird])", [1]),
        ("def read(kind):\n    return msgspec.json.Decoder(kind)", [2]),
        ("_birds = msgspec.json.Decoder(Bird)", []),
        ("def read(data):\n    return msgspec.json.decode(data, type=dict[str, Any])", []),
    ],
)
def test_what_works_out_a_struct_is_found(text, lines):
    assert list(first_uses(text)) == lines
