from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

from tests.fork_server import run

from .terminal import SCRIPT, Treadle

CI = Path(__file__).parents[2] / "examples" / "ci"
ANSWER = {"verdict": "reject", "findings": [{"file": "calc.py", "what": "it subtracts"}]}


def test_the_ci_action_runs_a_turn_and_gives_its_answer_on(treadle: Treadle, tmp_path: Path):
    text = (CI / "action" / "action.yml").read_text(encoding="utf-8")
    found = re.search(r"id: turn\n.*?\n      run: \|\n(.*)", text, re.DOTALL)
    assert found
    (treadle.project / "review.toml").write_text(
        f"[[answer]]\nwhen = \"it's `$HOME`\"\ntext = '{json.dumps(ANSWER)}'\n"
    )
    (tmp_path / "treadle" / "bin").mkdir(parents=True)
    (tmp_path / "treadle" / "bin" / "treadle").symlink_to(SCRIPT)
    variables = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "PROMPT": "it's `$HOME`; review it",
        "MODEL": "scripted:review.toml",
        "SANDBOX": "read-only",
        "SCHEMA": str(CI / "review.json"),
        "OPTIONS": "--approval never --show-usage",
    }
    script = textwrap.dedent(found.group(1))
    done = run(["bash", "-c", script], cwd=treadle.project, env={**treadle.env, **variables})
    assert done.returncode == 0, done.stderr.decode()
    name, _, rest = (tmp_path / "output").read_text().partition("<<")
    mark, answer, again = rest.rstrip("\n").split("\n")
    assert (name, mark) == ("answer", again)
    assert json.loads(answer) == ANSWER
