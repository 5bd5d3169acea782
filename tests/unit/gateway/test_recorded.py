"""Promise: an attempt's calls are read from a record that is still written, and nothing but them is read or held."""

from __future__ import annotations

from orchestrator.core.canonical import sha256_hex
from orchestrator.gateway.bodies import BodyPack
from orchestrator.gateway.log import GENESIS_SHA256
from orchestrator.gateway.recorded import admitted, calls_of, exchanges_of
from orchestrator.model.exchange import Body, TrafficLine
from tests.unit.gateway.test_shown import GIVEN, call, chat

TRIAL = "task/arm/codex/e1"


def line(seq: int, trial: str, request: Body | None = None) -> bytes:
    exchange = call(seq, chat(GIVEN)).exchange
    update = {"trial": trial, "request": request or exchange.request}
    body = exchange.model_copy(update=update)
    return TrafficLine(seq=seq, prev_sha256=GENESIS_SHA256, body=body).canonical() + b"\n"


def test_a_trial_reads_no_line_of_another_whose_name_begins_like_its_own(tmp_path):
    broken = line(0, TRIAL + "0").replace(b'"status":200', b'"status":"x"')
    (tmp_path / "traffic.jsonl").write_bytes(broken + line(1, TRIAL))
    assert [e.ordinal for e in exchanges_of(tmp_path, TRIAL, 1)] == [1]


def test_a_last_line_that_is_still_being_written_is_left_alone(tmp_path):
    (tmp_path / "traffic.jsonl").write_bytes(line(0, TRIAL) + line(1, TRIAL)[:-20])
    assert [e.ordinal for e in exchanges_of(tmp_path, TRIAL, 1)] == [0]


def test_the_requests_of_calls_are_read_one_at_a_time(tmp_path):
    pack = BodyPack(tmp_path / "bodies.pack", write=True)
    bodies = [pack.put(b'{"n": %d}' % number) for number in range(2)]
    pack.close()
    lost = Body(sha256=sha256_hex(b"x"), bytes=1, pieces=(sha256_hex(b"x"),))
    lines = [line(n, TRIAL, body) for n, body in enumerate([*bodies, lost])]
    (tmp_path / "traffic.jsonl").write_bytes(b"".join(lines))
    calls = calls_of(tmp_path, admitted(exchanges_of(tmp_path, TRIAL, 1), role="agent"))
    assert [next(calls).body, next(calls).body] == [{"n": 0}, {"n": 1}]
