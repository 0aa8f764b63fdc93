from __future__ import annotations

from treadle.harness.contract import Harness
from treadle.harness.loop import LoopHarness
from treadle.harness.offers import HarnessOffer
from treadle.testing.contracts import HarnessContract


class TestLoopHarness(HarnessContract):
    def factory(self, offer: HarnessOffer) -> Harness:
        assert offer.providers
        return LoopHarness()
