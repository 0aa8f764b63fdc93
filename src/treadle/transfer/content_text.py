"""Content as text, for files that hold nothing else.

Invariant: a part that is not text leaves a word in brackets, so that it is not missed.
"""

from __future__ import annotations

from ..core.items import Output

__all__ = ["content_text"]


def content_text(content: Output) -> str:
    """Return the text of a content array; parts that are not text become a word in brackets."""
    if isinstance(content, str):
        return content
    return "\n\n".join(
        getattr(part, "text", None) or f"[{part.__struct_config__.tag}]" for part in content
    )
