"""How profiles fail.

AuthError                the secrets or the state of profiles cannot be used as they are
├── ProfileUnusable      one profile: `.profile`, and `.permanent` when waiting does not help
└── RouteRefused         no profile may be used for a route; nothing was started

No text holds a secret.
"""

from __future__ import annotations

from ...core.errors import ConfigError

__all__ = ["AuthError", "ProfileUnusable", "RouteRefused"]


class AuthError(ConfigError):
    """Profiles cannot be used as they are."""


class ProfileUnusable(AuthError):
    """One profile cannot be used; another may."""

    def __init__(self, profile: str, why: str, *, permanent: bool) -> None:
        self.profile, self.permanent = profile, permanent
        super().__init__(f"profile {profile!r} cannot be used: {why}")


class RouteRefused(AuthError):
    """A route needs a credential of another kind than there is."""
