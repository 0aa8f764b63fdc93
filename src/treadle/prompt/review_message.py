"""Reviews: what a reviewer is told, and the form of its findings.

Owns the words and the schema. Invariant: the message names commands and revisions, never the
names of files: those are the repository's words, and the reviewer reads them itself.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

__all__ = ["INSTRUCTIONS", "Finding", "Review", "ReviewTarget", "review_schema"]

INSTRUCTIONS = """\
You review a change that somebody else made. You change nothing yourself.

Read the whole change first, then as much of the code around it as you need to be sure: who \
calls it, what it promises, which tests hold it.

Report what the author would want to know before the change is merged: wrong results, lost \
data, holes in security, broken promises of interfaces or documents, a race, a leak, a risk \
that no test covers. Leave out style and taste, guesses that you could not confirm, and what \
was there before and is not made worse.

A finding says in a few sentences what goes wrong, with which input or in which order of \
events, and what would be right. It names the file and the line where it is to be mended. Its \
priority is 0 if the change must not be merged, 1 if it should be mended first, 2 if it can \
follow, 3 if it is a small thing. The weightiest come first. A change without defects gets no \
findings; do not look for some at any price.

Your last message is the review, as JSON of the form that was asked."""


class Finding(Struct, frozen=True, kw_only=True):
    """A defect that a reviewer found."""

    title: str
    detail: str
    file: str
    line: Annotated[int, Meta(ge=0)]
    """The line of the file as it is now; 0 if there is none."""
    priority: Literal[0, 1, 2, 3]


class Review(Struct, frozen=True, kw_only=True):
    """What a reviewer says about a change."""

    summary: str
    findings: tuple[Finding, ...]


class ReviewTarget(Struct, frozen=True, kw_only=True):
    """The change that is reviewed."""

    kind: Literal["tree", "branch", "commit"]
    revision: str = ""
    """What the branch began from, or the commit."""
    files: int = 0
    """How many files are changed."""

    def message(self, wishes: str = "") -> str:
        """Return the order for the reviewer, with the wishes of the user."""
        count = "one file is" if self.files == 1 else f"{self.files} files are"
        order = f"{self._order()} ({count} changed.)"
        return f"{order}\n\n{wishes.strip()}" if wishes.strip() else order

    def _order(self) -> str:
        match self.kind:
            case "tree":
                return (
                    "Review the working tree as it differs from the last commit: "
                    "`git diff HEAD`, and the files that git does not know yet, which "
                    "`git ls-files --others --exclude-standard` lists."
                )
            case "branch":
                return (
                    f"Review everything since the branch began: `git diff {self.revision}`, "
                    "which includes what is not committed yet, and the files that "
                    "`git ls-files --others --exclude-standard` lists."
                )
            case "commit":
                return f"Review one commit: `git show {self.revision}`."


def review_schema() -> dict[str, Any]:
    """Return the JSON schema of a review, as strict as providers want it."""
    text = {"type": "string"}
    finding = {
        "title": text,
        "detail": text,
        "file": text,
        "line": {"type": "integer"},
        "priority": {"type": "integer", "enum": [0, 1, 2, 3]},
    }
    findings = {"type": "array", "items": _closed_object(finding)}
    return _closed_object({"summary": text, "findings": findings})


def _closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
