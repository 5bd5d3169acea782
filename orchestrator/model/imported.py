"""What an importer did with each task: kept, changed, refused, and left for the author to do."""

from __future__ import annotations

from typing import Literal

from orchestrator.model.base import Closed, Document, Text


class ImportedTask(Closed):
    """One task of another benchmark. With a refusal nothing of it was written."""

    id: Text
    kept: tuple[Text, ...] = ()
    changed: tuple[Text, ...] = ()
    refused: tuple[Text, ...] = ()
    to_do: tuple[Text, ...] = ()


class ImportReport(Document):
    """`import-report.json` of an imported pack."""

    kind: Literal["remem-pack", "swebench", "harbor"]
    input_sha256: Text
    tasks: tuple[ImportedTask, ...]
