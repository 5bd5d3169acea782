"""Promise: a local live run needs its operator's signature over these exact bytes, cap, upstream and time."""

from __future__ import annotations

import pytest

from orchestrator.core.canonical import canonical_bytes
from orchestrator.core.clock import utc_text_of
from orchestrator.core.errors import ApprovalRefused, UsageError
from orchestrator.core.keys import SigningKey
from orchestrator.core.strictjson import parse_json
from orchestrator.model.approval import APPROVAL_TYPE, LOCAL_TYPE, Upstream, Window
from orchestrator.trust.approvals import draft_local, in_plain_words, usd, usd_micros, window_of
from orchestrator.trust.envelope import sign_new
from orchestrator.trust.gate import local
from orchestrator.trust.gate.local import CHECKS, Asked, dispatch_local, pass_local_gate
from orchestrator.trust.home import KEY, PIN, ROLES, make_home, open_home
from tests.live import NOW_S, USD, Case, live_plan, local_case
from tests.recorded import TINY, make_plan


@pytest.fixture(scope="module")
def plan():
    return live_plan()


@pytest.fixture
def case(tmp_path, plan) -> Case:
    return local_case(tmp_path, plan)


def refused(asked: Asked) -> tuple[int | None, str]:
    with pytest.raises(ApprovalRefused) as error:
        pass_local_gate(asked)
    assert error.value.exit_code == 5
    return error.value.check, error.value.reference


def test_an_approved_plan_gets_a_permit_for_itself_alone(case):
    leave = pass_local_gate(case.asked())
    permit = leave.permit
    assert permit.plan_sha256 == case.plan.digest_sha256()
    assert permit.max_usd_micros == 5 * USD
    assert permit.upstreams == (("openai", "http://127.0.0.1:9"),)
    assert permit.not_after == "2027-01-16T08:00:00.000Z"
    assert leave.approval.standing == "directional"


def test_each_check_refuses_by_its_number_and_name(case, tmp_path):
    other = SigningKey.generate()
    payload = case.approval.canonical()
    stranger = sign_new(payload, (other,), payload_type=LOCAL_TYPE)
    scripted = make_plan(TINY).canonical()
    dearer = case.plan.canonical().replace(
        b'"per_run_usd_micros":5000000', b'"per_run_usd_micros":5000001'
    )
    changed = case.plan.canonical().replace(b'"order_seed":0', b'"order_seed":1')
    elsewhere = local_case(tmp_path / "elsewhere", case.plan)
    window = Window(not_before_s=NOW_S, expires_s=NOW_S + 61)
    up = (Upstream(provider="openai", origin="https://evil.example"),)
    found = [
        refused(case.asked(plan_data=b"{}")),
        refused(case.asked(plan_data=case.plan.canonical() + b"\n")),
        refused(case.asked(plan_data=scripted)),
        refused(case.asked(envelope_data=stranger)),
        refused(case.asked(envelope_data=case.sign(payload, APPROVAL_TYPE))),
        refused(case.asked(envelope_data=case.sign(payload + b" "))),
        refused(case.asked(envelope_data=case.envelope(max_usd_micros=0))),
        refused(case.asked(envelope_data=case.envelope(root_sha256="0" * 64))),
        refused(case.asked(plan_data=changed)),
        refused(case.asked(plan_data=dearer)),
        refused(case.asked(envelope_data=case.envelope(max_usd_micros=4_999_999))),
        refused(case.asked(envelope_data=case.envelope(upstreams=up))),
        refused(case.asked(now_s=NOW_S - 1)),
        refused(case.asked(envelope_data=case.envelope(window=window), now_s=NOW_S + 61)),
        refused(case.asked(home=elsewhere.home)),
    ]
    assert found == [
        (1, "plan-invalid"),
        (1, "plan-invalid"),
        (1, "plan-not-live"),
        (2, "signer-not-in-role"),
        (2, "payload-type-not-expected"),
        (3, "json-not-canonical"),
        (3, "approval-invalid"),
        (4, "root-not-the-approved-one"),
        (5, "plan-not-the-approved-one"),
        (1, "plan-invalid"),
        (6, "cap-above-approval"),
        (7, "upstream-not-approved"),
        (8, "approval-not-yet-valid"),
        (8, "approval-expired"),
        (2, "signer-not-in-role"),
    ]


def test_an_approval_serves_one_run_and_that_run_again(case):
    dispatch_local(case.asked())
    dispatch_local(case.asked(now_s=NOW_S + 600))
    assert refused(case.asked(run_id="run-2")) == (9, "nonce-used")


