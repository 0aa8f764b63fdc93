from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "matrix.md"
FILES = re.compile(r"^# (\S+\.py)\n(.*?)(?=^# \S+\.py\n|^```$)", re.MULTILINE | re.DOTALL)
GUESTS = """\
from treadle.harness.contract import Outcome
from treadle.harness.loop import LoopHarness
from treadle.models.retry import Backoff

class Sound(LoopHarness):
    name = "sound"

class Mute(LoopHarness):
    name = "mute"
    async def run(self, run):
        await run.log.turns.finish("completed")
        return Outcome(status="completed")

def sound(offer):
    return Sound(backoff=Backoff(retries=0))

def mute(offer):
    return Mute()
"""


@pytest.fixture
def example(pytester: pytest.Pytester) -> pytest.Pytester:
    """The files of the page's example, and two harnesses to put to it."""
    text = PAGE.read_text(encoding="utf-8").partition("## Under pytest")[2]
    files = dict(FILES.findall(text))
    assert sorted(files) == ["conftest.py", "test_matrix.py"]
    for name, code in files.items():
        (pytester.path / name).write_text(code)
    pytester.makepyfile(guests=GUESTS)
    return pytester


def played(example: pytest.Pytester, *options: str) -> pytest.RunResult:
    quiet = ("-p", "no:cacheprovider", "-p", "no:inline_snapshot", "-v")
    return example.runpytest_subprocess(*quiet, "--treadle-domain", "selection", *options)


def test_the_example_of_the_page_plays_the_rows(example):
    done = played(example, "--treadle-harness", "treadle")
    done.assert_outcomes(passed=5)
    done.stdout.fnmatch_lines(["*test_a_promise_is_kept?SEL-35-treadle? PASSED*"])


def test_a_harness_of_somebody_else_is_put_to_the_rows(example):
    played(example, "--treadle-harness", "guests:sound").assert_outcomes(passed=5)


def test_a_harness_that_breaks_promises_fails_with_what_was_seen(example):
    done = played(example, "--treadle-harness", "guests:mute")
    done.assert_outcomes(failed=5)
    done.stdout.fnmatch_lines(["SEL-35 on guests:mute: text: expected 'Done.', saw ''*"])


def test_a_configuration_file_can_say_it_once(example):
    example.makeini("[pytest]\ntreadle_harness = guests:sound\ntreadle_engine = lossless\n")
    played(example).assert_outcomes(passed=5)
