"""Calibration: what a model's reported usage teaches about our token estimates.

Owns how a report changes the ratio between real and estimated tokens.
Invariant: the ratio stays within fixed bounds, and a single report moves it by
at most a tenth, however odd it is.
"""

from __future__ import annotations

import math

from ..store.contract import Calibration

__all__ = ["HIGHEST", "LOWEST", "calibrate", "learn"]

LOWEST, HIGHEST = 0.5, 2.0
"""Bounds of the ratio."""

_LEAST_TOKENS = 256
"""Below this, what a provider adds around a request outweighs the request."""
_ABSURD = 10.0
"""A report this many times off tells of something other than tokens."""
_SURPRISE = 0.5
"""How far from the ratio a report may seem to lie."""
_PRIOR, _MEMORY = 5, 50
"""How many reports the first guess is worth, and how many are remembered."""


def learn(calibration: Calibration, estimated: int, reported: int) -> Calibration:
    """The calibration after a request estimated at `estimated` tokens was billed `reported`."""
    if estimated < _LEAST_TOKENS or reported <= 0:
        return calibration
    seen = reported / estimated
    if not 1 / _ABSURD <= seen <= _ABSURD:
        return calibration
    ratio = _clamp(calibration.ratio)
    surprise = min(max(seen - ratio, -_SURPRISE), _SURPRISE)
    weight = 1 / min(max(calibration.samples, 0) + _PRIOR, _MEMORY)
    return Calibration(_clamp(ratio + weight * surprise), calibration.samples + 1)


def calibrate(tokens: int, calibration: Calibration) -> int:
    """An estimate of `tokens` in the model's own tokens, rounded up."""
    return math.ceil(tokens * _clamp(calibration.ratio))


def _clamp(ratio: float) -> float:
    return min(max(LOWEST, ratio), HIGHEST)
