from __future__ import annotations

from inline_snapshot import snapshot

from .scenes import Scene


async def test_a_command_that_ends_tells_its_exit_code(scene: Scene):
    result = await scene.call("exec_command", cmd="echo out; echo err >&2; exit 3")
    assert result.success
    assert await scene.text("exec_command", cmd="echo out; echo err >&2; exit 3") == snapshot("""\
Chunk ID: ······
Wall time: · seconds
Process exited with code 3
Original token count: 2
Output:
out
err
""")
