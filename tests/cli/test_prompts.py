from __future__ import annotations

import hashlib
import sys

from inline_snapshot import snapshot

from treadle.models.catalog import Catalog
from treadle.prompt.imported_prompts import ImportedPrompts
from treadle.prompt.instructions import base_instructions, compaction_prompt

TEXTS = {
    "models/gpt-5.5.md": "You are imported.\n",
    "compact.md": "Sum up.",
    "summary_prefix.md": "So far:",
}


def imported(treadle) -> None:
    ImportedPrompts(treadle.home).replace(TEXTS, source="codex", version="codex-cli 1.2.3")


def test_the_list_says_what_is_in_force(treadle):
    listed = treadle("prompts", "--json").json
    assert [(prompt["name"], prompt["source"]) for prompt in listed] == [
        ("general", "treadle"),
        ("reasoning", "treadle"),
        ("codex", "treadle"),
        ("small", "treadle"),
        ("compact", "treadle"),
        ("summary_prefix", "treadle"),
    ]
    imported(treadle)
    (treadle.home / "prompts/codex/models/gpt-5.5.md").write_text("changed")
    lines = treadle("prompts").lines
    assert lines[0].split() == ["NAME", "FROM", "BYTES", "SHA256", "STATE"]
    assert [" ".join(line.split()) for line in lines[-3:]] == snapshot(
        [
            "compact codex-cli 1.2.3 7 cb51c891f4e2 in use",
            "summary_prefix codex-cli 1.2.3 7 0bf07c1a02b2 in use",
            "gpt-5.5 codex-cli 1.2.3 7 988d65fe90be CHANGED since the import; import again",
        ]
    )


def test_a_text_is_printed_byte_for_byte(treadle):
    general = treadle("prompts", "show", "general").out
    assert general == base_instructions(Catalog.load().profile("unheard-of")).encode()
    imported(treadle)
    assert treadle("prompts", "show", "openai:gpt-5.5").out == b"You are imported.\n"
    assert treadle("prompts", "show", "compact").out == b"Sum up."
    assert treadle("prompts", "show", "compact", "--json").json == {
        "name": "compact",
        "source": "codex-cli 1.2.3",
        "digest": f"sha256:{hashlib.sha256(b'Sum up.').hexdigest()}",
        "text": "Sum up.",
    }
    assert treadle.refused("prompts", "show", "nonsense") == (
        "treadle: no text 'nonsense'; `treadle prompts` lists them; the name of a model works too\n"
    )


def test_imported_instructions_are_in_the_next_request(treadle):
    imported(treadle)
    assert treadle("prompt", "hi", "--json").json["instructions"] == "You are imported.\n"


def test_removing_goes_back_to_our_own(treadle):
    imported(treadle)
    assert treadle("prompts", "remove", "--json").json == {"removed": True}
    assert treadle("prompts", "show", "compact").out == compaction_prompt().encode()
    assert treadle("prompts", "remove").text == "nothing was imported\n"


def test_a_real_codex_is_imported_with_progress(treadle):
    done = treadle("prompts", "import", "--json")
    report = done.json
    assert report["directory"] == str(treadle.home / "prompts/codex")
    assert done.err.splitlines() == [
        f"reading the models of {report['version']}",
        "capturing a compaction",
        f"kept {report['files']} texts",
    ]
    listed = treadle("prompts", "--json").json
    assert {prompt["name"] for prompt in listed} > {*report["models"]}
    assert all(prompt["intact"] for prompt in listed)


def test_a_binary_that_is_no_codex_is_refused(treadle):
    said = treadle.refused("prompts", "import", "--codex", sys.executable)
    assert said.startswith("reading the models of Python 3.")
    assert "debug models --bundled` ended with" in said
    assert "does not exist" in treadle.refused("prompts", "import", "--codex", "nowhere", code=2)
    assert treadle("prompts", "remove").text == "nothing was imported\n"


def test_a_text_of_the_user_s_own_is_used_and_outlives_an_import(treadle):
    file = treadle.project / "mine.md"
    file.write_text("Do as I say.\n")
    treadle("prompts", "add", "gpt-5.5", str(file))
    assert treadle("prompts", "show", "openai:gpt-5.5").out == b"Do as I say.\n"
    assert treadle("prompt", "hi", "--json").json["instructions"] == "Do as I say.\n"
    told = {each["name"]: each["source"] for each in treadle("prompts", "--json").json}
    assert (told["gpt-5.5"], told["compact"]) == ("your file", "treadle")
    kept = ImportedPrompts(treadle.home)
    kept.replace({"models/gpt-5.4.md": "theirs"}, source="codex", version="codex-cli 0.163.0")
    told = {each["name"]: each["source"] for each in treadle("prompts", "--json").json}
    assert (told["gpt-5.5"], told["gpt-5.4"]) == ("your file", "codex-cli 0.163.0")
    assert treadle("prompts", "show", "gpt-5.5").out == b"Do as I say.\n"
    refused = treadle.refused("prompts", "add", "openai:gpt-5.5", str(file), code=2)
    assert "leave its provider out" in refused
