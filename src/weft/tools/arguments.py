"""Arguments: from what a model wrote to what a tool takes.

Owns reading them and the words about what is wrong. Invariant: arguments that
cannot be read become one honest sentence that names the place and what is
accepted there, never an exception a model does not see.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

__all__ = ["BadArguments", "read_arguments"]

T = TypeVar("T")


class BadArguments(ValueError):
    """What a model wrote cannot be used; the text is for the model."""


def read_arguments(name: str, text: str, type_: type[T]) -> T:
    """The arguments of a call of `name`. Raises `BadArguments`."""
    try:
        return msgspec.convert(_whole_numbers(msgspec.json.decode(text or "{}")), type_)
    except msgspec.ValidationError as error:
        raise BadArguments(f"invalid arguments for {name}: {error}") from error
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadArguments(
            f"invalid arguments for {name}: {error}; send one JSON object"
        ) from error


def _whole_numbers(value: Any) -> Any:
    """`value` with numbers such as 5.0 as integers: schemas say "number", models write both."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole_numbers(each) for each in value]
        case dict():
            return {key: _whole_numbers(each) for key, each in value.items()}
        case _:
            return value
