"""`view_image`: an image from disk, for models that see.

Owns how the file is read. Invariant: a model is sent an image whose type and size were read
from its own bytes and that fits, or a text that says why not.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from msgspec import Struct

from ..core.image_fit import MOST_BYTES, fit_image
from ..core.items import InputImage
from .arguments import InvalidArguments, parse_arguments
from .contract import ToolCall, ToolContext, ToolResult

__all__ = ["MOST_BYTES", "ImageViewer"]


class _Arguments(Struct, forbid_unknown_fields=True):
    path: str
    detail: Literal["high", "original"] | None = None


class ImageViewer:
    """The code of the tool; `original` allows images in their own resolution."""

    def __init__(self, *, original: bool) -> None:
        self._original = original

    async def view_image(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Read a file and check that it is an image."""
        try:
            arguments = parse_arguments(call.name, call.arguments, _Arguments)
            return ToolResult((await self._read(arguments, context),))
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        except (OSError, ValueError) as error:
            return ToolResult(f"{call.name} failed: {error}", success=False)

    async def _read(self, arguments: _Arguments, context: ToolContext) -> InputImage:
        if arguments.detail == "original" and not self._original:
            raise InvalidArguments("invalid arguments for view_image: this model has no `original`")
        name = arguments.path
        data = await context.executor.read(
            context.cwd / name, bounds=context.bounds, limit=MOST_BYTES + 1
        )
        if len(data) > MOST_BYTES:
            raise ValueError(f"{name!r} is larger than {MOST_BYTES} bytes; make it smaller")
        original = arguments.detail == "original"
        try:
            url = await asyncio.to_thread(fit_image, data, original=original)
        except ValueError as error:
            raise ValueError(f"{name!r} could not be read: {error}") from error
        return InputImage(url, arguments.detail or "high")
