"""The channels that come with Treadle."""
