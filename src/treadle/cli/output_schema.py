"""`--output-schema`: the shape of the answer, from a file.

Invariant: a file that a model may not read is not sent to its provider.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import UNSET, UnsetType

from ..core.wire import Json
from ..sandbox.reading import open_for_model
from .thread_setup import Setup

__all__ = ["read_output_schema", "with_input_files"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def with_input_files(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name files which are sent: `images` and `output_schema`."""
    schema = click.option(
        "--output-schema", type=_FILE, help="A file with the JSON schema of the answer."
    )
    image = click.option(
        "--image",
        "images",
        multiple=True,
        type=_FILE,
        help="Send this image to the model; can be repeated.",
    )
    return image(schema(function))


def read_output_schema(file: Path | None, setup: Setup) -> Json | UnsetType:
    """Return the schema in a file, if one is given."""
    if file is None:
        return UNSET
    from ..policy.answer_schema import answer_schema  # most runs have none

    try:
        # The provider is sent it, so a repository's link leads no further than for the model.
        with open_for_model(setup.cwd, setup.home, file) as opened:
            schema = msgspec.json.decode(opened.read(), type=dict[str, Any])
    except OSError as error:
        raise click.ClickException(
            f"{str(file)!r} cannot be read: it {error.strerror}; name another file"
        ) from error
    except msgspec.DecodeError as error:
        raise click.ClickException(
            f"{str(file)!r} is not a JSON schema: {error}; write a JSON object"
        ) from error
    return answer_schema(schema)
