"""Tools: what a model may do on the machine, one room per tool."""
