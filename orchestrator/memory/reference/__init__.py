"""The reference pipeline: a heuristic baseline, whole from raw events to the text that an agent gets.

Read in this order: `store`, `capture`, `text`, `cues`, `extract`, `evidence`, `policy`, `keeper`, `tasks`,
`retrieve`, `dump`, `adapter`. Making one loads SQLite; vectors are loaded with the first text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.memory.supplies import Supplies

if TYPE_CHECKING:
    from orchestrator.memory.reference.adapter import ReferenceAdapter


def make(name: str, supplies: Supplies) -> ReferenceAdapter:
    """Makes the pipeline, whole or in the variant that an ablation names.

    Raises:
        DocumentError: there is no such variant.
    """
    from orchestrator.memory.reference.variants import variant_of

    return variant_of(name, supplies)
