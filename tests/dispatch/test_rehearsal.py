"""Promise: an official run, whole, before a fake provider: approved, dispatched, attested; and no byte of it may change after."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from orchestrator.attest import layout
from orchestrator.audit.approval import check_approval
from orchestrator.audit.trust import Trust
from orchestrator.audit.verify import verify_bundle
from orchestrator.audit.view import FolderView
from orchestrator.cli.main import main
from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import ApprovalRefused, IntegrityError, Negative
from orchestrator.core.pae import to_base64
from orchestrator.gateway.accounts import read_accounts
from orchestrator.ledger.chain import read_entries
from orchestrator.model.approval import APPROVAL_TYPE
from orchestrator.model.plan import Plan
from orchestrator.model.record import RunApproved
from orchestrator.pipeline import plan as planning
from orchestrator.pipeline import seal as sealing
from orchestrator.pipeline.dossier import read_dossier
from orchestrator.pipeline.seal import Signer
from orchestrator.trust.envelope import sign_new
from orchestrator.trust.gate.machine import MANIFEST
from tests.dispatch.supervised import Site, run_played, site
from tests.live import USD, live_plan
from tests.recorded import files_of, seal
from tests.unit.gateway.upstream import USAGES
from tests.unit.trust.support import APPROVERS, LEDGER, key, key_file

# Whom a stranger was told to know as approvers.
PEOPLE = frozenset(approver.public.keyid for approver in APPROVERS)


def official(origin: str) -> Plan:
    # Whether each task's validation is recorded is a matter of the pack, and not of the dispatch.
    with mock.patch.object(planning, "check_valid", return_value=None):
        return live_plan(
            origin,
            phase="official",
            namespace="official-v1",
            task_set="full",
            matrix="primary",
            tasks=(),
            conditions=(),
            epochs=1,
            max_usd_micros=50 * USD,
        )


@dataclass(frozen=True, slots=True)
class Whole:
    """The site of a whole run, and the folder of that run."""

    here: Site
    folder: Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Iterator[Whole]:
    place = Path(tempfile.mkdtemp(prefix=".memtrial-test-", dir=Path.home()))
    try:
        with site(place, official, kind="rehearsal") as here:
            folder = run_played(tmp_path_factory.mktemp("results"), here)
            seal(folder, Signer(LEDGER, "operator"))
            yield Whole(here, folder)
    finally:
        shutil.rmtree(place)


def test_every_trial_of_the_approved_plan_ran_and_was_judged(whole):
    report = json.loads((whole.folder / layout.REPORT).read_bytes())
    assert len(report["trials"]) == len(whole.here.plan.trials) >= 48
    assert all(t["verdict_sha256"] for t in report["trials"])
    assert len(whole.here.provider.seen) == len(whole.here.plan.trials)


def test_the_attested_result_cites_the_approval_and_is_stamped_a_rehearsal(whole):
    approval = (whole.folder / layout.APPROVAL).read_bytes()
    line = (whole.folder / layout.SUMMARY).read_bytes().splitlines()[0]
    summary = json.loads(base64.b64decode(json.loads(line)["payload"]))["predicate"]
    assert summary["approval_sha256"] == sha256_hex(approval)
    assert (summary["phase"], summary["standing"]) == ("official", "rehearsal")
    entries = read_entries(whole.folder / layout.LEDGER)[0]
    (entry,) = [e.body for e in entries if isinstance(e.body, RunApproved)]
    assert (entry.standing, len(entry.signers)) == ("rehearsal", 2)
    text = (whole.folder / layout.REPORT_TEXT).read_text("utf-8")
    assert "no claim can ever pass on it" in " ".join(text.split())


def test_a_stranger_verifies_the_bundle_by_the_ledgers_key_and_the_approval_in_it(whole):
    trust = Trust(now="2099-01-01T00:00:00Z", keyid=LEDGER.public.keyid, approvers=PEOPLE)
    found = verify_bundle(FolderView(whole.folder), trust, name="official")
    assert found.failed == ()
    assert found.standing == "authentic"
    (check,) = [c for c in found.checks if c.name == "approval"]
    assert (check.status, check.count) == ("ok", 2)
    assert "rehearsal: smoke-one" in check.detail


@pytest.mark.parametrize(
    ("cap", "least"),
    [
        ("max_agent_calls", 48),
        ("max_provider_calls", 48),
        ("max_input_tokens", 48 * USAGES["chat"].all_input),
        ("max_output_tokens", 48 * USAGES["chat"].output),
    ],
)
def test_a_stranger_sees_from_the_record_that_what_was_signed_was_kept_to(whole, cap, least):
    """The same record under approvals that allow exactly what was used, and one less."""
    files = files_of(whole.folder)
    card = SimpleNamespace(key=SimpleNamespace(keyid=LEDGER.public.keyid))
    document = whole.here.world.ingredients.approval
    for allowed, kept in ((least, True), (least - 1, False)):
        caps = {**document["caps"], cap: allowed}
        envelope = sign_new(
            canonical_bytes({**document, "caps": caps}), APPROVERS[:2], payload_type=APPROVAL_TYPE
        )
        dossier = read_dossier(files[layout.PLAN], files[layout.LEDGER])
        entry = dossier.run.approved
        assert entry is not None
        dossier.run.approved = entry.model_copy(update={"approval_sha256": sha256_hex(envelope)})
        held = {**files, layout.APPROVAL: envelope}
        opened: Any = SimpleNamespace(files=SimpleNamespace(optional=held.get), card=card)
        accounts = read_accounts(held.get)
        if kept:
            assert check_approval(opened, dossier, accounts, PEOPLE).whole
        else:
            with pytest.raises(Negative, match=f"at most {allowed}"):
                check_approval(opened, dossier, accounts, PEOPLE)


@pytest.mark.parametrize("named", [APPROVERS[0], key("nobody")])
def test_no_other_key_seals_the_run_or_goes_on_with_it(whole, capsys, monkeypatch, tmp_path, named):
    path = key_file(tmp_path, named)
    before = files_of(whole.folder)
    assert main(["seal", str(whole.folder), "--key", str(path)]) == ApprovalRefused.exit_code
    assert "seal-not-by-ledger" in capsys.readouterr().err
    monkeypatch.setenv("MEMTRIAL_SIGNING_KEY", str(path))
    monkeypatch.setattr("orchestrator.pipeline.whole.is_whole", lambda *_, **__: False)
    assert main(["resume", str(whole.folder)]) == ApprovalRefused.exit_code
    assert "seal-not-by-ledger" in capsys.readouterr().err
    assert files_of(whole.folder) == before


def test_a_run_that_was_not_sealed_yet_goes_on_with_no_key_made_for_once(
    whole, capsys, monkeypatch, tmp_path
):
    unsealed = tmp_path / whole.folder.name
    shutil.copytree(whole.folder, unsealed)
    (unsealed / layout.SEAL).unlink()
    monkeypatch.delenv("MEMTRIAL_SIGNING_KEY", raising=False)
    assert main(["resume", str(unsealed)]) == ApprovalRefused.exit_code
    assert "found no key" in " ".join(capsys.readouterr().err.split())
    assert not (unsealed / layout.SEAL).exists()


def test_a_stranger_sees_that_another_key_than_the_ledgers_sealed_it(whole, tmp_path, monkeypatch):
    """The publisher names that key, so all else holds."""
    folder = tmp_path / whole.folder.name
    shutil.copytree(whole.folder, folder)
    monkeypatch.setattr(sealing, "check_ledgers_key", lambda *_: None)
    seal(folder, Signer(APPROVERS[0], "operator"))
    trust = Trust(now="2099-01-01T00:00:00Z", keyid=APPROVERS[0].public.keyid, approvers=PEOPLE)
    found = verify_bundle(FolderView(folder), trust, name="official")
    (failed,) = [c for c in found.checks if c.status == "failed"]
    assert (failed.name, failed.reference) == ("approval", "seal-not-by-ledger")
    assert found.standing == "refused"


def test_a_stranger_sees_that_the_roles_beside_an_approval_are_not_those_of_its_signers(whole):
    """A thief seals with a key of their own, and puts it into the roles as the ledger's."""
    files, thief = files_of(whole.folder), key("thief")
    roles = json.loads(files[layout.ROLES])
    (ledger,) = roles["roles"]["ledger"]["keys"]
    ledger |= {"keyid": thief.public.keyid, "public_key": to_base64(thief.public.raw)}
    held = {**files, layout.ROLES: canonical_bytes(roles)}
    card = SimpleNamespace(key=SimpleNamespace(keyid=thief.public.keyid))
    opened: Any = SimpleNamespace(files=SimpleNamespace(optional=held.get), card=card)
    dossier = read_dossier(files[layout.PLAN], files[layout.LEDGER])
    with pytest.raises(Negative, match="the roles that the approval names"):
        check_approval(opened, dossier, read_accounts(held.get), PEOPLE)


