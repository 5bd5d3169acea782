"""Keeps a run's signed checkpoint in a second place, so that a later cut or fork of the ledger is seen there.

Only adds: a checkpoint that the run's ledger does not continue is refused, and nothing is overwritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.attest import layout
from orchestrator.core.errors import IntegrityError, UsageError
from orchestrator.core.files import write_atomic
from orchestrator.core.keys import PublicKey
from orchestrator.core.notes import Checkpoint, parse_checkpoint
from orchestrator.ledger.chain import parse_ledger
from orchestrator.sources.mirror import GitMirror

MAX_KEPT_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Published:
    """Where a checkpoint went, and how many earlier ones the ledger was found to continue."""

    place: str
    size: int
    continued: int
    new: bool


def publish_checkpoint(run: Path, target: str) -> Published:
    """Publishes the checkpoint of a sealed run.

    Args:
        run: the run's folder.
        target: a folder, or `git:PATH` for a branch of a local git repository.

    Raises:
        UsageError: the run is not sealed, or the target cannot be used.
        IntegrityError: checkpoint and ledger do not fit, or a published one is not continued.
    """
    if "://" in target:
        raise UsageError(
            "target-remote",
            f"expected a folder or git:PATH, found the address {target}",
            hint="publish to a folder or a local git repository, and push that",
        )
    note, checkpoint = _checked(run)
    tree = parse_ledger((run / layout.LEDGER).read_bytes(), where=layout.LEDGER).tree
    if checkpoint.size > tree.size or tree.root(checkpoint.size) != checkpoint.root:
        raise _not_continued("the run's own checkpoint")
    name = f"{run.name}/{checkpoint.size:08d}.checkpoint"
    mirror = GitMirror(Path(target[4:])) if target.startswith("git:") else None
    kept = mirror.kept(run.name) if mirror else _kept(Path(target) / run.name)
    for old_name, old_note in kept.items():
        old = parse_checkpoint(old_note, where=old_name).checkpoint
        if (
            old.origin != checkpoint.origin
            or old.size > tree.size
            or tree.root(old.size) != old.root
        ):
            raise _not_continued(old_name)
    new = note not in kept.values()
    if new:
        number = sum(1 for old_name in kept if old_name.startswith(f"{checkpoint.size:08d}"))
        name = name.replace(".checkpoint", f".{number}.checkpoint") if number else name
        if mirror:
            mirror.add(
                name, note, f"Keep the checkpoint of {run.name} at {checkpoint.size} records"
            )
        else:
            write_atomic(Path(target) / name, note, mode=0o444)
    return Published(
        f"{target}/{name}" if not mirror else f"{target} {name}", checkpoint.size, len(kept), new
    )


def _checked(run: Path) -> tuple[bytes, Checkpoint]:
    if not (run / layout.CHECKPOINT).is_file() or not (run / layout.KEY).is_file():
        raise UsageError(
            "run-not-sealed",
            f"{run.name}: expected a sealed run, found no checkpoint",
            hint=f"run `memtrial seal {run.name}`",
        )
    note = (run / layout.CHECKPOINT).read_bytes()
    signed = parse_checkpoint(note, where=layout.CHECKPOINT)
    key = PublicKey.parse_pem((run / layout.KEY).read_bytes(), where=layout.KEY)
    signed.verify(key, where=layout.CHECKPOINT)
    return note, signed.checkpoint


def _kept(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    return {
        path.name: path.read_bytes()[: MAX_KEPT_BYTES + 1]
        for path in sorted(folder.iterdir())
        if path.suffix == ".checkpoint"
    }


def _not_continued(name: str) -> IntegrityError:
    return IntegrityError(
        "ledger-forked",
        f"{name}: expected a ledger that continues this checkpoint, found another or a shorter one",
        hint="the record was changed after that checkpoint: find out by whom before publishing anything",
    )
