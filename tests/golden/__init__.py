"""Golden conversations: what was sent and logged, byte for byte, before the insides were moved."""
