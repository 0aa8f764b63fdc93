"""A day's work in one thread, as the pictures of the documentation show it."""

from __future__ import annotations

import struct
import zlib

from tests.golden.drive import (
    Answer,
    BeforeToolCall,
    Call,
    Hooks,
    HookSays,
    LocalImage,
    Stage,
    Tokens,
    call,
    freeform,
)

__all__ = ["mending"]

DARK, LIGHT = b"\x24\x50\x8c", b"\xf0\xe8\xd8"
PATCH = """*** Begin Patch
*** Update File: src/cache.py
@@
 def key(request):
-    return request.model
+    # The tools are a part of the prefix, too.
+    return (request.model, request.tools)
*** Add File: tests/test_cache.py
+from src.cache import key
+
+
+def test_tools_are_part_of_the_key(request_with):
+    assert key(request_with("a")) != key(request_with("b"))
*** End Patch"""
MODULE = '''"""Keys of cached prefixes."""


def key(request):
    return request.model


def expires(entry, now):
    return entry.time + entry.lifetime < now
'''
RULES = "# Rules\n\n- Run the tests before you say that you are done.\n"
NEW_RULES = "# Rules\n\n- Tests first.\n- Say what you did in one line.\n"


def picture(side: int = 48) -> bytes:
    """Return a small picture: a square with a darker diagonal, as PNG."""
    rows = b"".join(
        b"\0" + b"".join(DARK if abs(x - y) < 6 else LIGHT for x in range(side))
        for y in range(side)
    )
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def run(command: str) -> Call:
    return call("exec_command", cmd=command, login=False)


def says(text: str = "", *calls: Call, reasoning: str = "") -> Answer:
    """An answer whose usage is counted, with what the provider's cache would have held."""
    return Answer(text=text, calls=calls, reasoning=reasoning, usage=Tokens())


async def mending(stage: Stage) -> None:
    """A day's work: commands, a patch, a picture, a hook, a compaction, rules, another model."""
    stage.facts('apply_patch = "freeform"', "images = true", model="sonata")
    stage.file("src/cache.py", MODULE)
    stage.file("AGENTS.md", RULES)
    image = stage.file("dot.png", picture())
    hooks = Hooks()

    async def guard(event: BeforeToolCall) -> HookSays | None:
        return (
            HookSays(block="deleting is not allowed here") if "rm -rf" in event.arguments else None
        )

    hooks.on(BeforeToolCall, guard)
    model = stage.model(
        says("", run("cat src/cache.py"), reasoning="The keys come first."),
        says(
            "The key ignores the tools; a changed tool list would hit a stale prefix.",
            run("grep -rn 'key(' src | head"),
        ),
        says("", freeform("apply_patch", PATCH), reasoning="A tuple is enough."),
        says("", run("seq 1 400")),
        says("Mended: the key has the tools in it, and a test shows it."),
        says("", run("rm -rf build")),
        says("I left `build` alone, as you want."),
        says("It is a small dark square."),
        says("The key of the cache ignored the tools. It has them now, and a test shows it."),
        says("", run("cat tests/test_cache.py")),
        says("The tests go first from now on."),
        name="sonata",
    )
    async with stage.thread(model, hooks=hooks, title="Mend the cache key") as thread:
        await stage.turn(thread, "The cache serves stale answers after tools change. Mend it.")
        await stage.turn(thread, "Clean up what the build left.")
        await stage.turn(thread, "What is in this picture?", LocalImage(image))
        await stage.fold(thread)
        stage.file("AGENTS.md", NEW_RULES)
        await stage.turn(thread, "The rules have changed. Which are new?")
    smaller = stage.model(
        says("", run("git log --oneline | head -3")),
        says("Yes: **shared** bytes first, then the new ones.\n\n```python\nkey(request)\n```"),
        says("Gladly."),
        name="sonata-mini",
    )
    async with stage.thread(smaller, thread.id, hooks=hooks) as again:
        await stage.turn(again, "Does the prefix stay the same?")
        await stage.turn(again, "Thanks.")
