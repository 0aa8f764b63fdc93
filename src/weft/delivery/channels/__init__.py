"""The channels that come with Weft."""
