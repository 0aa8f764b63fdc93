from __future__ import annotations

from weft.testing.contracts import ContextEngineContract


class TestRetrieval(ContextEngineContract):
    factory = "weft_retrieval:engine"


class TestMinimal(ContextEngineContract):
    factory = "tests.engines.minimal:engine"