def dispatch_again(here: Site, run_id: str, plan: Plan | None = None) -> tuple[int | None, str]:
    before = len(here.provider.seen)
    with pytest.raises(ApprovalRefused) as refused:
        here.way(plan).approve(run_id)
    assert len(here.provider.seen) == before
    return refused.value.check, refused.value.reference


def test_another_run_of_the_same_approval_is_refused(whole):
    assert dispatch_again(whole.here, "another-run") == (15, "nonce-used")


def test_the_same_run_may_go_on_and_any_changed_byte_ends_that(whole):
    way = whole.here.way()
    way.approve(whole.folder.name)
    way.end()


def observed(**changes: Any) -> Callable[[Site], None]:
    """Another measurement of what the run is made from, as a changed file gives it."""

    def change(here: Site) -> None:
        found = here.world.observed
        here.world.observed = type(found)(
            found.inputs.model_copy(update=changes), found.runner_sha256
        )

    return change


def wheel(here: Site) -> None:
    """A file of an installed distribution that is not what its RECORD says."""

    def changed(_: Plan) -> Any:
        raise IntegrityError(
            "installed-file-changed", "expected its RECORD, found other bytes", hint="x"
        )

    here.world.changes["observe"] = changed


def recipe(here: Site) -> None:
    """An image's recipe that gives another image than the plan names."""

    def changed(_: Plan) -> None:
        raise IntegrityError("plan-does-not-fit", "expected another image", hint="x")

    here.world.changes["rebuild"] = changed


