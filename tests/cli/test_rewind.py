from __future__ import annotations

from .scripts import scripted, shell


def worked(treadle) -> str:
    (treadle.project / "a").write_text("old")
    model = scripted(treadle, {"calls": [shell("echo new > a; echo new > b")]}, {"text": "Done."})
    treadle("exec", "--yolo", "--model", model, "change the files")
    return str(treadle("threads", "--json").json[0]["id"])


def test_files_come_back_with_the_turn(treadle):
    thread = worked(treadle)
    plan = treadle("rewind", "last", "--dry-run", "--json").json
    assert [(each["action"], each["path"]) for each in plan["files"]] == [
        ("restore", "a"),
        ("remove", "b"),
    ]
    assert [each["text"] for each in plan["turns"]] == ["change the files"]
    shown = treadle("rewind", "last", "--dry-run").lines
    assert shown[:3] == ["hides turn 1: change the files", "  restore   a", "  remove    b"]
    refused = treadle.refused("rewind", "last", code=2)
    assert "2 files would change, and there is no terminal to ask on" in refused
    assert (treadle.project / "a").read_text() == "new\n"

    done = treadle("rewind", "last", "--yes", "--json").json
    assert (done["thread"], sorted(done["restored"]), done["left"]) == (thread, ["a", "b"], [])
    assert (treadle.project / "a").read_text() == "old"
    assert "change the files" not in treadle("show", thread).text

    back = treadle("rewind", "last", "--undo", "--yes").lines
    assert back == ["the conversation is back", "2 paths are as before"]
    assert (treadle.project / "b").read_text() == "new\n"
    assert "change the files" in treadle("show", thread).text


def test_one_of_both_can_be_taken_back_alone(treadle):
    worked(treadle)
    assert treadle("rewind", "last", "--files", "--yes").lines == ["2 paths are as before"]
    assert (treadle.project / "a").read_text() == "old"
    assert "hidden" in treadle("rewind", "last", "--conversation").text
    assert "leave out TURNS" in treadle.refused("rewind", "last", "2", "--undo", code=2)


def test_what_somebody_else_changed_is_left_unless_it_is_named(treadle):
    worked(treadle)
    (treadle.project / "a").write_text("mine")
    done = treadle("rewind", "last", "--files", "--yes").lines
    assert done == ["1 path is as before", "left a: changed by somebody else, too"]
    assert (treadle.project / "a").read_text() == "mine"
    assert treadle("rewind", "last", "--files", "--overwrite", "--yes").text == (
        "1 path is as before\n"
    )
    assert (treadle.project / "a").read_text() == "old"
