from __future__ import annotations

import json
import stat
from pathlib import Path

from inline_snapshot import snapshot

from .scripts import scripted
from .terminal import Treadle

SAMPLES = Path(__file__).parents[1] / "transfer" / "samples"


def chat(treadle: Treadle, *texts: str, thread: str = "standup") -> Path:
    file = treadle.project / "chat.jsonl"
    roles = ("user", "assistant")
    lines = [
        {"thread": thread, "id": f"m{at}", "role": roles[at % 2], "content": text}
        for at, text in enumerate(texts)
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def test_a_directory_is_imported_and_reported(treadle):
    done = treadle("import", str(SAMPLES))
    first, table, *rows, kept, left_out, branches = done.lines
    assert first == "imported 57 records into 7 threads; 0 were there already"
    assert table.split() == ["THREAD", "STATE", "ADDED", "THERE", "TITLE", "FILE"]
    assert sorted(" ".join(row.split()[1:]) for row in rows) == snapshot(
        [
            "new 11 0 The millpond samples/openclaw.jsonl",
            "new 14 0 Mending the mill samples/claude.jsonl",
            "new 19 0 why does the mill stop? samples/codex.jsonl",
            "new 2 0 agent a17 samples/claude.jsonl",
            "new 2 0 pond samples/plain.jsonl",
            "new 3 0 The millpond samples/openclaw.jsonl",
            "new 6 0 standup samples/plain.jsonl",
        ]
    )
    assert kept.startswith("kept as they are, hidden from models: ")
    assert left_out.startswith("left out, nothing new in them: ")
    assert branches == "left out, on abandoned branches: 4"


def test_importing_again_is_nothing_new(treadle):
    treadle("import", str(SAMPLES))
    report = treadle("import", str(SAMPLES), "--json").json
    assert (report["added"], report["present"]) == (0, 57)
    assert {each["state"] for each in report["threads"]} == {"unchanged"}


def test_a_dry_run_makes_no_log(treadle):
    done = treadle("import", str(SAMPLES), "--dry-run")
    assert done.lines[0] == "would import 57 records into 7 threads; 0 were there already"
    assert not (treadle.home / "log.db").exists()


def test_a_thread_is_known_by_the_name_it_has_in_the_file(treadle):
    treadle("import", str(chat(treadle, "what broke?", "The night mill.")))
    assert "The night mill." in treadle("show", "standup").text
    entries = treadle("show", "standup", "--json").json_lines
    assert [entry["source_id"] for entry in entries] == ["jsonl:standup", "m0", "m1"]


def test_an_imported_thread_goes_on(treadle):
    treadle("import", str(chat(treadle, "the word is heron", "I will remember it.")))
    model = scripted(treadle, {"when": "which word", "text": "heron"})
    done = treadle("exec", "--resume", "standup", "which word?", "--model", model)
    assert done.text == "heron\n"


def test_a_thread_that_never_asked_a_model_takes_the_configured_one(treadle):
    treadle("import", str(chat(treadle, "the word is heron", "I will remember it.")))
    (treadle.home / "config.toml").write_text(f'model = "{scripted(treadle, {"text": "heron"})}"\n')
    assert treadle("exec", "--resume", "standup", "which word?").text == "heron\n"


def test_what_went_on_here_is_forked_and_said_so(treadle):
    treadle("import", str(chat(treadle, "one", "two")))
    treadle("exec", "--resume", "standup", "mine", "--model", scripted(treadle, {"text": "yours"}))
    done = treadle("import", str(chat(treadle, "one", "two", "three")))
    assert done.lines[-1] == (
        "forked: the thread had continued in another way; the fork continues the file"
    )
    said = treadle.refused("show", "standup")
    assert "'standup' matches 2 threads" in said


def test_a_torn_line_is_complained_about(treadle):
    file = chat(treadle, "one", "two")
    file.write_text(file.read_text()[:-10])
    done = treadle("import", str(file))
    assert done.lines[0] == "imported 1 record into 1 thread; 0 were there already"
    assert done.err == (
        "treadle: line 2 of 'chat.jsonl' ends in the middle; import again when it is complete\n"
    )


def test_files_that_cannot_be_imported_are_refused_in_one_line(treadle):
    notes = treadle.project / "notes.txt"
    notes.write_text("no records\n")
    said = [treadle.refused("import", str(notes)), treadle.refused("import", "/dev/null")]
    assert [line.replace(str(treadle.project), "HERE") for line in said] == snapshot(
        [
            "treadle: 'HERE/notes.txt' is not in a known format; name the format with --format, or \
convert it to plain JSONL\n",
            "treadle: '/dev/null' is not a regular file; name a JSONL file or a directory\n",
        ]
    )
    assert "does not exist" in treadle.refused("import", "nowhere.jsonl", code=2)


def test_a_thread_is_exported_and_comes_back(treadle, tmp_path):
    treadle("import", str(SAMPLES / "claude.jsonl"))
    lines = treadle("export", "Mending the mill").out
    again = Treadle(tmp_path / "elsewhere", treadle.project)
    (tmp_path / "thread.jsonl").write_bytes(lines)
    again("import", str(tmp_path / "thread.jsonl"))
    assert again("export", "Mending the mill").out == lines
    everything = treadle("export", "Mending the mill", "--all").json_lines
    assert len(everything) == len(lines.splitlines()) + 5


def test_an_export_to_a_file_is_whole_and_private(treadle):
    treadle("import", str(chat(treadle, "one", "two")))
    page = treadle.project / "page.md"
    report = treadle("export", "standup", "--format", "markdown", "-o", str(page), "--json").json
    assert (report["format"], report["bytes"]) == ("markdown", page.stat().st_size)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert page.read_text().startswith("# standup\n")
    assert sorted(path.name for path in treadle.project.iterdir() if path.suffix == ".md") == [
        "AGENTS.md",
        "page.md",
    ]


def test_a_rollout_begins_with_its_head(treadle):
    treadle("import", str(chat(treadle, "one", "two")))
    head, first, event, *_ = treadle("export", "standup", "--format", "codex").json_lines
    assert (head["type"], first["type"], event["type"]) == (
        "session_meta",
        "response_item",
        "event_msg",
    )
    assert first["payload"]["content"] == [{"type": "input_text", "text": "one"}]


def test_exports_that_cannot_be_are_refused_in_one_line(treadle):
    assert "no thread 'nobody'" in treadle.refused("export", "nobody")
    treadle("import", str(chat(treadle, "one")))
    said = treadle.refused("export", "standup", "--format", "markdown", "--json", code=2)
    assert "cannot share standard output" in said
    assert "No such file or directory" in treadle.refused("export", "standup", "-o", "/no/where.md")
