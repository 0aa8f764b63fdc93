from __future__ import annotations

from treadle.testing.contracts import ContextEngineContract


class TestRetrieval(ContextEngineContract):
    factory = "treadle_retrieval:engine"


class TestLinear(ContextEngineContract):
    factory = "tests.engines.sample_engines:linear"


class TestToldOfTurns(ContextEngineContract):
    factory = "tests.engines.sample_engines:told_of_turns"


class TestMinimal(ContextEngineContract):
    factory = "tests.engines.sample_engines:minimal"


class TestCounting(ContextEngineContract):
    factory = "tests.engines.sample_engines:counting"


class TestSumming(ContextEngineContract):
    factory = "tests.engines.sample_engines:summing"
