"""Treadle and its peers, side by side: one instant server, one script for each contestant."""
