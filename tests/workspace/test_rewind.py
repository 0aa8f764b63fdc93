from __future__ import annotations

import os

import pytest

from tests.harness.scenes import hear
from treadle.core.errors import NotFound

from .scenes import command, open_worker, patch, project_of, tree, work


async def test_what_commands_and_patches_did_is_undone(tmp_path):
    project = project_of(tmp_path)
    (project / "changed.txt").write_text("old\n")
    (project / "patched.txt").write_text("one\ntwo\n")
    (project / "removed").mkdir()
    (project / "removed/deep.txt").write_text("deep")
    (project / "link").symlink_to("changed.txt")
    (project / "tool.sh").write_text("#!/bin/sh\n")
    before = tree(project)
    turn = (
        patch(
            "*** Update File: patched.txt", "@@", "-two", "+three", "*** Add File: new/a.md", "+x"
        ),
        command("echo new > changed.txt; rm -r removed; ln -sfn tool.sh link; chmod +x tool.sh"),
        command("mkdir -p made/empty; echo y > made/b.txt"),
    )
    async with open_worker(tmp_path, turn) as thread:
        await hear(thread, "work")
        after = tree(project)
        plan = await thread.rewinds.plan()
        assert tree(project) == after
        assert [(each.action, each.path) for each in plan.files.changes] == [
            ("restore", "changed.txt"),
            ("restore", "link"),
            ("remove", "made"),
            ("remove", "made/b.txt"),
            ("remove", "made/empty"),
            ("remove", "new"),
            ("remove", "new/a.md"),
            ("restore", "patched.txt"),
            ("create", "removed"),
            ("create", "removed/deep.txt"),
            ("restore", "tool.sh"),
        ]
        assert [turn.text for turn in plan.turns] == ["work"]
        done = await thread.rewinds.apply(plan)
        assert (done.left, done.kept) == ((), ())
        assert tree(project) == before
        assert [row for row in thread.view.rows if row.turn == 1] == []

        undo = await thread.rewinds.plan_undo()
        assert (await thread.rewinds.apply(undo)).left == ()
        assert tree(project) == after
        assert [row for row in thread.view.rows if row.turn == 1] != []
        with pytest.raises(NotFound):
            await thread.rewinds.plan_undo()


async def test_a_file_that_somebody_else_changed_is_named_and_left(tmp_path):
    project = project_of(tmp_path)
    for name in ("both", "ours", "theirs"):
        (project / name).write_text("old")
    turns = ((command("echo 1 > both; echo 1 > ours"),), (command("echo 2 > ours"),))
    async with open_worker(tmp_path, *turns) as thread:
        await hear(thread, "one")
        await thread.rewinds.plan()
        (project / "theirs").write_text("mine")
        await hear(thread, "two")
        await thread.rewinds.plan()
        (project / "both").write_text("mine, too")
        plan = await thread.rewinds.plan(2)
        assert [(each.path, each.risky) for each in plan.files.changes] == [
            ("both", True),
            ("ours", False),
        ]
        done = await thread.rewinds.apply(plan)
        assert [each.path for each in done.kept] == ["both"]
        assert (project / "both").read_text() == "mine, too"
        assert (project / "ours").read_text() == "old"
        assert (project / "theirs").read_text() == "mine"


async def test_the_rewind_of_one_turn_leaves_the_work_of_the_turn_before(tmp_path):
    project = project_of(tmp_path)
    turns = ((command("echo 1 > a; echo 1 > b"),), (command("echo 2 > a"),))
    async with open_worker(tmp_path, *turns) as thread:
        await hear(thread, "one")
        await thread.rewinds.plan()
        (project / "b").write_text("mine")
        await hear(thread, "two")
        await thread.rewinds.apply(await thread.rewinds.plan(), conversation=False)
        assert ((project / "a").read_text(), (project / "b").read_text()) == ("1\n", "mine")
        again = await thread.rewinds.plan()
        assert again.files.actions == ()
        assert [turn.text for turn in again.turns] == ["two"]


