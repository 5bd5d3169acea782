"""Who publishes which Python distribution: `requirements/publishers.json`, written by people.

Provenance says who published a file; this says who may. Reads and writes nothing.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from orchestrator.model.base import Document

Project = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Repository = Annotated[
    str, StringConstraints(pattern=r"^https://(github|gitlab)\.com/[A-Za-z0-9._/-]{3,120}$")
]


class Publishers(Document):
    """The repository whose workflow publishes each distribution, by its normalised name."""

    publishers: dict[Project, Repository]
