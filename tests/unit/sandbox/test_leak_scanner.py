"""Promise: the search is bounded under hostile content, exact about places, and silent about honest bytes."""

from __future__ import annotations

import base64
import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.gittree import FileEntry
from orchestrator.sandbox.layers import make_layer
from orchestrator.sandbox.leaks.forms import base64_core, squeeze
from orchestrator.sandbox.leaks.layers import LayerBook, examine, expected_listing
from orchestrator.sandbox.leaks.scanner import Literal, Scanner, raw_offset

SECRET = Literal("hidden", b"assert quota('blue', 17) == {'left': 12345}", strong=True)


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner([SECRET])


def found(scanner: Scanner, data: bytes):
    return [(hit.encoding, hit.offset) for hit in scanner.scan(data, "x").hits]


@given(before=st.binary(max_size=40), after=st.binary(max_size=40))
def test_base64_is_found_whatever_stands_around_the_literal(before, after):
    text = base64.b64encode(before + SECRET.data + after)
    assert base64_core(SECRET.data, len(before) % 3) in text


@given(st.binary(max_size=300), st.integers(0, 299))
def test_an_offset_of_squeezed_bytes_leads_back_to_the_byte(data, at):
    squeezed = squeeze(data)
    if at < len(squeezed):
        assert data[raw_offset(data, at)] == squeezed[at]


def test_offset_and_encoding_are_told(scanner):
    assert found(scanner, b"  two words\n" + SECRET.data) == [("plain", 12)]
    packed = gzip.compress(SECRET.data)
    assert found(scanner, b"12345" + packed) == [("gzip(plain)", 5)]


def test_random_bytes_and_source_code_raise_no_alarm(scanner):
    noise = random.Random(7).randbytes(2_000_000)
    assert found(scanner, noise) == []
    assert found(scanner, base64.b64encode(noise)) == []
    assert found(scanner, b"import os\nfor name in sorted(os.listdir('.')):\n    print(name)\n" * 2000) == []  # fmt: skip


def test_a_bomb_is_cut_at_the_budget_and_said_to_be(scanner):
    bomb = gzip.compress(bytes(50_000_000) + SECRET.data)
    scan = scanner.scan(bomb, "x", content_bytes=1_000_000)
    assert (scan.hits, scan.partial) == ((), True)
    nested = bomb
    for _ in range(6):
        nested = gzip.compress(nested)
    assert scanner.scan(nested, "x", content_bytes=1_000_000).hits == ()


def test_a_broken_stream_keeps_what_came_before_the_break(scanner):
    noise = random.Random(1).randbytes(4000).hex().encode()
    packed = gzip.compress(SECRET.data + noise)
    assert found(scanner, packed[: len(packed) // 2]) == [("gzip(plain)", 0)]


def test_a_literal_across_the_border_of_two_chunks_is_found(scanner):
    border = 8 * 1024 * 1024
    data = b"." * (border - 10) + SECRET.data + b"." * 100
    assert found(scanner, data) == [("plain", border - 10)]


def test_a_layer_is_searched_once_for_each_literal(tmp_path):
    layer = make_layer([FileEntry("etc/note", "100644", zlib.compress(SECRET.data))])
    book = LayerBook(tmp_path)
    brought: list[str] = []

    def bring(missing):
        brought.extend(missing)
        return [layer]

    first = book.know((layer.diff_id,), [SECRET], bring)
    again = LayerBook(tmp_path).know((layer.diff_id,), [SECRET], bring)
    assert [f.place.partition(": ")[2] for f in first.findings] == ["/etc/note"]
    assert first == again
    assert brought == [layer.diff_id]
    other = Literal("hidden", b"another long line of a hidden test, never seen", strong=True)
    assert book.know((layer.diff_id,), [other], bring).findings == ()
    assert brought == [layer.diff_id] * 2


def test_the_expected_listing_leaves_out_what_mounts_hide_and_what_the_agent_cannot_list(scanner):
    layer = make_layer(
        [
            FileEntry("tmp/x", "100644", b""),
            FileEntry("etc/a", "100755", b"12"),
            FileEntry("etc/l", "120000", b"a"),
        ],
        folders={"work": 0o755},
    )
    assert isinstance(layer.data, bytes)
    _, lines = examine(layer.data, layer.diff_id, scanner)
    listing = {line.partition("\t")[0]: line for line in lines}
    listing["/root"] = "/root\t40700\t0\t0\t\t0"
    listing["/root/.bashrc"] = "/root/.bashrc\t100644\t5\t946684800\t"
    assert expected_listing(listing, ["/", "/tmp", "/work"]) == [
        "/etc\t40755\t0\t0\t",
        "/etc/a\t100755\t2\t946684800\t",
        "/etc/l\t120777\t1\t946684800\ta",
        "/root\t40700\t0\t0\t",
    ]
