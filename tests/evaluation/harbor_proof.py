"""Harbor itself, from its command line: our agent, our box, a task of ours, a scripted model.

It makes an environment of its own in `.venv-harbor`, with Python 3.12 or newer, and says so where
that cannot be had. Not a part of `make test`: Harbor cannot be installed on Python 3.11.

    python -m tests.evaluation.harbor_proof
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.newer_python import find_newer_python
from treadle.sandbox.probe import find_bubblewrap
from treadle.testing.fake import FakeServer
from treadle.testing.script import load_script

ROOT = Path(__file__).parent.parent.parent
PLACE = ROOT / ".venv-harbor"
TASK = ROOT / "evaluation" / "tasks" / "fix-date-ranges"
VALID = (
    "import sys; from harbor.models.trajectories import Trajectory as T; "
    "T.model_validate_json(open(sys.argv[1]).read())"
)


def main() -> None:
    if not (PLACE / "bin" / "harbor").exists():
        _install()
    with tempfile.TemporaryDirectory() as scratch:
        trajectory = asyncio.run(_prove(Path(scratch)))
        subprocess.run([PLACE / "bin" / "python", "-c", VALID, trajectory], check=True)
    sys.stdout.write("Harbor ran the task, graded it, and read the trajectory\n")


def _install() -> None:
    python = find_newer_python()
    if python is None:
        sys.exit("Harbor needs Python 3.12 or newer, and none was found; nothing was proved")
    subprocess.run([python, "-m", "venv", str(PLACE)], check=True)
    pip = (str(PLACE / "bin" / "python"), "-m", "pip", "install", "-q", "--no-input")
    subprocess.run([*pip, "harbor>=0.24", str(ROOT)], check=True)


async def _prove(scratch: Path) -> Path:
    # The other Python looks for bubblewrap on its search path, and never below its directory.
    (scratch / "bin").mkdir()
    shutil.copy(find_bubblewrap(scratch).binary, scratch / "bin" / "bwrap")
    async with FakeServer(load_script(TASK / "solution" / "script.toml")) as server:
        env = {
            **os.environ,
            "PATH": f"{scratch / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(scratch),
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        options = ("-p", str(TASK), "-m", "openai/gpt-5.5", "-o", str(scratch / "jobs"), "-q")
        agent = ("--agent", "examples.harbor.treadle_agent:TreadleAgent")
        box = ("--env", "examples.harbor.box_environment:BoxEnvironment")
        harbor = await asyncio.create_subprocess_exec(
            str(PLACE / "bin" / "harbor"), "run", *options, *agent, *box, "-n", "1", env=env
        )
        assert await harbor.wait() == 0
        assert not server.left
    (result,) = scratch.glob("jobs/*/fix-date-ranges*/result.json")
    told = json.loads(result.read_text())
    assert told["verifier_result"] == {"rewards": {"reward": 1.0}}, told
    assert told["agent_result"]["n_cache_tokens"] > 0, told
    return result.parent / "agent" / "trajectory.json"


if __name__ == "__main__":
    main()
