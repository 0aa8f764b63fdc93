from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from treadle.testing.matrix import DOMAINS

ROOT = Path(__file__).parents[3]


def _script() -> ModuleType:
    """The script, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    return module


mutate = _script()


@pytest.mark.parametrize("mutation", mutate.mutations(), ids=lambda each: each.breaks)
def test_a_mutation_still_applies_and_leaves_code_behind(mutation):
    text = (ROOT / "src" / "treadle" / mutation.file).read_text(encoding="utf-8")
    changed = mutation.applied(text)
    ast.parse(changed)
    assert changed != text


def test_enough_decisions_are_broken_in_every_domain():
    found = mutate.mutations()
    assert len(found) >= 60
    assert {each.domain for each in found} == set(DOMAINS)


def test_a_line_that_is_not_there_once_is_refused():
    mutation = mutate.mutations()[0]
    for text in ("", f"{mutation.before}\n{mutation.before}\n"):
        with pytest.raises(ValueError, match="stands there"):
            mutation.applied(text)


def test_the_matrix_finds_out_what_is_broken(tmp_path):
    copy = mutate.Copy.made(tmp_path)
    mutation = next(each for each in mutate.mutations() if each.domain == "selection")
    sound = copy.failures(mutation.domain, mutation.harness, keep=True)
    assert (sound, copy.noticed(mutation, sound)) == (set(), {"SEL-9"})
    assert copy.failures(mutation.domain, mutation.harness) == set()
