from __future__ import annotations

from weft.harness.contract import Harness
from weft.harness.loop import LoopHarness
from weft.harness.offers import HarnessOffer
from weft.testing.contracts import HarnessContract


class TestLoopHarness(HarnessContract):
    def factory(self, offer: HarnessOffer) -> Harness:
        assert offer.providers
        return LoopHarness()
