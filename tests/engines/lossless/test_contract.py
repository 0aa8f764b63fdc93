from __future__ import annotations

from weft.testing.contracts import ContextEngineContract


class TestLossless(ContextEngineContract):
    factory = "weft.engines.lossless.factory:lossless"
