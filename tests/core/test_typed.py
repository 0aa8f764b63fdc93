from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from msgspec import Struct

from treadle.core.typed import convert, decode_json

MANY_AT_ONCE = """
import sys, threading, types
from treadle.core.typed import convert, decode_json

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


class Bird(Struct):
    name: str


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
