"""Settings: what a client may choose for a session, in the forms of the protocol.

Owns the translation: as options, and as modes for clients that know only those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from acp.schema import (
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from .host import Setting, SettingName

__all__ = ["MODE", "config_options", "mode_state", "setting_name"]

MODE: SettingName = "mode"
_CATEGORIES: dict[SettingName, Literal["model", "mode", "thought_level"]] = {
    "model": "model",
    "mode": "mode",
    "thought_level": "thought_level",
}


def config_options(
    settings: Iterable[Setting],
) -> list[SessionConfigOptionSelect | SessionConfigOptionBoolean]:
    """Return the settings as options that a client lets the user choose."""
    return [
        SessionConfigOptionSelect(
            id=each.name,
            name=each.title,
            description=each.description,
            category=_CATEGORIES.get(each.name),
            type="select",
            current_value=each.value,
            options=[
                SessionConfigSelectOption(
                    value=choice.value, name=choice.name, description=choice.description or None
                )
                for choice in each.choices
            ],
        )
        for each in settings
    ]


def mode_state(settings: Iterable[Setting]) -> SessionModeState | None:
    """Return the modes, for clients that know no options."""
    for each in settings:
        if each.name == MODE:
            modes = [
                SessionMode(id=choice.value, name=choice.name, description=choice.description)
                for choice in each.choices
            ]
            return SessionModeState(current_mode_id=each.value, available_modes=modes)
    return None


def setting_name(name: str) -> SettingName | None:
    """Return the setting of that name, if there is one."""
    match name:
        case "model" | "mode" | "thought_level" | "engine":
            return name
        case _:
            return None
