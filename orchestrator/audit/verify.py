"""`memtrial verify`: numbered checks from the outside in, each counted, none silently skipped.

The outer four decide whether the bytes are the signed ones; when one of them fails, nothing further is
interpreted. The inner ones recompute what can be recomputed. Reads one bundle, writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

from orchestrator.attest.program import program_sha256
from orchestrator.audit import opening, recheck, retell
from orchestrator.audit.approval import check_approval
from orchestrator.audit.bill import check_materials
from orchestrator.audit.contracts import check_memory
from orchestrator.audit.opening import Opened
from orchestrator.audit.recheck import Found
from orchestrator.audit.regrade import regrade_all
from orchestrator.audit.replan import rebuild
from orchestrator.audit.reprove import check_injections
from orchestrator.audit.respend import Spent, check_spending
from orchestrator.audit.sigstore import check_sigstore
from orchestrator.audit.stages import check_stages
from orchestrator.audit.trust import Trust
from orchestrator.audit.view import BundleView
from orchestrator.core.errors import IntegrityError, MemtrialError, Negative
from orchestrator.model.verification import CheckResult, CheckStatus, Standing, Verification
from orchestrator.pipeline.dossier import Composition, Dossier

T = TypeVar("T")
U = TypeVar("U")

_INNER = (
    "ledger",
    "checkpoint",
    "witness",
    "inclusion proofs",
    "blobs",
    "plan",
    "stages",
    "verdicts",
    "memory",
    "spending",
    "injections",
    "statements",
    "approval",
    "report",
    "handouts",
    "claims",
    "bill of materials",
    "sigstore",
)


class _Book:
    """Writes each check down; the only place that turns a refusal into a result."""

    def __init__(self) -> None:
        self.results: list[CheckResult] = []
        self.codes: set[int] = set()

    def value(self, name: str, run: Callable[[], tuple[T, Found]]) -> T | None:
        """Runs a check whose value later checks need."""
        answer = self._ran(name, run)
        if answer is None:
            return None
        value, found = answer
        self._add(name, "ok" if found.whole else "partly", found.count, found.detail)
        return value

    def check(self, name: str, needed: U | None, run: Callable[[U], Found]) -> None:
        """Runs a check on what an earlier one gave; without that it is not run."""
        if needed is None:
            self._add(name, "not_run", 0, "an earlier check failed")
            return
        found = self._ran(name, lambda: run(needed))
        if found is not None:
            status: CheckStatus = "partly" if found.count else "not_checked"
            self._add(name, "ok" if found.whole else status, found.count, found.detail)

    def _ran(self, name: str, run: Callable[[], T]) -> T | None:
        """Runs a check; whatever it raises over a stranger's bytes is its answer, but for a fault of the machine."""
        try:
            return run()
        except Exception as error:  # noqa: BLE001 - the boundary to bytes of strangers, one of the named places
            self._failed(name, _refusal(name, error))
            return None

    def _failed(self, name: str, error: MemtrialError) -> None:
        self.codes.add(1 if isinstance(error, Negative) else 6)
        self._add(name, "failed", 0, error.message, error=error)

    def _add(
        self,
        name: str,
        status: CheckStatus,
        count: int,
        detail: str,
        *,
        error: MemtrialError | None = None,
    ) -> None:
        self.results.append(
            CheckResult(
                number=len(self.results) + 1,
                name=name,
                status=status,
                count=count,
                detail=detail,
                reference=error.reference if error else None,
                hint=error.hint if error else None,
            )
        )


