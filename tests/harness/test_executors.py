from __future__ import annotations

from tests.tools.far_ends import far_environ
from treadle import Rights, ToolOptions
from treadle.testing.script import Answer, Call
from treadle.thread.thread import Thread
from treadle.tools.pipe import PipeExecutor

from .scenes import calls_answered_once, hear, last, scripted

PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: calc.py
@@
-print(2 - 3)
+print(2 + 3)
*** End Patch
EOF
"""


def run(command: str) -> Answer:
    return Answer(calls=(Call(name="exec_command", arguments={"cmd": command}),))


async def test_the_loop_works_on_a_directory_at_the_other_end_of_a_pipe(tmp_path):
    project, home = tmp_path / "far", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (project / "calc.py").write_text("print(2 - 3)\n")
    model = scripted(run("cat calc.py"), run(PATCH), run("cat calc.py"), Answer(text="mended"))
    far = await PipeExecutor.connect(env=far_environ(home))
    async with Thread.open(
        model=model,
        cwd=project,
        home=home,
        tools=ToolOptions(executor=far),
        rights=Rights(approval="never"),
    ) as thread:
        events = await hear(thread, "mend it")
        assert await calls_answered_once(thread)
    await model.close()
    await far.close()
    assert last(events).text == "mended"
    assert (project / "calc.py").read_text() == "print(2 + 3)\n"