def supervisors_file(here: Site) -> None:
    path = here.world.prefix / "lib" / "supervisor.py"
    path.write_bytes(path.read_bytes().replace(b"print", b"Print"))


def manifest(here: Site) -> None:
    path = here.world.system / MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"bytes":4', b'"bytes":5'))


CHANGES: dict[str, tuple[Callable[[Site], None], int, str]] = {
    "image": (observed(images=("sha256:" + "0" * 64,)), 10, "input-not-the-approved-one"),
    "recipe of an image": (recipe, 10, "plan-does-not-fit"),
    "registry": (observed(conditions_sha256="0" * 64), 10, "input-not-the-approved-one"),
    "fixture": (observed(fixtures_sha256="0" * 64), 10, "input-not-the-approved-one"),
    "memory": (observed(memory_config_sha256="0" * 64), 10, "input-not-the-approved-one"),
    "curator": (observed(curator_manifest_sha256="0" * 64), 10, "input-not-the-approved-one"),
    "wheels": (observed(installed_manifest_sha256="0" * 64), 10, "input-not-the-approved-one"),
    "file of a wheel": (wheel, 10, "installed-file-changed"),
    "supervisor's file": (supervisors_file, 12, "supervisor-changed"),
    "supervisor's manifest": (manifest, 12, "manifest-not-the-approved-one"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_one_changed_byte_afterwards_refuses_the_next_dispatch(whole, what):
    here, (change, check, code) = whole.here, CHANGES[what]
    kept = (here.world.observed, dict(here.world.changes))
    files = {
        p: p.read_bytes()
        for p in (here.world.prefix / "lib/supervisor.py", here.world.system / MANIFEST)
    }
    change(here)
    try:
        assert dispatch_again(here, whole.folder.name) == (check, code)
    finally:
        here.world.observed = kept[0]
        here.world.changes.clear()
        here.world.changes.update(kept[1])
        for path, data in files.items():
            path.write_bytes(data)


def of_plan(change: Callable[[dict[str, Any]], object]) -> Callable[[Plan], bytes]:
    def changed(plan: Plan) -> bytes:
        document = json.loads(plan.canonical())
        change(document)
        return canonical_bytes(document)

    return changed


@pytest.mark.parametrize(
    "change",
    [
        of_plan(lambda d: d.update(order_seed=d["order_seed"] ^ 1)),
        of_plan(lambda d: d["gateway"]["prices"]["models"][0].update(input=1)),
        of_plan(lambda d: d["tasks"][0]["agent_image"].update(id="sha256:" + "0" * 64)),
    ],
    ids=["plan", "price", "image in the plan"],
)
def test_one_changed_byte_of_the_plan_refuses_the_next_dispatch(whole, change):
    way = whole.here.way()
    way._plan_data = change(whole.here.plan)
    with pytest.raises(ApprovalRefused) as refused:
        way.approve(whole.folder.name)
    assert (refused.value.check, refused.value.reference) == (10, "plan-not-the-approved-one")


def test_every_byte_of_the_plan_counts(whole):
    """One bit at forty places, spread over the plan."""
    data = whole.here.plan.canonical()
    for number in range(40):
        at = number * len(data) // 40
        way = whole.here.way()
        way._plan_data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(ApprovalRefused) as refused:
            way.approve(whole.folder.name)
        assert (refused.value.check, refused.value.reference) == (10, "plan-not-the-approved-one")


def test_a_rehearsals_root_approves_no_real_provider(clean_folder):
    with site(
        clean_folder, lambda _: official("https://api.example.com"), kind="rehearsal"
    ) as here:
        assert dispatch_again(here, "run-1") == (10, "upstream-not-a-provider")


def test_an_organisations_root_approves_no_fake_provider(clean_folder):
    with site(clean_folder, official) as here:
        assert dispatch_again(here, "run-1") == (10, "upstream-not-a-provider")