def _refusal(name: str, error: Exception) -> MemtrialError:
    """Returns what a check's exception means: what it stumbles over, no memtrial wrote.

    An error of the operating system, which has a number, is this machine's and is raised again.
    """
    if isinstance(error, MemtrialError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return IntegrityError(
        "check-stumbled",
        f"{name}: expected bytes that memtrial could have written, found ones that end the check with {type(error).__name__}: {str(error)[:200]}",
        hint="do not rely on this bundle; if it is one of yours as it was sealed, report this as a bug of memtrial",
    )


@dataclass(frozen=True, slots=True)
class Examined:
    """An answer, and the bundle as far as it could be opened."""

    answer: Verification
    opened: Opened | None
    dossier: Dossier | None


def verify_bundle(view: BundleView, trust: Trust, *, name: str) -> Verification:
    """Verifies a bundle and says what was checked, how many, and what not and why.

    Args:
        view: the bundle's bytes.
        trust: keys, checkpoints and time from outside the bundle.
        name: how the answer calls the bundle.
    """
    return examine(view, trust, name=name).answer


def examine(view: BundleView, trust: Trust, *, name: str) -> Examined:
    """Verifies a bundle and also returns what could be opened of it."""
    book = _Book()
    opened = _open(view, trust, book)
    dossier = _inner(opened, trust, book) if opened is not None else None
    if opened is None:
        for check in _INNER:
            book.check(check, None, _never)
    code: Literal[0, 1, 6] = 6 if 6 in book.codes else 1 if book.codes else 0
    answer = Verification(
        bundle=name,
        run_id=dossier.run_id if dossier else None,
        keyid=opened.key.keyid if opened else None,
        key_label=opened.card.key.label if opened else None,
        sealed_at=opened.card.sealed_at if opened else None,
        standing=_standing(code, opened, trust),
        exit_code=code,
        checks=tuple(book.results),
        withheld=tuple(sorted(opened.files.withheld)) if opened else (),
    )
    return Examined(answer, opened, dossier)


def _standing(code: int, opened: Opened | None, trust: Trust) -> Standing:
    if code or opened is None:
        return "refused"
    if not trust.authenticates:
        return "self_consistent"
    return "authentic_in_part" if opened.files.withheld else "authentic"


def _never(_: object) -> Found:
    return Found(0)


def _open(view: BundleView, trust: Trust, book: _Book) -> Opened | None:
    """The outer checks: each needs the one before."""

    def names() -> tuple[tuple[str, ...], Found]:
        found = opening.plain_names(view)
        return found, Found(len(found))

    listed = book.value("plain files", names)
    if listed is None:
        return None
    known = (
        "the key was given from outside" if trust.authenticates else "no --keyid or --root given"
    )

    def signer() -> tuple[opening.Signed, Found]:
        return opening.read_signer(view, listed, trust), Found(1, known, trust.authenticates)

    signed = book.value("signer", signer)
    if signed is None:
        return None

    def seal() -> tuple[dict[str, str], Found]:
        return opening.read_seal(signed), Found(1)

    digests = book.value("seal", seal)
    if digests is None:
        return None

    def contents() -> tuple[Opened, Found]:
        opened = opening.check_contents(signed, digests, allow_withheld=trust.allow_withheld)
        withheld = len(opened.files.withheld)
        detail = (
            f"{withheld} withheld, as --allow-withheld accepts"
            if withheld
            else "none missing, none added"
        )
        return opened, Found(len(digests) - withheld, detail, not withheld)

    return book.value("contents", contents)


def _inner(opened: Opened, trust: Trust, book: _Book) -> Dossier | None:
    """The inner checks, in the order of `_INNER`."""
    dossier = book.value("ledger", lambda: recheck.read_record(opened))
    book.check("checkpoint", dossier, lambda d: recheck.check_checkpoints(opened, d))
    book.check("witness", dossier, lambda d: recheck.check_witness(d, trust))
    book.check("inclusion proofs", dossier, lambda d: recheck.check_proofs(opened, d))
    book.check("blobs", dossier, lambda d: recheck.check_blobs(opened, d))
    book.check("plan", dossier, lambda d: _plan(opened, d))
    book.check("stages", dossier, lambda d: check_stages(opened, d))
    book.check("verdicts", dossier, lambda d: _verdicts(opened, d))
    book.check("memory", dossier, lambda d: check_memory(opened, d))
    spent = _spending(opened, dossier, book)
    book.check("injections", spent, lambda s: _injections(opened, dossier, s))
    both = _Composed(opened, dossier, spent) if dossier is not None and spent is not None else None
    book.check("statements", both, lambda c: recheck.check_statements(opened, c.value))
    book.check(
        "approval",
        both,
        lambda c: check_approval(opened, c.dossier, c.accounts, trust.approvers),
    )
    book.check("report", both, lambda c: retell.check_report(opened, c.dossier, c.accounts))
    book.check("handouts", both, lambda c: retell.check_handouts(opened, c.value))
    book.check("claims", dossier, lambda _: recheck.check_claims(opened))
    book.check("bill of materials", dossier, lambda d: check_materials(opened, d))
    book.check("sigstore", both, lambda c: check_sigstore(opened, c.value, trust))
    return dossier


def _spending(opened: Opened, dossier: Dossier | None, book: _Book) -> Spent | None:
    if dossier is None:
        book.check("spending", None, _never)
        return None
    return book.value("spending", lambda: check_spending(opened, dossier))


def _injections(opened: Opened, dossier: Dossier | None, spent: Spent) -> Found:
    return Found(0) if dossier is None else check_injections(opened, dossier, spent)


class _Composed:
    """Composes once what several checks compare with."""

    def __init__(self, opened: Opened, dossier: Dossier, spent: Spent) -> None:
        self._opened = opened
        self.dossier = dossier
        self.accounts = spent.accounts

    @cached_property
    def value(self) -> Composition:
        """The composition."""
        return recheck.compose_again(self._opened, self.dossier, self.accounts)


def _plan(opened: Opened, dossier: Dossier) -> Found:
    begun_by = dossier.run.started.program_sha256 if dossier.run.started else None
    rebuilt = rebuild(
        dossier.plan,
        opened.files,
        registry_sha256=opened.card.registry_sha256,
        same_program=begun_by == program_sha256(),
    )
    left_out = f"{len(rebuilt.withheld)} inputs withheld; " if rebuilt.withheld else ""
    return Found(rebuilt.inputs, f"{left_out}{rebuilt.told()}", not rebuilt.withheld)


def _verdicts(opened: Opened, dossier: Dossier) -> Found:
    regraded = regrade_all(dossier, opened.files)
    left = len(dossier.plan.trials) - regraded.verdicts - len(regraded.withheld)
    parts = [f"{left} trials have none"] if left else []
    raw = regraded.verdicts - regraded.condemned
    if regraded.condemned:
        parts += [f"{raw} from raw reports, {regraded.condemned} condemned by their screening"]
    parts += [f"{len(regraded.withheld)} withheld"] if regraded.withheld else []
    parts += [regraded.words] if regraded.words else []
    whole = not (regraded.withheld or regraded.words)
    detail = "; ".join(parts) or "each from its raw reports"
    return Found(regraded.verdicts, detail, whole)