def test_a_clock_set_back_is_refused(case):
    dispatch_local(case.asked(now_s=NOW_S + 600))
    second = local_case(case.home.folder.parent, case.plan)
    assert second.home.roles.sha256 == case.home.roles.sha256
    asked = second.asked(run_id="run-2", now_s=NOW_S + 60)
    assert refused(asked) == (9, "clock-set-back")


def test_validating_reserves_nothing(case):
    pass_local_gate(case.asked())
    pass_local_gate(case.asked(run_id="run-2"))
    assert case.home.book.state().lines == ()


def test_every_field_of_an_approval_counts(case):
    """Each leaf of the signed document, changed by one, is refused under the operator's own signature."""
    document = parse_json(case.approval.canonical(), where="approval")
    leaves = list(_leaves(document, ()))
    assert len(leaves) >= 12
    free = {("approval_id",), ("nonce",)}
    for path, value in leaves:
        twin = canonical_bytes(_with(document, path, _flipped(value)))
        if path in free:
            # Names of this approval: nothing else in the world says what they must be.
            pass_local_gate(case.asked(envelope_data=case.sign(twin)))
            continue
        if path == ("window", "not_before_s"):
            twin = canonical_bytes(_with(document, path, NOW_S + 61))
        if path == ("window", "expires_s"):
            twin = canonical_bytes(_with(document, path, NOW_S + 60))
        if path == ("max_usd_micros",):
            twin = canonical_bytes(_with(document, path, 5 * USD - 1))
        assert refused(case.asked(envelope_data=case.sign(twin)))[0] is not None, path


def test_an_unsigned_change_of_one_bit_anywhere_is_refused(case):
    data = case.envelope()
    for at in range(0, len(data), 3):
        twin = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(ApprovalRefused):
            pass_local_gate(case.asked(envelope_data=twin))


def test_the_checks_stand_in_one_numbered_list():
    assert len(CHECKS) == 9


def test_the_operators_key_is_made_once_and_only_its_owner_can_read_it(tmp_path):
    one, two = make_home(tmp_path / "local"), make_home(tmp_path / "local")
    assert one.key().public == two.key().public
    assert (tmp_path / "local").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "local" / KEY).stat().st_mode & 0o777 == 0o600


def test_roles_that_are_not_the_pinned_ones_are_refused(tmp_path):
    mine, theirs = make_home(tmp_path / "mine"), make_home(tmp_path / "theirs")
    assert mine.roles.sha256 != theirs.roles.sha256
    (mine.folder / ROLES).write_bytes((theirs.folder / ROLES).read_bytes())
    with pytest.raises(ApprovalRefused, match="pinned"):
        open_home(mine.folder)


def test_a_corner_that_others_can_enter_is_refused(tmp_path):
    home = make_home(tmp_path / "local")
    home.folder.chmod(0o755)
    with pytest.raises(ApprovalRefused, match="mode 0700"):
        open_home(home.folder)
    home.folder.chmod(0o700)
    (home.folder / PIN).unlink()
    with pytest.raises(ApprovalRefused, match="expected the operator's key"):
        open_home(home.folder)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-1",
        "1e3",
        "nan",
        "1_000",
        "0.0000001",
        "1000001",
        "",
        " 1",
        "٣",
        "1.2.3",
        "5." + "0" * 19,
    ],
)
def test_other_amounts_are_refused(text):
    with pytest.raises(UsageError, match="expected --max-usd"):
        usd_micros(text, option="--max-usd")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("5", 5_000_000),
        ("2.50", 2_500_000),
        ("0.000001", 1),
        ("1000000", 10**12),
        ("5." + "0" * 18, 5_000_000),
    ],
)
def test_amounts_are_read_exactly(text, micros):
    assert usd_micros(text, option="--max-usd") == micros


def test_what_a_signature_allows_is_said_in_words(case):
    words = "\n".join(
        in_plain_words(case.plan, max_usd_micros=5 * USD, window=window_of(NOW_S, 24))
    )
    for said in (
        "2 (1 task x 2 arms x 1 agent x 1 epoch), each at most 3 times",
        "no_memory, curated_file_budgeted",
        "model-1, 3.00 USD in and 15.00 USD out for a million tokens",
        "http://127.0.0.1:9 (openai)",
        "at most 5.00 USD in all",
        "2027-01-15T08:00:00.000Z to 2027-01-16T08:00:00.000Z",
        "directional; no claim may rest on it",
        case.plan.digest_sha256(),
    ):
        assert said in words
    assert usd(1) == "0.000001 USD"


