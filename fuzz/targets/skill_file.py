"""The `SKILL.md` of a stranger: its front matter, and what is told of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from treadle.core.files import open_regular
from treadle.core.front_matter import read_document
from treadle.prompt.skill_fragments import SkillsFragment
from treadle.skills.catalogue import build_catalogue
from treadle.skills.skill_file import FILE_NAME, SkillProblem, read_skill

__all__ = ["WORDS", "check"]

WORDS = (
    *(b"---\n", b"name: a\n", b"description: ", b"description: x\n", b"\n---\n", b"- ", b": "),
    *(b"&a ", b"*a", b"<<: ", b"!!python/x ", b"{", b"[", b"]", b"|", b">-\n  ", b"\t", b"\r\n"),
    *(b"'", b'"', b"\\x41", b"\\ud800", b"\\U00110000", b" #", b"\xef\xbb\xbf", b"\xff", b"\0"),
    *(b"allowed-tools: Bash(a:*)\n", b"</available_skills>", b"<skill>", b"\xe2\x80\xae"),
)
_FOLDER = Path(tempfile.mkdtemp(prefix="treadle-fuzz-skill-")) / "folder"


def check(data: bytes) -> None:
    """A file is a skill on one line, within the list's share, or a problem on one line."""
    read_document(data.decode(errors="replace"))
    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / FILE_NAME).write_bytes(data)
    read = read_skill(_FOLDER, "user", open_regular)
    if isinstance(read, SkillProblem):
        assert read.fatal, read
        assert "\n" not in read.text, read
        return
    catalogue = build_catalogue([read], 128_000)
    text = SkillsFragment(added=catalogue.listed).render()
    assert text.count("\n- ") == len(catalogue.listed), text
    assert text.count("</available_skills>") == 1, text
    told = read.fragment().render()
    assert told.count("</skill>") == 1, told
