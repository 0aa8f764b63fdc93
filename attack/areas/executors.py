"""Machines that are not ours: far ends of the pipe that lie, and archives of files that lie.

Each far end is a small program at the end of a real pipe. Weakness: it may send as much at once
as it likes, and names in an archive are taken as they are.
"""

from __future__ import annotations

import io
import resource
import sys
import tarfile
from pathlib import Path

from attack.attempt import Area
from attack.ground import Ground
from treadle.executors import unpack_files
from treadle.sandbox.policy import SandboxPolicy
from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.pipe import PipeExecutor, pipe_executor
from treadle.tools.pipe.archive import far_archive

__all__ = ["AREA"]

far_archive()  # reads our own files, which the other user may have no right to

AREA = Area("executors", "machines that are not ours", "a far end may send what it likes")

LIAR = """
import base64, json, os, sys
out = sys.stdout.buffer
def send(message):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    out.write(len(data).to_bytes(4, "big") + data)
    out.flush()
out.write(b"\\0treadle far end\\n")
hello = {"version": 1, "python": "3.11.0", "pid": 1, "cwd": "/", "home": "/", "shell": "bash"}
send(hello)
def take(size):
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data)) or sys.exit()
    return data
while True:
    data = take(4)
    while b'{' not in data[:1] and int.from_bytes(data[-4:], "big") > 100000:
        data = data[1:] + take(1)
    asked = json.loads(take(int.from_bytes(data, "big")))
    lie(asked["number"], asked["operation"]["type"])
"""


async def _reach(ground: Ground, lie: str) -> PipeExecutor:
    """Connect to a far end that answers each request with `lie`."""
    script = ground.top / "liar.py"
    setup = "ARCHIVE = int(sys.argv[1])\nleft = ARCHIVE\nwhile left:\n"
    setup += "    left -= len(os.read(0, min(left, 65536)))\n"
    head, _, tail = LIAR.partition('out.write(b"\\0treadle')
    told = 'out.write(b"\\0treadle' + tail
    script.write_text(f"{head}{setup}def lie(number, kind):\n    {lie}\n{told}")
    size = len(far_archive())
    return await PipeExecutor.connect((sys.executable, str(script), str(size)), name="the liar")


def _bounds(ground: Ground) -> Bounds:
    return Bounds(policy=SandboxPolicy(mode="danger-full-access"), workspace=ground.workspace)


@AREA.attempt(quick=True, proof=True)
async def send_more_output_than_was_asked_for(ground: Ground) -> str:
    """A far end answers a request for some output with a megabyte of it.

    Through if the megabyte is taken.
    """
    facts = vars(pipe_executor)
    usual = facts["CHUNK"]
    if ground.weak:
        facts["CHUNK"] = 1 << 30
    lie = 'send({"number": number, "data": base64.b64encode(b"x" * (1 << 20)).decode(), "code": 0})'
    try:
        executor = await _reach(ground, lie)
        spec = ProcessSpec(argv=("true",), cwd=ground.workspace, bounds=_bounds(ground))
        process = await executor.start(spec)
        try:
            data = await anext(process.output())
        except ConnectionError:
            return ""
        finally:
            await executor.close()
    finally:
        facts["CHUNK"] = usual
    return f"{len(data)} bytes were taken at once"


@AREA.attempt()
async def send_more_of_a_file_than_was_asked_for(ground: Ground) -> str:
    """A far end answers a request for ten bytes of a file with a megabyte.

    Through if more than ten bytes are taken.
    """
    lie = 'send({"number": number, "data": base64.b64encode(b"x" * (1 << 20)).decode()})'
    executor = await _reach(ground, lie)
    try:
        data = await executor.read(Path("/x"), bounds=_bounds(ground), limit=10)
    except ConnectionError:
        return ""
    finally:
        await executor.close()
    return f"{len(data)} bytes were taken"


@AREA.attempt()
async def announce_a_message_of_four_gigabytes(ground: Ground) -> str:
    """A far end announces a message of four gigabytes and sends without end.

    Through if the memory of this process grows by more than 300 MB, or the call goes on.
    """
    lie = 'out.write(b"\\xff" * 4); [out.write(b"x" * 65536) for _ in range(1 << 14)]'
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    executor = await _reach(ground, lie)
    try:
        await executor.read(Path("/x"), bounds=_bounds(ground))
    except ConnectionError:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        return f"memory grew by {grown} kB" if grown > 300_000 else ""
    finally:
        await executor.close()
    return "the call went on"


@AREA.attempt()
async def answer_in_the_name_of_another_call(ground: Ground) -> str:
    """A far end answers what nobody has asked, and the next question before it is asked.

    Through if a call gets an answer that was sent before it was asked.
    """
    lie = (
        '[send({"number": n, "text": "forged"}) for n in (number + 1, number + 2, -1, 1 << 40)]; '
        'send({"number": number, "text": "first"})'
    )
    executor = await _reach(ground, lie)
    try:
        patch = "*** Begin Patch\n*** End Patch"
        bounds = _bounds(ground)
        said = [await executor.patch(patch, cwd=ground.workspace, bounds=bounds) for _ in "ab"]
    finally:
        await executor.close()
    return f"calls were told {said}" if said != ["first", "first"] else ""


NAMES = {
    "up": "files/../carried",
    "absolute": "files//{victim}",
    "dots within": "files/a/../../carried",
    "git's hooks": "files/.git/hooks/post-checkout",
    "git's hooks in other letters": "files/.GIT/hooks/post-checkout",
}


@AREA.each(NAMES, quick="up")
def carry_a_file_out_of_its_directory(ground: Ground, name: str) -> str:
    """An archive of moved files has a name that leads out, or into git's own files.

    Through if a file is made outside, or one that git would run.
    """
    target = ground.top / "moved"
    (target / unpack_files.PARTS).mkdir(parents=True)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo(name.format(victim=ground.victim))
        member.size = 6
        archive.addfile(member, io.BytesIO(b"gotcha"))
    (target / unpack_files.PARTS / "0").write_bytes(data.getvalue())
    usual = unpack_files.parts_of
    if ground.weak:
        unpack_files.parts_of = lambda name: name.split("/")
    try:
        unpack_files.main(str(target))
    except SystemExit:
        pass
    finally:
        unpack_files.parts_of = usual
    made = [each for each in ground.top.rglob("*") if each.is_file() and each.name != "liar.py"]
    said = [str(each) for each in made if each.read_bytes() == b"gotcha"]
    return f"made {said}" if said else ""