def test_a_cap_below_what_the_plan_may_spend_is_not_signed(plan):
    with pytest.raises(
        ApprovalRefused, match=r"may spend at most 4\.00 USD, found one that may spend 5\.00 USD"
    ):
        draft_local(plan, root_sha256="0" * 64, max_usd_micros=4 * USD, window=window_of(NOW_S, 1))


def _leaves(value, path):
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, number))
    else:
        yield path, value


def _flipped(value):
    if isinstance(value, int):
        return value ^ 1
    last = "0" if value[-1] != "0" else "1"
    return value[:-1] + last


def _with(value, path, leaf):
    if not path:
        return leaf
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(value[path[0]], path[1:], leaf)
    return copy


def test_a_plan_of_another_phase_is_not_for_one_person_to_approve(case):
    """Signed over that very plan, so that nothing but its phase speaks against it."""
    smoke = live_plan(phase="smoke", namespace="smoke-one")
    envelope = case.envelope(plan_sha256=smoke.digest_sha256())
    with pytest.raises(ApprovalRefused) as refused:
        pass_local_gate(case.asked(plan_data=smoke.canonical(), envelope_data=envelope))
    assert (refused.value.check, refused.value.reference) == (1, "phase-not-local")


def test_a_check_that_comes_too_early_refuses(case):
    state = local._State(case.asked())
    for check in local.CHECKS[3:]:
        with pytest.raises(ApprovalRefused) as refused:
            check(state)
        assert refused.value.reference == "check-out-of-order"


def test_the_window_begins_with_its_first_second_and_ends_before_its_last(case):
    window = case.approval.window
    for now_s in (window.not_before_s, window.expires_s - 1):
        assert pass_local_gate(case.asked(now_s=now_s)).approval == case.approval
    assert refused(case.asked(now_s=window.not_before_s - 1)) == (8, "approval-not-yet-valid")
    assert refused(case.asked(now_s=window.expires_s)) == (8, "approval-expired")


@pytest.mark.parametrize("missing", ["plan", "approval"])
def test_pin_and_approval_are_both_known_or_neither(case, missing):
    state = local._State(case.asked(), plan=case.plan, approval=case.approval)
    assert state.known() == (case.plan.gateway, case.approval)
    setattr(state, missing, None)
    with pytest.raises(ApprovalRefused) as refused:
        state.known()
    assert refused.value.reference == "check-out-of-order"


def test_a_corner_below_folders_that_are_not_there_is_made_with_files_of_its_owners_alone(tmp_path):
    home = make_home(tmp_path / "not" / "there" / "local")
    modes = {name: (home.folder / name).stat().st_mode & 0o777 for name in (KEY, PIN, ROLES)}
    assert set(modes.values()) == {0o600}


def test_a_corner_that_was_begun_is_finished_with_the_key_that_it_has(tmp_path):
    begun = make_home(tmp_path / "local")
    key = begun.key().public
    for name in (PIN, ROLES):
        (begun.folder / name).unlink()
    assert make_home(begun.folder).key().public == key


@pytest.mark.parametrize("kept", [PIN, ROLES])
def test_a_corner_of_which_a_part_is_gone_is_not_made_anew(tmp_path, kept):
    home = make_home(tmp_path / "local")
    before = (home.folder / kept).read_bytes()
    (home.folder / ({PIN, ROLES} - {kept}).pop()).unlink()
    with pytest.raises(ApprovalRefused, match="expected the operator's key"):
        make_home(home.folder)
    assert (home.folder / kept).read_bytes() == before


@pytest.mark.parametrize("name", [PIN, ROLES])
def test_a_link_in_the_corner_is_not_followed(tmp_path, name):
    home = make_home(tmp_path / "local")
    (home.folder / name).rename(tmp_path / name)
    (home.folder / name).symlink_to(tmp_path / name)
    with pytest.raises(ApprovalRefused) as refused:
        open_home(home.folder)
    assert refused.value.reference == "no-local-approver"


def test_the_end_of_a_local_window_is_told_as_a_time_and_in_words(case):
    window = case.approval.window
    with pytest.raises(ApprovalRefused) as late:
        pass_local_gate(case.asked(now_s=window.expires_s))
    end = utc_text_of(window.expires_s)
    assert (
        late.value.message == f"expected a time before {end}, found {end}: the approval has expired"
    )
    with pytest.raises(ApprovalRefused) as early:
        pass_local_gate(case.asked(now_s=window.not_before_s - 1))
    assert early.value.message == (
        f"expected a time from {utc_text_of(window.not_before_s)} on, "
        f"found {utc_text_of(window.not_before_s - 1)}: the approval does not hold yet"
    )
