from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot

from treadle.core.items import ExecAction, FunctionCallOutput, LocalShellCall, Unknown
from treadle.core.specs import spec_name
from treadle.core.text import TruncationPolicy
from treadle.models.profile import ModelProfile, Shell
from treadle.sandbox.approvals import Approvals, ForThread, No
from treadle.tools.builtin_tools import builtin_tools
from treadle.tools.contract import ToolResult
from treadle.tools.dispatch import Dispatch, tools_by_name
from treadle.tools.executor import ProcessSpec

from .scenes import Scene, model_text

PATCH = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"


def with_family(scene: Scene, family: Shell) -> Scene:
    profile = ModelProfile(slug="m", shell=family, truncation=TruncationPolicy("bytes", 400))
    return scene.but(tools=builtin_tools(profile))


async def test_shell_answers_in_json(scene: Scene):
    result = await with_family(scene, "shell").call(
        "shell", command=["sh", "-c", "echo out; echo err >&2"]
    )
    assert (model_text(result), result.success) == snapshot(
        ('{"output":"out\\nerr\\n","metadata":{"exit_code":0,"duration_seconds":·}}', True)
    )


async def test_shell_command_answers_in_lines(scene: Scene):
    result = await with_family(scene, "shell_command").call(
        "shell_command", command="echo out; exit 4"
    )
    assert (model_text(result), result.success) == snapshot(
        (
            """\
Exit code: 4
Wall time: · seconds
Output:
out
""",
            False,
        )
    )


async def test_shell_command_counts_lines_when_some_were_cut(scene: Scene):
    result = await with_family(scene, "shell_command").call(
        "shell_command", command="seq 1 1000", login=False
    )
    assert model_text(result) == snapshot("""\
Exit code: 0
Wall time: · seconds
Total output lines: 1000
Output:
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
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34
35
36
37
38
39
40
41
42
43
44
45
46
47
48
49
50
51
52
53
54
55
56
57
58
59
60
61
62
63
64
65
66
67
68
69
70…3493 chars truncated…51
952
953
954
955
956
957
958
959
960
961
962
963
964
965
966
967
968
969
970
971
972
973
974
975
976
977
978
979
980
981
982
983
984
985
986
987
988
989
990
991
992
993
994
995
996
997
998
999
1000
Full output: sha256:··· (use read_output)\
""")


async def test_a_command_is_ended_when_its_time_is_up(scene: Scene):
    shell = with_family(scene, "shell")
    result = await shell.call("shell", command=["sh", "-c", "echo up; sleep 30"], timeout_ms=300)
    assert (json.loads(model_text(result).replace("·", "0"))) == {
        "output": "command timed out after 300 milliseconds\nup\n",
        "metadata": {"exit_code": 124, "duration_seconds": 0},
    }
    assert not result.success


async def test_a_time_limit_in_lines(scene: Scene):
    result = await with_family(scene, "shell_command").call(
        "shell_command", command="sleep 30", timeout_ms=200
    )
    assert model_text(result) == snapshot("""\
Exit code: 124
Wall time: · seconds
Output:
command timed out after 200 milliseconds
""")


async def test_a_program_that_does_not_exist_is_an_honest_result(scene: Scene):
    shell = with_family(scene, "shell").in_mode("danger-full-access")
    result = await shell.call("shell", command=["no-such-program"])
    assert not result.success
    assert '"exit_code":127' in model_text(result)
    assert "not found" in model_text(result)


@pytest.mark.parametrize(
    ("family", "arguments", "said"),
    [
        ("shell", {"command": []}, "`command` is empty"),
        ("shell", {"command": "ls"}, "Expected `array`, got `str` - at `$.command`"),
        ("shell_command", {"command": ["ls"]}, "Expected `str`, got `array` - at `$.command`"),
    ],
)
async def test_bad_arguments_are_named(scene: Scene, family: Shell, arguments: object, said: str):
    result = await with_family(scene, family).raw(family, json.dumps(arguments))
    assert result == ToolResult(f"invalid arguments for {family}: {said}", success=False)


async def test_shell_applies_a_patch_given_as_a_command(scene: Scene):
    result = await with_family(scene, "shell").call("shell", command=["apply_patch", PATCH])
    assert model_text(result) == snapshot(
        '{"output":"Success. Updated the following files:\\nA new.txt\\n",'
        '"metadata":{"exit_code":0,"duration_seconds":·}}'
    )
    assert (scene.cwd / "new.txt").read_text() == "hello\n"


async def test_shell_command_applies_a_patch_in_a_heredoc(scene: Scene):
    result = await with_family(scene, "shell_command").call(
        "shell_command", command=f"apply_patch <<'EOF'\n{PATCH}\nEOF"
    )
    assert model_text(result) == snapshot("""\
Exit code: 0
Wall time: · seconds
Output:
Success. Updated the following files:
A new.txt
""")


