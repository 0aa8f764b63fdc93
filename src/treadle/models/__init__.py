"""Models: the facts about each of them, and the adapters that send requests to them."""
