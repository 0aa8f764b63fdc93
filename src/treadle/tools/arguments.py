"""Arguments: from the text that a model wrote to the values that a tool takes.

Owns parsing them and the text about what is wrong. Invariant: arguments that cannot be parsed
become one sentence that names the place and what is accepted there, for the model to read.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import msgspec

from ..core.typed import convert

__all__ = ["InvalidArguments", "parse_arguments"]

T = TypeVar("T", bound=msgspec.Struct)


class InvalidArguments(ValueError):
    """The arguments of a call cannot be used; the text is for the model."""


def parse_arguments(name: str, text: str, type_: type[T]) -> T:
    """Parse the arguments of a call of `name`. Raises `InvalidArguments`."""
    try:
        given = _whole_numbers(msgspec.json.decode(text or "{}"))
        return convert(_without_nulls(given, type_), type_)
    except msgspec.ValidationError as error:
        raise InvalidArguments(f"invalid arguments for {name}: {error}") from error
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidArguments(
            f"invalid arguments for {name}: {error}; send one JSON object"
        ) from error


def _whole_numbers(value: Any) -> Any:
    """Return `value` with 5.0 as 5 everywhere: schemas say "number", models write both."""
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
    """Return `given` without nulls that can only mean "not given"."""
    if not isinstance(given, dict):
        return given
    if None not in given.values():
        return given
    optional = _optional_names(type_)
    return {name: each for name, each in given.items() if each is not None or name not in optional}


def _optional_names(type_: type) -> set[str]:
    """Return the arguments that may be left out, and for which null is no value."""
    return {
        field.encode_name
        for field in msgspec.structs.fields(type_)
        if not field.required and type(None) not in get_args(field.type)
    }
