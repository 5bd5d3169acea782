"""Promise: waiting for something to read works for every descriptor that a process can have."""

from __future__ import annotations

import fcntl
import os
import resource

from orchestrator.core.waiting import readable


def test_bytes_and_the_end_can_be_read_and_nothing_cannot():
    reading, writing = os.pipe()
    assert not readable(reading, 0)
    os.write(writing, b"x")
    assert readable(reading, 0)
    os.read(reading, 1)
    os.close(writing)
    assert readable(reading, 0)
    os.close(reading)


def test_a_descriptor_beyond_the_reach_of_select_is_waited_for():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    reading, writing = os.pipe()
    far = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, 2000)
    try:
        assert not readable(far, 0)
        os.write(writing, b"x")
        assert readable(far, 1)
    finally:
        for handle in (far, reading, writing):
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
