"""The container config that all images share. Pure: a reader without an engine compares containers with it."""

from __future__ import annotations

PREFIX = "opt/memtrial"


def container_config() -> dict[str, object]:
    """Returns the config that all images share. No task, condition or run is named in it."""
    return {
        "User": "10001:10001",
        "WorkingDir": "/work",
        "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/home/agent",
            "LANG=C.UTF-8",
            "PYTHONDONTWRITEBYTECODE=1",
            f"PYTHONPATH=/{PREFIX}/python",
        ],
        "Labels": {"memtrial": "image"},
    }
