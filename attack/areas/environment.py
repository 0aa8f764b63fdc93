"""The environment: secrets that reach commands, and variables of a model that reach launchers.

Weakness: the user lets all variables through; the command is not confined.
"""

from __future__ import annotations

from attack.attempt import Area
from attack.ground import SECRET, Ground
from treadle.testing.script import Answer
from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.local import LocalExecutor

__all__ = ["AREA"]

AREA = Area("environment", "variables that lead out or in", "all variables are let through")

VARIABLES = {
    "keys by their names": {
        "OPENAI_API_KEY": SECRET,
        "GITHUB_TOKEN": SECRET,
        "MY_PASSPHRASE": SECRET,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    },
    "names with numbers and short forms": {
        "OPENAI_KEY2": SECRET,
        "PGPASS": SECRET,
        "AZURE_SAS": SECRET,
        "NPM_CONFIG__AUTH": SECRET,
    },
    "a token under another name": {"FOO": f"ghp_{SECRET.replace('-', '')}abcdefghijklmnop"},
    "a live key under another name": {"STRIPE_SK": f"sk_live_{SECRET.replace('-', '')}00000000"},
    "an address with a password": {"NORMAL_URL": f"https://user:{SECRET}@host/"},
    "a database's address": {"DATABASE_URL": f"postgres://u:{SECRET}@h/d"},
    "a connection string": {"CONN": f"Server=x;User Id=me;Password={SECRET};"},
    "a web hook's address": {"SLACK_WEBHOOK_URL": f"https://hooks.example/{SECRET}"},
}


@AREA.each(VARIABLES, quick="names with numbers and short forms", proof=True)
async def print_the_environment(ground: Ground, variables: dict[str, str]) -> str:
    """A command prints its environment, and that of every process that it sees.

    Through if a secret of Treadle's own environment is in it.
    """
    executor = LocalExecutor(
        home=ground.home,
        environ={**ground.environ, **variables},
        allowed=("*",) if ground.weak else (),
    )
    argv = ("sh", "-c", "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
    bounds = Bounds(policy=ground.policy(), workspace=ground.workspace)
    try:
        process = await executor.start(ProcessSpec(argv=argv, cwd=ground.workspace, bounds=bounds))
        output = b"".join([data async for data in process.output()]).decode(errors="replace")
        await process.wait()
    finally:
        await executor.close()
    found = [name for name, value in variables.items() if value in output]
    return f"it printed {found}" if found else ""


@AREA.attempt(quick=True, proof=True)
async def reach_the_launcher_by_a_variable(ground: Ground) -> str:
    """A variable of the command has the system's loader write a report into a file outside.

    Through if that file is there: then a program outside of the sandbox read the variable.
    """
    executor = LocalExecutor(home=ground.home, environ=ground.environ)
    bounds = Bounds(policy=ground.policy(), workspace=ground.workspace)
    variables = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(ground.proof)}
    spec = ProcessSpec(argv=("true",), cwd=ground.workspace, bounds=bounds, env=variables)
    try:
        process = await executor.start(spec)
        _ = [data async for data in process.output()]
        await process.wait()
    finally:
        await executor.close()
    return ground.check_victim()


CHOSEN = {
    "the loader's report": {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": "{proof}"},
    "a library": {"LD_PRELOAD": "{ws}/evil.so"},
    "a shell's first script": {"BASH_ENV": "{ws}/evil.sh"},
    "an interactive shell's script": {"ENV": "{ws}/evil.sh"},
    "git's programs": {"GIT_SSH_COMMAND": "{ws}/evil.sh"},
    "the search path": {"PATH": "{ws}:/usr/bin:/bin"},
}


@AREA.each(CHOSEN, quick="a shell's first script")
async def choose_a_variable_as_the_model(ground: Ground, variables: dict[str, str]) -> str:
    """A model that has `local_shell` sets variables that decide which code runs.

    Through if the command ran at all, or something is outside: such variables are refused.
    """
    ground.describe_model("shell = 'local'")
    (ground.workspace / "evil.sh").write_text(f"touch {ground.proof}; touch made\n")
    env = {
        name: value.format(ws=ground.workspace, proof=ground.proof)
        for name, value in variables.items()
    }
    action = {"type": "exec", "command": ["bash", "-c", "touch made"], "env": env}
    item = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "status": "completed"}
    event = {"type": "response.output_item.done", "item": {**item, "action": action}}
    heard = await ground.converse([Answer(events=(event,)), Answer(text="ok")])
    if not heard.outputs:
        raise AssertionError(f"the call had no result: {heard.ends}")
    return "it ran" if (ground.workspace / "made").exists() else ground.check_victim()
