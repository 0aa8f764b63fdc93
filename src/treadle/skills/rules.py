"""Skill rules: which skills a thread may use.

Owns one value, which hosts and settings fill in. Invariant: it loads nothing.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["SkillRules"]


class SkillRules(Struct, frozen=True, kw_only=True):
    """Which skills a thread may use."""

    project: bool = True
    """Whether a project's skills count, once they are trusted."""
    user: bool = True
    """Whether those in the user's home count."""
    packages: bool = True
    """Whether those of installed packages count."""
    directories: tuple[str, ...] = ()
    """More directories of the user's, looked at before the usual ones."""
    disabled: tuple[str, ...] = ()
    """Names of skills that do not count."""
