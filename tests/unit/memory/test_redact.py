"""Redaction: secrets become typed marks, everything else keeps its bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.memory.redact import redact

# Joined at run time, so that no scanner takes this file for a leak.
GITHUB = "ghp_" + "a1B2" * 9
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
JWT = ".".join(["eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxMjM0In0", "c2lnbmF0dXJl"])
KEY_BLOCK = "-----BEGIN {0}PRIVATE KEY{1}-----\nMIIB\nabc\n-----END {0}PRIVATE KEY{1}-----"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"push with {GITHUB} now", "push with [redacted:github-token] now"),
        ("github_pat_" + "a1_" * 12, "[redacted:github-token]"),
        ("ghp_" + "a1" * 300, "[redacted:github-token]"),
        ("glpat-" + "x1-Y" * 6, "[redacted:gitlab-token]"),
        ("xoxb-" + "12ab-" * 8, "[redacted:slack-token]"),
        (f"id {AWS}.", "id [redacted:aws-key]."),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG",
            "aws_secret_access_key = [redacted:assigned-secret]",
        ),
        (f"Authorization: Bearer {JWT}", "Authorization: Bearer [redacted:jwt]"),
        (
            "authorization: bearer 0123456789abcdef-XYZ",
            "authorization: bearer [redacted:bearer-token]",
        ),
        ("a\n" + KEY_BLOCK.format("RSA ", "") + "\nb", "a\n[redacted:private-key]\nb"),
        (KEY_BLOCK.format("PGP ", " BLOCK"), "[redacted:private-key]"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted:private-key]"),
        ('{"password": "hK3$9sdf8Qw"}', '{"password": "[redacted:assigned-secret]"}'),
        ("DB_PASSWORD=hK3x9sdf8Qw", "DB_PASSWORD=[redacted:assigned-secret]"),
        ("api-key: 'q7Zk2mN9x0'", "api-key: '[redacted:assigned-secret]'"),
    ],
)
def test_a_secret_becomes_a_typed_mark(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "token = get_next_token(stream)",
        "the secret: documentation",
        'password = os.environ["DB_PASSWORD"]',
        "the bearer responsibilities of the on-call engineer",
        "max_tokens = 100000000",
        'the header is Pb-Journey, the text is "parked"',
        "task-runner and disk-usage-report-of-last-night",
        "commit 9675d21c0ffee0123456789012345678901234ab",
    ],
)
def test_prose_code_and_coined_values_keep_their_bytes(text: str) -> None:
    assert redact(text) == text


_PIECES = st.sampled_from(
    [
        GITHUB,
        AWS,
        JWT,
        "password=",
        "secret: ",
        "bearer ",
        "token='",
        "[redacted:jwt]",
        "hK3x9sdf8Qw",
        " ",
        "\n",
        '"',
        "-----BEGIN PRIVATE KEY-----",
    ]
)


@settings(deadline=None)
@given(st.lists(_PIECES | st.text(max_size=12), max_size=12).map("".join))
def test_redacting_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@settings(deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_a_token_between_blanks_never_survives(before: str, after: str) -> None:
    assert GITHUB not in redact(f"{before} {GITHUB} {after}")
