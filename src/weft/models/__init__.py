"""Models: what is known about each of them."""

from __future__ import annotations

from .catalog import Catalog
from .profile import ModelProfile

__all__ = ["Catalog", "ModelProfile"]
