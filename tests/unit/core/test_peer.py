"""Promise: the kernel says who is at the other end of a Unix socket, and nobody of any other."""

import os
import socket

import pytest

from orchestrator.core.peer import peer_uid


def test_the_other_end_is_this_user():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


def test_a_socket_that_is_closed_has_nobody_at_its_end():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    theirs.close()
    ours.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        peer_uid(ours)
