from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from treadle.core.items import text_of
from treadle.tools.contract import ToolResult
from treadle.tools.dispatch import Dispatch, tools_by_name
from treadle.tools.local import LocalExecutor

from .scenes import GATED, Scene, function_call, marked_processes, model_text, nap, until


def body(text: str) -> str:
    return text.partition("\nOutput:\n")[2]


async def test_a_command_that_ends_tells_its_exit_code(scene: Scene):
    result = await scene.call("exec_command", cmd="echo out; echo err >&2; exit 3")
    assert result.success
    assert model_text(result) == snapshot("""\
Chunk ID: ······
Wall time: · seconds
Process exited with code 3
Original token count: 2
Output:
out
err
""")


async def test_wall_time_has_four_digits_and_a_chunk_six(scene: Scene):
    text = text_of((await scene.call("exec_command", cmd="true")).output)
    chunk, wall, *rest = text.split("\n")
    assert (len(chunk), chunk[:10]) == (16, "Chunk ID: ")
    assert wall.removeprefix("Wall time: ").removesuffix(" seconds").partition(".")[2].isdigit()
    assert len(wall.partition(".")[2]) == len("0000 seconds")
    assert rest == ["Process exited with code 0", "Original token count: 0", "Output:", ""]


async def test_a_command_that_goes_on_gets_a_session_that_can_be_typed_into(scene: Scene):
    script = "echo first; read line; echo got $line"
    running = await scene.text("exec_command", cmd=script, tty=True, yield_time_ms=250)
    assert "\nProcess running with session ID 1\n" in running
    ended = await scene.text("write_stdin", session_id=1, chars="word\n", yield_time_ms=30_000)
    assert "\nProcess exited with code 0\n" in ended
    lines = (body(running) + body(ended)).split("\r\n")
    assert sorted(lines) == ["", "first", "got word", "word"]


async def test_an_empty_poll_waits_for_the_end(scene: Scene):
    running = await scene.text("exec_command", cmd=f"{GATED}; echo late", yield_time_ms=250)
    assert running == snapshot("""\
Chunk ID: ······
Wall time: · seconds
Process running with session ID 1
Original token count: 0
Output:
""")
    scene.open_gate()
    assert await scene.text("write_stdin", session_id=1) == snapshot("""\
Chunk ID: ······
Wall time: · seconds
Process exited with code 0
Original token count: 2
Output:
late
""")


async def test_a_session_that_has_ended_is_reported_as_ended(scene: Scene):
    await scene.call("exec_command", cmd=GATED, yield_time_ms=250)
    scene.open_gate()
    await scene.call("write_stdin", session_id=1)
    assert await scene.call("write_stdin", session_id=1) == ToolResult(
        "write_stdin failed: no session 1 is running; it has ended, "
        "or it ended with an earlier run of the program. No command is running: start one with "
        "exec_command.",
        success=False,
    )


async def test_output_is_told_once_and_characters_stay_whole(scene: Scene):
    script = rf"printf 'a\303'; {GATED}; printf '\244b'"
    running = await scene.text("exec_command", cmd=script, yield_time_ms=250)
    scene.open_gate()
    ended = await scene.text("write_stdin", session_id=1)
    assert body(running) + body(ended) == "aäb"


async def test_typing_into_a_command_that_never_reads_ends_with_its_patience(scene: Scene):
    await scene.call("exec_command", cmd="sleep 60", tty=True, yield_time_ms=250)
    lines = "a line\n" * 50_000
    result = await scene.call("write_stdin", session_id=1, chars=lines, yield_time_ms=250)
    assert not result.success
    assert model_text(result) == (
        "write_stdin failed: session 1 reads no input, so only the beginning was typed; "
        "look at its output first, and type less at once"
    )


async def test_typing_without_a_terminal_says_how_to_get_one(scene: Scene):
    await scene.call("exec_command", cmd="sleep 30", yield_time_ms=250)
    assert await scene.call("write_stdin", session_id=1, chars="hello") == ToolResult(
        "write_stdin failed: stdin is closed for this session; "
        "rerun exec_command with tty=true to keep stdin open",
        success=False,
    )


@pytest.mark.parametrize("tty", [False, True])
async def test_an_interrupt_ends_a_command(scene: Scene, tty: bool):
    await scene.call("exec_command", cmd="sleep 30", yield_time_ms=250, tty=tty)
    ended = await scene.text("write_stdin", session_id=1, chars="\x03", yield_time_ms=30_000)
    assert "\nProcess exited with code " in ended


async def test_patience_is_never_shorter_than_a_quarter_of_a_second(scene: Scene):
    result = await scene.call("exec_command", cmd="sleep 30", yield_time_ms=0)
    told = text_of(result.output).partition("Wall time: ")[2].partition(" seconds")[0]
    assert float(told) >= 0.25


