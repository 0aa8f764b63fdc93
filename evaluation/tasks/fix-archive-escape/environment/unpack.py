"""Unpacks archives that strangers upload."""

import tarfile


class UnsafeMember(Exception):
    """A member leads out of the directory."""


def unpack(archive, directory):
    """Unpack a tar archive into a directory."""
    with tarfile.open(archive) as opened:
        opened.extractall(directory)
