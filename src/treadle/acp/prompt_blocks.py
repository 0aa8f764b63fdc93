"""Blocks: what a client says, as the parts of an input.

Owns how each kind of content is taken. Invariants: what a client embeds is passed on as contents
of a file, never as words of Treadle's own; a link to a file is read where the model may read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
)

from ..core.errors import InvalidOption
from ..core.text import whole_characters
from ..prompt.input import Image, LocalFile, UserPart
from ..prompt.mentioned_files import mentioned_file

__all__ = ["Block", "slash_command", "user_parts"]

Block: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def user_parts(blocks: Iterable[Block]) -> tuple[UserPart, ...]:
    """Return the parts of an input. Raises `InvalidOption` for content that no model takes."""
    return tuple(map(_part, blocks))


def slash_command(blocks: list[Block]) -> tuple[str, str] | None:
    """Return name and arguments of the command that a prompt begins with, if it is one."""
    if not blocks or not isinstance(blocks[0], TextContentBlock):
        return None
    text = blocks[0].text.strip()
    name, _, arguments = text[1:].partition(" ")
    if not text.startswith("/") or not name or "/" in name or "\n" in name:
        return None
    return name, arguments.strip()


def _part(block: Block) -> UserPart:
    match block:
        case TextContentBlock():
            return block.text
        case ImageContentBlock():
            return Image(f"data:{block.mime_type};base64,{block.data}")
        case ResourceContentBlock():
            return _link(block)
        case EmbeddedResourceContentBlock():
            return _embedded_part(block)
        case AudioContentBlock():
            raise InvalidOption("audio cannot be sent to a model here; send text or an image")


def _link(block: ResourceContentBlock) -> UserPart:
    path = _local_path(block.uri)
    if path is not None and path.is_file():
        return LocalFile(path)
    # A directory, or something that only the client knows: it is named, not read.
    shown = str(path) if path is not None else block.uri
    return whole_characters(f"[{block.title or block.name}]({shown})")


def _embedded_part(block: EmbeddedResourceContentBlock) -> UserPart:
    resource = block.resource
    path = _local_path(resource.uri)
    name = str(path) if path is not None else resource.uri
    if not isinstance(resource, BlobResourceContents):
        return mentioned_file(name, resource.text).text
    kind = resource.mime_type or ""
    if not kind.startswith("image/"):
        raise InvalidOption(f"{name!r} is neither text nor an image; save it and link to the file")
    return Image(f"data:{kind};base64,{resource.blob}")


def _local_path(uri: str) -> Path | None:
    """Return the file that a ``file:`` address names."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return Path(uri) if uri.startswith("/") else None
