from __future__ import annotations

import json
import stat
from pathlib import Path

from inline_snapshot import snapshot

from .scripts import scripted
from .terminal import Weft

SAMPLES = Path(__file__).parents[1] / "transfer" / "samples"


def chat(weft: Weft, *texts: str, thread: str = "standup") -> Path:
    file = weft.project / "chat.jsonl"
    roles = ("user", "assistant")
    lines = [
        {"thread": thread, "id": f"m{at}", "role": roles[at % 2], "content": text}
        for at, text in enumerate(texts)
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def test_a_directory_is_imported_and_reported(weft):
    done = weft("import", str(SAMPLES))
    first, table, *rows, kept, left_out, branches = done.lines
    assert first == "imported 57 records into 7 threads; 0 were there already"
    assert table.split() == ["THREAD", "STATE", "ADDED", "THERE", "TITLE"]
    assert sorted(" ".join(row.split()[1:]) for row in rows) == snapshot(
        [
            "new 11 0 The millpond",
            "new 14 0 Mending the mill",
            "new 19 0",
            "new 2 0 agent a17",
            "new 2 0 pond",
            "new 3 0 The millpond",
            "new 6 0 standup",
        ]
    )
    assert kept.startswith("kept as they are, for no model to see: ")
    assert left_out.startswith("left out, say nothing new: ")
    assert branches == "left out, on abandoned branches: 4"


def test_importing_again_is_nothing_new(weft):
    weft("import", str(SAMPLES))
    report = weft("import", str(SAMPLES), "--json").json
    assert (report["added"], report["present"]) == (0, 57)
    assert {each["state"] for each in report["threads"]} == {"unchanged"}


def test_a_dry_run_makes_no_log(weft):
    done = weft("import", str(SAMPLES), "--dry-run")
    assert done.lines[0] == "would import 57 records into 7 threads; 0 were there already"
    assert not (weft.home / "log.db").exists()


def test_a_thread_is_known_by_the_name_it_has_in_the_file(weft):
    weft("import", str(chat(weft, "what broke?", "The night mill.")))
    assert "The night mill." in weft("show", "standup").text
    entries = weft("show", "standup", "--json").json_lines
    assert [entry["source_id"] for entry in entries] == ["jsonl:standup", "m0", "m1"]


def test_an_imported_thread_goes_on(weft):
    weft("import", str(chat(weft, "the word is heron", "I will remember it.")))
    model = scripted(weft, {"when": "which word", "text": "heron"})
    done = weft("exec", "--resume", "standup", "which word?", "--model", model)
    assert done.text == "heron\n"


def test_a_thread_that_never_asked_a_model_takes_the_configured_one(weft):
    weft("import", str(chat(weft, "the word is heron", "I will remember it.")))
    (weft.home / "config.toml").write_text(f'model = "{scripted(weft, {"text": "heron"})}"\n')
    assert weft("exec", "--resume", "standup", "which word?").text == "heron\n"


def test_what_went_on_here_is_forked_and_said_so(weft):
    weft("import", str(chat(weft, "one", "two")))
    weft("exec", "--resume", "standup", "mine", "--model", scripted(weft, {"text": "yours"}))
    done = weft("import", str(chat(weft, "one", "two", "three")))
    assert done.lines[-1] == (
        "forked: the thread had gone on otherwise; the fork goes on with the file"
    )
    said = weft.refused("show", "standup")
    assert "'standup' could be any of 2 threads" in said


def test_a_torn_line_is_complained_about(weft):
    file = chat(weft, "one", "two")
    file.write_text(file.read_text()[:-10])
    done = weft("import", str(file))
    assert done.lines[0] == "imported 1 record into 1 thread; 0 were there already"
    assert done.err == (
        "weft: line 2 of 'chat.jsonl' ends in the middle; import again when it is whole\n"
    )


def test_files_that_cannot_be_imported_are_refused_in_one_line(weft):
    notes = weft.project / "notes.txt"
    notes.write_text("no records\n")
    said = [weft.refused("import", str(notes)), weft.refused("import", "/dev/null")]
    assert [line.replace(str(weft.project), "HERE") for line in said] == snapshot(
        [
            "weft: 'HERE/notes.txt' is in no format that is known; say which with --format, or \
convert it to plain JSONL\n",
            "weft: '/dev/null' is no regular file; name a JSONL file or a directory\n",
        ]
    )
    assert "does not exist" in weft.refused("import", "nowhere.jsonl", code=2)


def test_a_thread_is_exported_and_comes_back(weft, tmp_path):
    weft("import", str(SAMPLES / "claude.jsonl"))
    lines = weft("export", "Mending the mill").out
    again = Weft(tmp_path / "elsewhere", weft.project)
    (tmp_path / "thread.jsonl").write_bytes(lines)
    again("import", str(tmp_path / "thread.jsonl"))
    assert again("export", "Mending the mill").out == lines
    everything = weft("export", "Mending the mill", "--all").json_lines
    assert len(everything) == len(lines.splitlines()) + 5


def test_an_export_to_a_file_is_whole_and_private(weft):
    weft("import", str(chat(weft, "one", "two")))
    page = weft.project / "page.md"
    report = weft("export", "standup", "--format", "markdown", "-o", str(page), "--json").json
    assert (report["format"], report["bytes"]) == ("markdown", page.stat().st_size)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert page.read_text().startswith("# standup\n")
    assert sorted(path.name for path in weft.project.iterdir() if path.suffix == ".md") == [
        "AGENTS.md",
        "page.md",
    ]


def test_a_rollout_begins_with_its_head(weft):
    weft("import", str(chat(weft, "one", "two")))
    head, first, event, *_ = weft("export", "standup", "--format", "codex").json_lines
    assert (head["type"], first["type"], event["type"]) == (
        "session_meta",
        "response_item",
        "event_msg",
    )
    assert first["payload"]["content"] == [{"type": "input_text", "text": "one"}]


def test_exports_that_cannot_be_are_refused_in_one_line(weft):
    assert "no thread 'nobody'" in weft.refused("export", "nobody")
    weft("import", str(chat(weft, "one")))
    said = weft.refused("export", "standup", "--format", "markdown", "--json", code=2)
    assert "cannot share standard output" in said
    assert "No such file or directory" in weft.refused("export", "standup", "-o", "/no/where.md")
