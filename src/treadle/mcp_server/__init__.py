"""The MCP server: other agents run turns here and search what is remembered."""