async def test_long_output_is_cut_in_the_middle_and_kept_whole(scene: Scene):
    text = await scene.text("exec_command", cmd="seq 1 2000", max_output_tokens=20)
    assert text == snapshot("""\
Chunk ID: ······
Wall time: · seconds
Process exited with code 0
Original token count: 2224
Output:
Warning: truncated output (original token count: 2224)
Total output lines: 2000

1
2
3
4
5
6
7
8
9
10
11
12
13
14
15
16
1…2204 tokens truncated…1993
1994
1995
1996
1997
1998
1999
2000
Full output: sha256:··· (use read_output)\
""")


async def test_a_call_can_only_lower_the_limit(scene: Scene):
    text = await scene.text("exec_command", cmd="seq 1 20000", max_output_tokens=10**9)
    assert "tokens truncated" in text
    assert len(text) < 12_000


async def test_binary_output_is_described(scene: Scene):
    text = await scene.text("exec_command", cmd="head -c 5000 /dev/zero")
    assert body(text) == snapshot("""\
[binary output, 5000 bytes]
Full output: sha256:··· (use read_output)\
""")


async def test_commands_see_forced_variables_and_no_secrets(scene: Scene):
    text = await scene.text("exec_command", cmd="env | grep -v -e PWD -e SHLVL -e _= | sort")
    environment = dict(line.split("=", 1) for line in body(text).splitlines())
    mark = environment.pop("TREADLE_PROCESS")
    assert str(os.getpid()) in mark.split("-")
    environment.pop("PATH")
    assert environment == {
        "COLORTERM": "",
        "GH_PAGER": "cat",
        "GIT_PAGER": "cat",
        "HOME": str(scene.cwd),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "LC_CTYPE": "C.UTF-8",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "TERM": "dumb",
        "TREADLE_CI": "1",
        "TREADLE_SANDBOX_NETWORK_DISABLED": "1",
        "TREADLE_THREAD_ID": "thr_1",
    }


async def test_a_command_runs_where_and_how_it_is_told(scene: Scene):
    (scene.cwd / "deep").mkdir()
    text = await scene.text(
        "exec_command", cmd="pwd; echo $0; shopt -q login_shell || echo plain", workdir="deep"
    )
    assert body(text) == f"{scene.cwd}/deep\nbash\n"
    text = await scene.text("exec_command", cmd="echo $0", shell="sh", login=False)
    assert body(text) == "sh\n"


async def test_a_directory_that_is_none_is_an_honest_result(scene: Scene):
    assert await scene.call("exec_command", cmd="true", workdir="none") == ToolResult(
        f"exec_command failed: [Errno 20] is no directory: '{scene.cwd}/none'", success=False
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"cmd": 1}', "Expected `str`, got `int` - at `$.cmd`"),
        ("{}", "Object missing required field `cmd`"),
        ('{"cmd": "ls", "tty": "yes"}', "Expected `bool`, got `str` - at `$.tty`"),
        ('{"cmd": "ls", "colour": 1}', "Object contains unknown field `colour`"),
        ('{"cmd": ', "Input data was truncated; send one JSON object"),
        ('["ls"]', "Expected `object`, got `array`"),
    ],
)
async def test_bad_arguments_are_named(scene: Scene, arguments: str, said: str):
    result = await scene.raw("exec_command", arguments)
    assert result == ToolResult(f"invalid arguments for exec_command: {said}", success=False)


async def test_numbers_may_be_written_with_a_point(scene: Scene):
    text = await scene.raw("exec_command", '{"cmd": "true", "yield_time_ms": 1000.0}')
    assert text.success


async def test_a_null_is_as_good_as_nothing(scene: Scene):
    arguments = '{"cmd": "echo x", "workdir": null, "tty": null, "yield_time_ms": null}'
    assert body(model_text(await scene.raw("exec_command", arguments))) == "x\n"
    result = await scene.raw("exec_command", '{"cmd": null}')
    assert model_text(result).endswith("Expected `str`, got `null` - at `$.cmd`")


async def test_output_is_shown_while_it_runs(scene: Scene):
    await scene.call("exec_command", cmd="echo one; sleep 0.1; echo two")
    assert "".join(each.text for each in scene.host.shown) == "one\ntwo\n"
    assert {each.call_id for each in scene.host.shown} == {"c1"}


async def test_a_cancelled_call_leaves_nothing_running(scene: Scene):
    work = asyncio.ensure_future(
        scene.in_mode("danger-full-access").call(
            "exec_command", cmd=f"echo up; setsid sleep {nap(61)} & wait"
        )
    )
    await until(lambda: bool(scene.host.shown))
    assert marked_processes(nap(61))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert marked_processes(nap(61)) == []


