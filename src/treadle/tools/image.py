"""`view_image`: an image from disk, for models that see.

Owns which files count as images. Invariant: a model is sent an image whose type
and size were read from its own bytes, or words that say why not.
"""

from __future__ import annotations

import base64
from typing import Literal

from msgspec import Struct

from ..context.media import image_size
from ..core.items import InputImage
from ..core.specs import FunctionTool, parameters
from .arguments import BadArguments, read_arguments
from .contract import ToolCall, ToolContext, ToolResult

__all__ = ["MOST_BYTES", "ViewImage"]

MOST_BYTES = 20 << 20
"""The largest file that is sent."""

_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


class _View(Struct, forbid_unknown_fields=True):
    path: str
    detail: Literal["high", "original"] | None = None


class ViewImage:
    """Shows an image file to the model."""

    parallel = True
    replay_safe = True

    def __init__(self, *, original: bool) -> None:
        self._original = original
        properties: dict[str, dict[str, object]] = {
            "path": {"type": "string", "description": "The path of the image file."}
        }
        if original:
            properties["detail"] = {
                "type": "string",
                "enum": ["high", "original"],
                "description": "original sends the image in its own resolution.",
            }
        self.spec = FunctionTool(
            name="view_image",
            description="Shows you an image file: PNG, JPEG, GIF or WebP.",
            parameters=parameters(properties, required=("path",)),
        )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Read the file and check it."""
        try:
            asked = read_arguments(call.name, call.arguments, _View)
            return ToolResult((await self._image(asked, context),))
        except BadArguments as error:
            return ToolResult(str(error), success=False)
        except (OSError, ValueError) as error:
            return ToolResult(f"{call.name} failed: {error}", success=False)

    async def _image(self, asked: _View, context: ToolContext) -> InputImage:
        if asked.detail == "original" and not self._original:
            raise BadArguments("invalid arguments for view_image: this model has no `original`")
        path = context.cwd / asked.path
        data = await context.executor.read(path, bounds=context.bounds, limit=MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"{asked.path!r} is larger than {MOST_BYTES} bytes; make it smaller")
        kind = next((kind for sign, kind in _SIGNS if data.startswith(sign)), None)
        if kind is None or image_size(data) is None:
            raise ValueError(f"{asked.path!r} is no PNG, JPEG, GIF or WebP image")
        url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        return InputImage(url, asked.detail or "high")
