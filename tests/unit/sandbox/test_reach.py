"""Promise: the way to the gateway counts as good only if the very word was heard and nothing else was up."""

from __future__ import annotations

import pytest

from orchestrator.sandbox.reach import judge

HEARD: dict[str, object] = {"said": "word", "networks": ["lo"]}


def test_the_word_over_loopback_alone_is_good():
    assert judge(HEARD, "word").ok


@pytest.mark.parametrize(
    "told",
    [
        {},
        {**HEARD, "said": ""},
        {**HEARD, "said": "another"},
        {**HEARD, "networks": ["eth0", "lo"]},
        {**HEARD, "networks": None},
        {"fault": "connection refused", "networks": ["lo"]},
    ],
)
def test_anything_else_is_not(told):
    reach = judge(told, "word")
    assert not reach.ok
    assert reach.found
