"""Promise: a document that contradicts itself is refused, with words for the contradiction; the sound one is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.model.sound import (
    ABLE,
    AT,
    AT_CLOSE,
    KEY,
    LATER,
    ROLE,
    SHA,
    SOUND,
    TEST,
    candidate,
    event,
    memory_of,
    price,
    tally,
)

TWICE = "unique|once|twice"
HALF, BEFORE = "2026-01-01T00:00:00.500Z", "2025-12-31T00:00:00Z"


def episode(name: str, number: int, started_at: str = AT, **changes: Any) -> dict[str, Any]:
    """An episode with one event."""
    return {"episode_id": name, "started_at": started_at, "events": [event(number, **changes)]}


CONTRADICTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("command", {"argv": ["{token}"]}, "cannot stand in"),
    ("command", {"argv": ["{prompt}"]}, "cannot stand in"),
    ("command", {"environment": [["T", "{token}"], ["P", "{prompt}"]]}, "cannot stand in"),
    ("command", {"environment": [["T", "{token}"], ["T", "x"]]}, "each variable once"),
    ("command", {"prompt": "argument"}, "no argument has {prompt}"),
    ("command", {"environment": []}, "no variable of the environment has {token}"),
    ("window", {"expires_s": 1}, "at most 14 days"),
    ("window", {"expires_s": 2 + 14 * 24 * 3600}, "at most 14 days"),
    ("charge", {"to": "stage"}, "exactly for a charge to a stage"),
    ("charge", {"stage": "capture"}, "exactly for a charge to a stage"),
    ("charge", {"to": "stage", "stage": "capture"}, "exactly for a charge to a stage"),
    (
        "charge",
        {"to": "stage", "stage": "capture", "failure": "durable_fact_missed"},
        "is no failure of",
    ),
    ("charge", {"possible": ["capture"]}, "exactly for stage_opaque"),
    ("charge", {"to": "stage_opaque"}, "exactly for stage_opaque"),
    ("withheld", {"files": [{"path": n, "sha256": SHA} for n in "ba"]}, "sorted by path"),
    ("withheld", {"files": [{"path": "a", "sha256": SHA}] * 2}, "sorted by path and unique"),
    ("trusted", {"keys": [{**KEY, "valid_from": AT, "valid_until": AT}] * 2}, TWICE),
    ("arm", {"budget": None}, "exactly when the adapter delivers memory"),
    ("arm", {"adapter": "none"}, "exactly when the adapter delivers memory"),
    ("arm", {"adapter": "none", "budget": None, "retrieve_k": 1}, "retrieve_k is given only"),
    ("arm", {"program": "p.json"}, "for adapter_kind command and for no other"),
    ("arm", {"adapter_kind": "command"}, "for adapter_kind command and for no other"),
    ("arm", {"product": "p"}, "only with the program that drives it"),
    ("arm", {"adapter_kind": "entry_point", "reviews": "r"}, "given only to a built-in"),
    ("arm", {"role": "control", "claim_bearing": True}, "only a primary arm bears a claim"),
    ("arm", {"door": "gold"}, "told gold facts is never primary"),
    ("arm", {"adapter_kind": "entry_point"}, "its role is diagnostic"),
    ("link", {"target": "../../b"}, "below its prefix"),
    ("link", {"target": "x/../../../b"}, "below its prefix"),
    ("link", {"target": "./b"}, "below its prefix"),
    ("manifest", {"files": list(reversed(SOUND["manifest"][1]["files"]))}, "sorted by path"),
    ("live", {"model": "n"}, "no price for n"),
    ("hooks", {"recall": ["run"]}, "expected dump with recall"),
    ("hooks", {"hooks": {"SessionEnd": ["run"]}}, "expected recall, or a hook SessionStart"),
    ("hooks", {"capabilities": ABLE}, "expected capabilities hooks: true"),
    ("hooks", {"capabilities": {**ABLE, "hooks": True, "as_of": True}}, "as_of: false"),
    ("session", {"events": [event(1), event(1)]}, "event ids must be unique"),
    ("session", {"events": [event(1, at=LATER), event(2)]}, "chronological order"),
    ("session", {"events": [event(1), event(2, at=HALF)]}, "fractional digits.*event e2"),
    ("session", {"started_at": LATER}, "not after .*event e1.*found 2026-01-02"),
    ("capture", {"outcome": "dropped"}, "for a dropped event and for no other"),
    ("capture", {"reason": "r"}, "for a dropped event and for no other"),
    (
        "capture",
        {"outcome": "dropped", "reason": "r", "cut_characters": 1},
        "for a captured event and for no other",
    ),
    ("candidate", {"decision": "promote"}, "for a promoted candidate and for no other"),
    ("candidate", {"memory_id": "m"}, "for a promoted candidate and for no other"),
    ("extraction", {"candidates": [candidate("c")] * 2}, "candidate ids must be unique"),
    ("dump", {"memories": [memory_of("b"), memory_of("a")]}, "sorted by memory_id"),
    ("dump", {"memories": [memory_of("a")] * 2}, "sorted by memory_id and unique"),
    ("dump", {"links": [{"kind": "refines", "from_id": "a", "to_id": "b"}] * 2}, "links must be"),
    ("ranked", {"items": [{"memory_id": "a", "text": "t"}] * 2}, "items must be unique"),
    ("ranked", {"considered": 1}, "at least the number of items"),
    (
        "materials",
        {
            "environment": [
                {"name": n, "version": "1", "licence": None, "record_sha256": SHA} for n in "ba"
            ]
        },
        "environment must be sorted",
    ),
    (
        "materials",
        {"recipes": [{"path": "a", "sha256": SHA}] * 2},
        "recipes must be sorted and unique",
    ),
    ("injection", {"tokens": 2}, "2 tokens are above the budget of 1"),
    ("product", {"site": None}, "site is given exactly where wheels are"),
    ("product", {"wheels": []}, "site is given exactly where wheels are"),
    ("product", {"wheels": [], "site": None}, "found neither"),
    ("ended", {"verdict_sha256": None}, "outcome completed without a verdict"),
    ("ended", {"outcome": "infra_error"}, "outcome infra_error with a verdict"),
    ("review", {"entries": SOUND["review"][1]["entries"] * 2}, "resolved once"),
    ("review", {"held": 0}, "more candidates are resolved than were held"),
    ("review", {"seconds_total": 3}, "the sum of the entries"),
    ("rule", {"threshold": 2}, "threshold 2 of 1 keys"),
    ("roles", {"kind": "local"}, "exactly the roles operator"),
    ("roles", {"roles": {"operator": ROLE}}, "exactly the roles approver, curator"),
    ("call", {"arguments": "not"}, "must be a JSON object"),
    ("call", {"arguments": "[]"}, "must be a JSON object"),
    ("vectors", {"dimensions": 12}, "a multiple of 8"),
    ("card", {"language": "go"}, "pytest is not one of language go"),
    ("limits", {"work_bytes": 32 * 1024**2 + 1}, "at most half of memory_bytes"),
    ("event", {"role": "tool"}, "for role tool and for no other"),
    ("event", {"tool": {"name": "n", "input": ""}}, "for role tool and for no other"),
    (
        "history",
        {"episodes": [{"episode_id": "p", "started_at": AT, "events": [event(1)] * 2}]},
        TWICE,
    ),
    (
        "history",
        {
            "episodes": [
                {"episode_id": "p", "started_at": AT, "events": [event(1, at=LATER), event(2)]}
            ]
        },
        "chronological",
    ),
    ("history", {"episodes": [episode("p", 1), episode("p", 2)]}, "episode ids.*found p again"),
    ("history", {"episodes": [episode("p", 1, started_at=LATER)]}, "episode p must have started"),
    (
        "history",
        {"episodes": [episode("p", 1), episode("q", 2, started_at=BEFORE)]},
        "expected episode q not before episode p",
    ),
    (
        "history",
        {"episodes": [episode("p", 1), episode("q", 2, at=HALF)]},
        "expected 0 in event e2 as in episode p .* found 3",
    ),
    ("pattern", {"pattern": "("}, "not a regular expression"),
    ("key", {"fail_to_pass": [TEST, TEST]}, "fail_to_pass ids must be unique"),
    ("key", {"boundary": "values"}, "values are given for boundary values and for no other"),
    ("key", {"fail_to_pass": [{**TEST, "values": ["1"]}]}, "for boundary values and for no other"),
    (
        "key",
        {
            "boundary": "values",
            "fail_to_pass": [{**TEST, "id": f"{f}::a", "values": ["1"]} for f in "tu"],
        },
        "must be unique",
    ),
    ("suite", {"apart": ["b"]}, "tests of pass_to_pass, each once"),
    ("suite", {"apart": ["a", "a"]}, "tests of pass_to_pass, each once"),
    ("trace", {"failure": AT_CLOSE}, "after the delivery, is no failed delivery"),
    ("prices", {"models": [price("m")] * 2}, "each model must have one price"),
    ("tests", {"tests": [{"id": n, "status": "pass", "n": 1} for n in "ba"]}, "sorted by id"),
    ("tests", {"faults": [{"kind": "seal", "detail": "d"}]}, "not believed holds no tests"),
    ("verdict", {"pass_to_pass": tally(0, 0)}, "an empty set of tests is impossible"),
    ("verdict", {"pass_to_pass": tally(2, 1)}, "resolved must equal"),
    ("verdict", {"failure_reason": "timeout"}, "exactly for an unresolved trial"),
    ("verdict", {"resolved": False, "compiled": False}, "exactly for an unresolved trial"),
    *(
        ("verdict", {name: False}, "resolved must equal")
        for name in ("compiled", "reports_ok", "paths_ok", "patterns_ok", "within_limits")
    ),
    (
        "verdict",
        {"violations": [{"rule": "misconduct", "subject": "s", "detail": "d"}]},
        "resolved must equal",
    ),
]


@pytest.mark.parametrize("name", SOUND)
def test_what_agrees_with_itself_is_read(name):
    of, fields = SOUND[name]
    found = of.model_validate_json(json.dumps(fields)).model_dump(mode="json")
    assert {name: found[name] for name in fields if not isinstance(fields[name], dict | list)} == {
        name: value for name, value in fields.items() if not isinstance(value, dict | list)
    }


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    CONTRADICTIONS,
    ids=[f"{number}-{name}" for number, (name, _, _) in enumerate(CONTRADICTIONS)],
)
def test_a_contradiction_is_refused_in_its_own_words(name, changes, words):
    of, fields = SOUND[name]
    with pytest.raises(ValidationError, match=words.replace("{", r"\{").replace("}", r"\}")):
        of.model_validate_json(json.dumps({**fields, **changes}))