async def test_an_aborted_command_says_so_in_its_own_form(scene: Scene):
    dispatch = Dispatch(
        tools_by_name(scene.tools), scene.context, clock=iter([0.0, 2.5, 2.5]).__next__
    )
    dispatch.submit(function_call("exec_command", '{"cmd": "sleep 30"}').item)
    await asyncio.sleep(0.1)
    await dispatch.abort()
    (finished,) = [each async for each in dispatch.results()]
    assert finished.item.output == "Wall time: 2.5 seconds\naborted by user"


async def test_the_oldest_session_ends_when_there_are_too_many(scene: Scene):
    free = scene.in_mode("danger-full-access")
    await asyncio.gather(
        *(
            free.call("exec_command", cmd=f"exec sleep {nap(62)}", yield_time_ms=250, login=False)
            for _ in range(64)
        )
    )
    assert len(marked_processes(nap(62))) == 64
    await free.call("exec_command", cmd=f"exec sleep {nap(62)}", yield_time_ms=250, login=False)
    assert len(marked_processes(nap(62))) == 64
    last = await free.call("write_stdin", session_id=65, chars="\x03", yield_time_ms=30_000)
    assert "Process exited with code 137" in model_text(last)


async def test_a_session_that_has_ended_makes_room_before_one_that_runs(scene: Scene):
    free = scene.in_mode("danger-full-access")
    await asyncio.gather(
        *(
            free.call("exec_command", cmd=f"exec sleep {nap(63)}", yield_time_ms=250, login=False)
            for _ in range(30)
        )
    )
    script = f": {nap(60)}; {GATED}"
    ending = await free.text("exec_command", cmd=script, yield_time_ms=250, login=False)
    assert "session ID 31" in ending
    free.open_gate()
    await asyncio.gather(
        *(
            free.call("exec_command", cmd=f"exec sleep {nap(63)}", yield_time_ms=250, login=False)
            for _ in range(33)
        )
    )
    await until(lambda: marked_processes(nap(60)) == [])
    await free.call("exec_command", cmd=f"exec sleep {nap(63)}", yield_time_ms=250, login=False)
    assert len(marked_processes(nap(63))) == 64
    assert not (await free.call("write_stdin", session_id=31)).success


def patch_command(path: str, before: str = "") -> str:
    return (
        f"{before}apply_patch <<'EOF'\n"
        f"*** Begin Patch\n*** Add File: {path}\n+hello\n*** End Patch\nEOF\n"
    )


@pytest.mark.parametrize(("before", "place"), [("", "new.txt"), ("cd sub && ", "sub/new.txt")])
async def test_a_patch_in_a_heredoc_is_applied_in_process(scene: Scene, before: str, place: str):
    (scene.cwd / "sub").mkdir()
    result = await scene.call("exec_command", cmd=patch_command("new.txt", before))
    assert (model_text(result), result.success) == (
        "Wall time: · seconds\nOutput:\nSuccess. Updated the following files:\nA new.txt\n",
        True,
    )
    assert (scene.cwd / place).read_text() == "hello\n"


async def test_a_patch_as_a_quoted_argument_is_applied_in_process(scene: Scene):
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
    result = await scene.call("exec_command", cmd=f"apply_patch '{patch}'")
    assert "Success. Updated the following files:\nA new.txt" in model_text(result)
    assert (scene.cwd / "new.txt").read_text() == "hello\n"


async def test_a_bare_patch_as_a_command_is_explained(scene: Scene):
    patch = "*** Begin Patch\n*** Add File: x\n+y\n*** End Patch"
    result = await scene.call("exec_command", cmd=patch)
    assert not result.success
    assert "patch detected without explicit call to apply_patch" in model_text(result)
    assert list(scene.cwd.iterdir()) == []


async def test_a_patch_in_a_heredoc_stays_inside_the_roots(scene: Scene):
    result = await scene.but(approval="never").call(
        "exec_command", cmd=patch_command("../outside.txt")
    )
    assert (model_text(result), result.success) == (
        "Wall time: · seconds\nOutput:\npatch rejected: it writes outside the writable roots",
        False,
    )
    assert not (scene.cwd.parent / "outside.txt").exists()


async def test_without_a_sandbox_nothing_runs(scene: Scene, shared_home: Path, tmp_path: Path):
    bare = LocalExecutor(home=shared_home, environ={"PATH": str(tmp_path)})
    result = await scene.but(executor=bare).call("exec_command", cmd="touch made")
    assert not result.success
    assert model_text(result).startswith("exec_command failed: commands cannot be sandboxed: ")
    assert list(scene.cwd.iterdir()) == []
