"""What Weft does, in ten seconds: no key, no network, nothing left behind.

A thread is opened in a small project and takes three turns. The answers are written
in this file; no model is called. After each request you see what the model would see,
and at the end the ledger shows how much of each request a provider's cache could reuse.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import weft
from weft.entries import Inline, Reason
from weft.items import FunctionCall, FunctionCallOutput, Item, Message, OutputText, encode_item
from weft.prompt.summary import summary_message
from weft.store.contract import LedgerRow
from weft.wire import Json


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as directory:
        home, project = Path(directory, "home"), Path(directory, "project")
        home.mkdir()
        (project / ".git").mkdir(parents=True)
        (project / "AGENTS.md").write_text("Run the tests before you say that you are done.\n")
        async with weft.Thread.open(model="openai:gpt-5.5", cwd=project, home=home) as thread:
            rows = await work(thread, project)
        ledger(rows)


async def work(thread: weft.Thread, project: Path) -> list[LedgerRow]:
    rows = []

    title("A turn: the first request carries the whole context")
    await thread.admit("make the failing test pass")
    rows.append(await send(thread, call("rg -n 'def add' .")))
    await thread.append(FunctionCallOutput(call_id="c1", output="calc.py:1:def add(a, b):"))
    rows.append(await send(thread, answer("Fixed: `add` subtracted. The tests pass.")))
    await thread.finish()

    title("AGENTS.md changes: only the difference is appended, before the new input")
    (project / "AGENTS.md").write_text("Run the tests, and keep a changelog.\n")
    await thread.admit("now add a changelog")
    rows.append(await send(thread, answer("Added CHANGELOG.md.")))
    await thread.finish()

    title("Compaction: a new base; the first context keeps its bytes")
    await thread.admit("what is left to do?")
    live = len(thread.view.rows) - 1
    summary = inline(summary_message("The add bug is fixed; CHANGELOG.md exists."))
    await thread.rebase(live, reason=Reason.COMPACTION, after=[summary])
    rows.append(await send(thread, answer("Nothing: both tasks are done.")))
    await thread.finish()

    title("The last turn is taken back")
    await thread.rollback(1)
    await thread.admit("write the release notes")
    rows.append(await send(thread, answer("Here they are.")))
    return rows


async def send(thread: weft.Thread, *answers: Item) -> LedgerRow:
    """Show the request, note it in the log and the ledger, and record an answer."""
    request = thread.request()
    print(weft.layout(request, thread.registry))
    row = await thread.sent(request)
    await thread.received(answers)
    return row


def call(command: str) -> Item:
    return FunctionCall(name="exec_command", arguments=json.dumps({"cmd": command}), call_id="c1")


def answer(text: str) -> Item:
    return Message(role="assistant", content=(OutputText(text),))


def inline(message: Message) -> Inline:
    return Inline(body=Json(encode_item(message)))


def title(text: str) -> None:
    print(f"\n── {text}\n")


def ledger(rows: list[LedgerRow]) -> None:
    title("The ledger: what each request shared with the one before, and why not")
    print("request  epoch   bytes  shared     %  reason")
    for row in rows:
        share = 100 * row.shared_size / row.size
        print(
            f"{row.turn}.{row.step:<6} {row.epoch:>5} {row.size:>7} {row.shared_size:>7} "
            f"{share:>5.1f}  {row.reason or ''}"
        )
    print("\nThe answers above were written in examples/demo.py; no model was called.")
    print("Try it on your own project:  .venv/bin/weft prompt 'explain this repository'")


if __name__ == "__main__":
    asyncio.run(main())
