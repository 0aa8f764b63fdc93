"""The commands of `treadle mcp`, a module each."""
