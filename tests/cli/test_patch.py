from __future__ import annotations

import pytest

PATCH = b"*** Begin Patch\n*** Update File: AGENTS.md\n-Keep it simple.\n+Keep.\n*** End Patch\n"
DIFF = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1 +1 @@\n-Keep it simple.\n+Keep.\n"


def test_a_patch_from_standard_input_is_applied(treadle):
    done = treadle("patch", stdin=PATCH)
    assert done.text == "Success. Updated the following files:\nM AGENTS.md\n"
    assert (treadle.project / "AGENTS.md").read_text() == "Keep.\n"


def test_checking_shows_the_change_and_makes_none(treadle):
    assert treadle("patch", "--check", stdin=PATCH).text == DIFF
    assert (treadle.project / "AGENTS.md").read_text() == "Keep it simple.\n"


@pytest.mark.parametrize("check", [True, False])
def test_programs_get_json(treadle, check):
    done = treadle("patch", "--json", *(["--check"] if check else []), stdin=PATCH)
    file = {"kind": "update", "path": "AGENTS.md", "move_to": None, "added": 1, "removed": 1}
    assert done.json == {"applied": not check, "files": [{**file, "text": DIFF}]}


def test_paths_start_where_one_says(treadle):
    (treadle.project / "sub").mkdir()
    text = b"*** Begin Patch\n*** Add File: new\n+x\n*** End Patch\n"
    treadle("patch", "-C", "sub", stdin=text)
    assert (treadle.project / "sub/new").read_text() == "x\n"


def test_a_name_that_is_no_utf8_is_applied_and_told(treadle):
    text = b"*** Begin Patch\n*** Add File: caf\xe9\n+\xe9\n*** End Patch\n"
    done = treadle("patch", "--json", stdin=text)
    assert done.json["files"][0]["path"] == "caf\ufffd"
    assert [path.read_bytes() for path in treadle.project.glob("caf*")] == [b"\xe9\n"]


def test_a_patch_that_does_not_fit_fails_and_changes_nothing(treadle):
    said = treadle.refused("patch", stdin=PATCH.replace(b"simple", b"complex"))
    assert "Failed to find expected lines" in said
    assert (treadle.project / "AGENTS.md").read_text() == "Keep it simple.\n"


def test_what_is_no_patch_fails_with_the_line(treadle):
    said = treadle.refused("patch", stdin=b"*** Begin Patch\nhello\n*** End Patch\n")
    assert "invalid hunk at line 2, 'hello' is not a valid hunk header" in said


def test_a_directory_that_is_not_there_is_a_usage_error(treadle):
    assert "'nowhere' does not exist" in treadle.refused("patch", "-C", "nowhere", code=2)
