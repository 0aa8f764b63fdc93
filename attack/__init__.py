"""The attack: everything that somebody hostile would try against Treadle, again and again.

    python -m attack                        all areas, as this user and as an ordinary one
    python -m attack --only sandbox --list  what is tried in one area
    python -m attack --page docs/security.md

Each area is a module in `attack/areas` with a list of attempts. An attempt drives Treadle through
its public interface, with real parts, and returns the evidence that it got through, or nothing.
"""