async def test_what_was_too_large_or_ignored_is_told(tmp_path):
    project = project_of(tmp_path)
    (project / ".gitignore").write_text("*.log\nbuild/\n")
    (project / "build").mkdir()
    (project / "big.bin").write_bytes(b"0" * (9 << 20))
    turn = (command("echo > big.bin; echo > x.log; echo > build/y; echo > plain"),)
    async with open_worker(tmp_path, turn) as thread:
        await hear(thread, "work")
        files = (await thread.rewinds.plan()).files
    assert [(each.action, each.path, each.reason) for each in files.changes] == [
        ("leave", "big.bin", "it was too large to copy"),
        ("remove", "plain", ""),
    ]
    assert files.notes == ("ignored, so neither copied nor restored: build/",)


async def test_a_file_that_stops_being_ignored_is_not_taken_for_new(tmp_path):
    project = project_of(tmp_path)
    (project / ".gitignore").write_text("secret\n")
    (project / "secret").write_text("precious")
    async with open_worker(tmp_path, (command("rm .gitignore; touch made"),)) as thread:
        await hear(thread, "work")
        done = await thread.rewinds.apply(await thread.rewinds.plan())
    assert (project / "secret").read_text() == "precious"
    assert (project / ".gitignore").exists()
    assert done.left == ()


async def test_an_ignored_file_that_a_patch_changed_comes_back(tmp_path):
    project = project_of(tmp_path)
    (project / ".gitignore").write_text("*.local\n")
    (project / "my.local").write_text("one\n")
    turn = (
        command("touch made"),
        patch("*** Update File: my.local", "@@", "-one", "+two"),
        patch("*** Update File: made", "@@", "+text"),
    )
    async with open_worker(tmp_path, turn) as thread:
        await hear(thread, "work")
        assert (project / "my.local").read_text() == "two\n"
        await thread.rewinds.apply(await thread.rewinds.plan())
    assert (project / "my.local").read_text() == "one\n"
    assert not (project / "made").exists()


async def test_a_turn_that_only_reads_or_talks_keeps_nothing(tmp_path):
    (project_of(tmp_path) / "a").write_text("a")
    await work(tmp_path, (), (command("cat a; ls"),))
    assert not (tmp_path / "home/files.db").exists()


async def test_a_host_can_do_without_copies(tmp_path):
    project = project_of(tmp_path)
    async with open_worker(tmp_path, (command("echo > a"),), rewind_files=False) as thread:
        await hear(thread, "work")
        plan = await thread.rewinds.plan()
        assert plan.files.changes == ()
        await thread.rewinds.apply(plan)
    assert (project / "a").exists()


async def test_no_link_is_followed_on_the_way_back(tmp_path):
    project = project_of(tmp_path)
    (project / "sub").mkdir()
    (project / "sub/a").write_text("old")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("not ours")
    turn = (command(f"rm -r sub; ln -s {outside} sub"),)
    async with open_worker(tmp_path, turn) as thread:
        await hear(thread, "work")
        await thread.rewinds.apply(await thread.rewinds.plan())
    assert (outside / "a").read_text() == "not ours"
    assert not (project / "sub").is_symlink()
    assert (project / "sub/a").read_text() == "old"


async def test_what_changes_between_the_question_and_the_answer_is_left(tmp_path):
    project = project_of(tmp_path)
    async with open_worker(tmp_path, (command("echo 1 > a; echo 1 > b"),)) as thread:
        await hear(thread, "work")
        plan = await thread.rewinds.plan()
        (project / "a").write_text("mine")
        done = await thread.rewinds.apply(plan)
    assert done.left == ("a: it changed meanwhile",)
    assert (project / "a").read_text() == "mine"
    assert not (project / "b").exists()


async def test_names_that_are_no_text_come_back(tmp_path):
    odd = project_of(tmp_path) / os.fsdecode(b"\xff\n'x")
    odd.write_text("old")
    async with open_worker(tmp_path, (command('for f in *x; do echo > "$f"; done'),)) as thread:
        await hear(thread, "work")
        assert odd.read_text() == "\n"
        await thread.rewinds.apply(await thread.rewinds.plan())
    assert odd.read_text() == "old"