async def test_the_providers_own_shell_call_is_answered(scene: Scene):
    local = with_family(scene, "local")
    (scene.cwd / "deep").mkdir()
    action = ExecAction(
        command=("sh", "-c", "pwd; echo $OURS"), working_directory="deep", env={"OURS": "yes"}
    )
    dispatch = Dispatch(tools_by_name(local.tools), local.context)
    dispatch.submit(LocalShellCall(call_id="c1", status="completed", action=action))
    dispatch.finish()
    (finished,) = [each async for each in dispatch.results()]
    output = finished.item.output
    assert isinstance(output, str)
    assert finished.item == FunctionCallOutput(call_id="c1", output=output)
    assert json.loads(output)["output"] == f"{scene.cwd}/deep\nyes\n"


async def local_call(scene: Scene, *command: str, env: dict[str, str]) -> ToolResult:
    local = with_family(scene, "local")
    action = ExecAction(command=command, env=env)
    dispatch = Dispatch(tools_by_name(local.tools), local.context)
    dispatch.submit(LocalShellCall(call_id="c1", status="completed", action=action))
    dispatch.finish()
    (finished,) = [each async for each in dispatch.results()]
    return finished.result


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_DEBUG_OUTPUT", "BASH_ENV", "ENV", "PATH"),
        *("GIT_SSH_COMMAND", "GIT_DIR", "GIT_EXTERNAL_DIFF", "IFS", "GLIBC_TUNABLES"),
        *("TREADLE_PROCESS", "BASH_FUNC_echo%%", "A=B", "", "A B"),
    ],
)
async def test_a_model_may_not_choose_what_runs_around_its_command(scene: Scene, name: str):
    result = await local_call(scene, "touch", "ran", env={name: "/tmp/evil"})
    assert not result.success
    assert repr(name) in model_text(result)
    assert not (scene.cwd / "ran").exists()


async def test_a_variable_with_a_null_byte_is_refused(scene: Scene):
    outside = scene.cwd.parent / "outside"
    outside.mkdir()
    hole = f"x\0--bind\0{outside}\0{outside}"
    result = await local_call(scene, "touch", f"{outside}/owned", env={"OURS": hole})
    assert not result.success
    spec = ProcessSpec(
        argv=("touch", f"{outside}/owned"), cwd=scene.cwd, bounds=scene.bounds, env={"OURS": hole}
    )
    with pytest.raises(ValueError, match="null byte"):
        await scene.executor.start(spec)
    assert list(outside.iterdir()) == []


async def test_what_launches_a_command_sees_nothing_of_its_environment(scene: Scene):
    outside = scene.cwd.parent / "outside"
    outside.mkdir()
    # Each program that the loader starts with these variables writes a file.
    env = {"LD_DEBUG": "statistics", "LD_DEBUG_OUTPUT": f"{outside}/trace"}
    bounds = scene.in_mode("read-only").bounds
    spec = ProcessSpec(argv=("sh", "-c", "echo $LD_DEBUG"), cwd=scene.cwd, bounds=bounds, env=env)
    process = await scene.executor.start(spec)
    output = b"".join([data async for data in process.output()])
    assert (output.splitlines()[-1:], list(outside.iterdir())) == ([b"statistics"], [])


async def test_variables_that_a_model_chose_are_shown_and_approved_with_the_command(scene: Scene):
    asked = scene.but(approval="untrusted", approvals=Approvals(scene.home))
    asked.host.answers += [ForThread(), No()]
    # By itself the command only looks, and nobody is asked.
    assert (await local_call(asked, "ls", env={})).success
    for _ in range(2):
        assert (await local_call(asked, "ls", env={"LS_COLORS": "one"})).success
    assert not (await local_call(asked, "ls", env={"LS_COLORS": "two"})).success
    assert [ask.argv for ask in asked.host.asked] == [
        ("env", "LS_COLORS=one", "ls"),
        ("env", "LS_COLORS=two", "ls"),
    ]


async def test_a_shell_call_of_an_unknown_kind_is_an_honest_result(scene: Scene):
    local = with_family(scene, "local")
    dispatch = Dispatch(tools_by_name(local.tools), local.context)
    action = Unknown(b'{"type":"other"}')  # type: ignore[arg-type]
    dispatch.submit(LocalShellCall(call_id="c1", status="completed", action=action))
    dispatch.finish()
    (finished,) = [each async for each in dispatch.results()]
    assert finished.result == ToolResult(
        "invalid arguments for local_shell: Object missing required field `command`",
        success=False,
    )


def specs(family: Shell) -> list[str]:
    profile = ModelProfile(slug="m", shell=family)
    return [spec_name(tool.spec) for tool in builtin_tools(profile)]


def test_the_profile_chooses_the_family():
    assert {
        family: specs(family)[:-3] for family in ("unified_exec", "shell_command", "shell", "local")
    } == {
        "unified_exec": ["exec_command", "write_stdin"],
        "shell_command": ["shell_command"],
        "shell": ["shell"],
        "local": ["local_shell"],
    }
