"""What a review is, wherever it is asked for: its rights, its instructions, its findings.

Invariant: a reviewer changes nothing, unless the user gave it another sandbox by name.
"""

from __future__ import annotations

import msgspec

from ..core.errors import TreadleError
from ..core.typed import decode_json
from ..prompt.review_message import INSTRUCTIONS, Finding, Review, ReviewTarget
from .output import one_line
from .run_options import RunOptions
from .thread_setup import Setup

__all__ = ["finding_place", "for_review", "read_only", "read_review", "review_title"]

_WORDS = ("must not be merged", "mend first", "can follow", "small")


def read_only(options: RunOptions) -> RunOptions:
    """Return options under which nothing is changed and nobody is asked."""
    if options.sandbox or options.yolo:
        return options
    return msgspec.structs.replace(options, sandbox="read-only")


def for_review(setup: Setup) -> Setup:
    """Return the setup of a reviewer's thread."""
    own = setup.settings.developer_instructions
    told = f"{own}\n\n{INSTRUCTIONS}" if own else INSTRUCTIONS
    settings = msgspec.structs.replace(setup.settings, developer_instructions=told)
    return msgspec.structs.replace(setup, settings=settings)


def review_title(target: ReviewTarget) -> str:
    """Return what the thread of a review is called."""
    match target.kind:
        case "tree":
            return "review of the working tree"
        case "branch":
            return f"review since {target.revision[:12]}"
        case "commit":
            return f"review of {target.revision[:12]}"


def read_review(text: str) -> Review:
    """Return the review in an answer. Raises `TreadleError` if there is none."""
    try:
        return decode_json(text, Review)
    except msgspec.DecodeError as error:
        raise TreadleError(
            f"the answer is no review ({error}): {one_line(text)!r}; try again, or take a model "
            "that keeps to schemas"
        ) from error


def finding_place(finding: Finding) -> str:
    """Return where a finding is, and how much it weighs."""
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return f"{one_line(place)} · priority {finding.priority}, {_WORDS[finding.priority]}"
