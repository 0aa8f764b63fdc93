"""What Treadle does, in a few seconds: no key, no network, nothing left behind.

A scripted model, spoken to over real HTTP on the loopback interface, mends a failing test
in a small project: it reads, patches and runs the test in the real sandbox. Then the
thread is compacted, opened again by a new process and asked what happened, and the ledger
shows how much of each request a provider's cache could reuse.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import treadle
from treadle import Rights
from treadle.harness.events import Event, TextDelta, ToolFinished, ToolStarted, TurnCompleted
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


def run(command: str) -> tuple[Call, ...]:
    return (Call(name="exec_command", arguments={"cmd": command}),)


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
        home, project = Path(directory, "home"), Path(directory, "project")
        home.mkdir()
        (project / ".git").mkdir(parents=True)
        (project / "calc.py").write_text(CODE)
        (project / "test_calc.py").write_text(TEST)
        (project / "AGENTS.md").write_text("Run the test before you say that you are done.\n")
        thread = await mend(home, project)
        say("A new process opens the thread and asks what happened")
        subprocess.run([sys.executable, __file__, str(home), thread], check=True)  # noqa: S603, ASYNC221
        await show_ledger(home, thread)


async def mend(home: Path, project: Path) -> str:
    say("make test_calc.py pass")
    model = ScriptedModel(MENDING, "demo")
    async with treadle.Thread.open(
        model=model,
        cwd=project,
        home=home,
        tools=None,
        rights=Rights(sandbox="workspace-write", approval="never"),
    ) as thread:
        async for event in thread.run("make test_calc.py pass"):
            tell(event)
        say("What the model saw last")
        print(treadle.layout(thread.request(), thread.registry), end="")
        say("The thread is compacted: one summary, and what you said word for word")
        compacted = await thread.compact()
        print(treadle.layout(thread.request(), thread.registry), end="")
        print(f"{compacted.tokens_before} tokens became {compacted.tokens_after}")
    await model.close()
    return thread.id


async def recall(home: Path, thread_id: str) -> None:
    """What the second process does."""
    model = ScriptedModel(LATER, "demo")
    async with treadle.Thread.open(thread_id, model=model, home=home, tools=None) as thread:
        async for event in thread.run("what did you do?"):
            tell(event)
    await model.close()


def tell(event: Event) -> None:
    match event:
        case TextDelta(text):
            print(text, end="", flush=True)
        case ToolStarted(arguments=arguments):
            print(f"\n  $ {arguments[:90]}")
        case ToolFinished(output=output):
            last = output.rstrip().splitlines()[-1] if output.strip() else ""
            print(f"    {last[:90]}")
        case TurnCompleted(status=status, usage=usage):
            cached = usage.cached_input_tokens or 0
            print(f"\n  {status}: {usage.input_tokens} tokens read, {cached} of them cached")


async def show_ledger(home: Path, thread_id: str) -> None:
    say("The ledger: what each request shared with the one before, and why not")
    store = await treadle.SqliteStore.open(home)
    index = SqliteIndex(store, home)
    print("request  epoch   bytes  shared     %  reason")
    for row in await index.rows(thread_id):
        share = 100 * row.shared_size / row.size
        print(
            f"{row.turn}.{row.step:<6} {row.epoch:>5} {row.size:>7} {row.shared_size:>7} "
            f"{share:>5.1f}  {row.reason or ''}"
        )
    await index.close()
    await store.close()
    print("\nThe model was scripted (its answers stand in examples/demo.py).")
    print("With a real one:  OPENAI_API_KEY=… .venv/bin/treadle exec 'explain this repository'")


def say(text: str) -> None:
    print(f"\n── {text}\n", flush=True)


if __name__ == "__main__":
    asyncio.run(recall(Path(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 2 else main())
