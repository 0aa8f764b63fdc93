"""Arguments: from what a model wrote to what a tool takes.

Owns reading them and the words about what is wrong. Invariant: arguments that
cannot be read become one honest sentence that names the place and what is
accepted there, never an exception a model does not see.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import msgspec

__all__ = ["BadArguments", "read_arguments"]

T = TypeVar("T", bound=msgspec.Struct)


class BadArguments(ValueError):
    """What a model wrote cannot be used; the text is for the model."""


def read_arguments(name: str, text: str, type_: type[T]) -> T:
    """The arguments of a call of `name`. Raises `BadArguments`."""
    try:
        given = _whole_numbers(msgspec.json.decode(text or "{}"))
        return msgspec.convert(_without_nulls(given, type_), type_)
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


def _without_nulls(given: Any, type_: type) -> Any:
    """`given` without nulls that stand for "not given" where nothing else fits them."""
    if not isinstance(given, dict):
        return given
    if None not in given.values():
        return given
    optional = _optional(type_)
    return {name: each for name, each in given.items() if each is not None or name not in optional}


def _optional(type_: type) -> set[str]:
    """The arguments that may be left out, and for which null is no value."""
    return {
        field.encode_name
        for field in msgspec.structs.fields(type_)
        if not field.required and type(None) not in get_args(field.type)
    }
