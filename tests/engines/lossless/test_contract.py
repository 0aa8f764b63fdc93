from __future__ import annotations

from treadle.testing.contracts import ContextEngineContract


class TestLossless(ContextEngineContract):
    factory = "treadle.engines.lossless.engine:create_engine"
