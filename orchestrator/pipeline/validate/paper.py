"""The checks that need no container: pins, hidden tests, overlap, leaks, history, redaction. Each says what to change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing

from orchestrator.core.errors import MemtrialError
from orchestrator.core.gittree import FileEntry
from orchestrator.core.patchtext import added_lines
from orchestrator.core.places import cache_root, fixtures_root
from orchestrator.memory.redact import redact
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.sqlite.capture import capture, event_text, open_store
from orchestrator.memory.sqlite.search import search
from orchestrator.model.task import Category, Event
from orchestrator.model.validation import Check, CheckName, Difficulty
from orchestrator.pipeline.validate import handed
from orchestrator.pipeline.validate.telling import telling, units
from orchestrator.pipeline.validate.words import (
    containment,
    content_words,
    cosine,
    hash_vector,
    shared_trigrams,
)
from orchestrator.sandbox.leaks.forms import squeeze
from orchestrator.sources.checkout import Checkout, materialise, repository_entries
from orchestrator.sources.loader import LoadedTask, check_against_checkout

LICENCES = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT OR Apache-2.0",
        "Unlicense",
        "Zlib",
    }
)
MIN_EPISODES, MAX_EPISODES = 10, 30
MAX_CONTAINMENT = 0.25
MIN_DISTRACTOR_WORDS = 2
STALE_CATEGORIES = frozenset(
    {Category.STALE_MEMORY_AVOIDANCE, Category.CONFLICT_AMBIGUITY_HANDLING}
)
# What makes a test's outcome depend on the moment, on chance or on the world.
UNSTABLE = re.compile(
    r"\b(?:time\.sleep|random\.|datetime\.now|time\.time\(|time\.Now\(|math/rand|rand::|SystemTime::now|Instant::now"
    r"|Math\.random|Date\.now|new Date\(\)|setTimeout|socket\.|requests\.|urllib|http\.Get|fetch\(|net\.Dial)"
)
SHARED_GIT_FILES = frozenset({"HEAD", "config", "index", "info/attributes", "refs/heads/main"})


def check(name: CheckName, problems: Sequence[str], seen: str) -> Check:
    """Returns a check that holds when there is no problem; the evidence is what to change, or what was seen."""
    shown = "; ".join(problems[:6])
    return Check(name=name, ok=not problems, evidence=shown if problems else seen)


def pins(task: LoadedTask) -> tuple[Check, Checkout | None]:
    """V1: archive, tree and commit are the pinned ones, and the licence is one that tasks may have."""
    problems = []
    if task.source.licence not in LICENCES:
        problems.append(
            f"licence {task.source.licence}: choose a source under one of {', '.join(sorted(LICENCES))}"
        )
    checkout = None
    try:
        checkout = materialise(
            task.source, fixtures=task.root or fixtures_root(), cache=cache_root()
        )
        check_against_checkout(task, checkout)
    except MemtrialError as error:
        problems.append(f"{error.message}; {error.hint}")
    expect = task.source.expect
    return check(
        "v1-pins", problems, f"tree {expect.tree}, {expect.files} files, {task.source.licence}"
    ), checkout


def hidden_tests(task: LoadedTask) -> Check:
    """V7: every id is new and told apart, no test asks clock, chance or network, and memory tests need the memory."""
    problems = []
    ids = [test.id for test in task.key.card.fail_to_pass]
    known = {test.id for test in task.key.pass_to_pass}
    groups = {test.group for test in task.key.card.fail_to_pass}
    problems += [
        f"no {group} test: skill and memory cannot be told apart without both groups"
        for group in ("capability", "memory")
        if group not in groups
    ]
    problems += [
        f"{name} is a test of the base suite: rename the hidden one"
        for name in ids
        if name in known
    ]
    numbered = [
        n for n in ids if re.search(r"\[(?:\w+)?\d+\]$", n) and task.card.language == "python"
    ]
    problems += [f"{name} has a positional parameter: give it an explicit id" for name in numbered]
    for file in task.key.hidden_files:
        found = UNSTABLE.search(file.text)
        if found:
            problems.append(f"{file.path} uses {found[0]!r}: fix the value in the test")
    problems += handed.problems(task)
    return check(
        "v7-hidden-tests", problems, f"{len(ids)} new ids in {len(task.key.hidden_files)} files"
    )


def overlap(task: LoadedTask, checkout: Checkout | None) -> Check:
    """V8: the prompt does not hold the answer, nor does the checkout."""
    prompt = task.brief.prompt
    problems, seen = [], []
    texts = _texts(checkout.entries if checkout else ())
    for fact in task.key.card.gold_facts:
        share = containment(prompt, fact.statement)
        grams = shared_trigrams(prompt, fact.statement)
        seen.append(f"{fact.id}: containment {share:.2f}")
        if share > MAX_CONTAINMENT:
            problems.append(
                f"{share:.2f} of the prompt's words stand in fact {fact.id}, at most {MAX_CONTAINMENT}: say it otherwise"
            )
        if grams:
            problems.append(f"prompt and fact {fact.id} share {grams[0]!r}: say it otherwise")
        if _all_match(fact.matchers, prompt):
            problems.append(
                f"the prompt gives fact {fact.id} away: name the agreement, not its value"
            )
        problems += [
            f"{path} gives fact {fact.id} away: choose another value or exclude the file"
            for path, text in texts
            if _all_match(fact.matchers, text)
        ][:2]
    return check("v8-overlap", problems, ", ".join(seen))


def leaks(task: LoadedTask, checkout: Checkout | None, layers: Sequence[bytes]) -> Check:
    """V9: no hidden test, patch or fact in an image layer, one commit, no refs; layers of the toolchain are made before any task."""
    if checkout is None:
        return check("v9-leaks", ["the source could not be read: mend v1-pins first"], "")
    problems = []
    git = repository_entries(checkout)
    extra = [
        e.path
        for e in git
        if not e.path.startswith(".git/objects/")
        and e.path.removeprefix(".git/") not in SHARED_GIT_FILES
    ]
    problems += [
        f"{path} in the repository: the pinned checkout has one commit and no other ref"
        for path in extra
    ]
    pinned = b"\n".join(entry.data for entry in checkout.entries)
    files = [file.text.encode() for file in task.key.hidden_files]
    parts = [text.splitlines() for text in files]
    parts.append(added_lines(task.rehearsal.reference_patch.encode()))
    secrets = {unit for lines in parts for unit in units(lines)}
    secrets |= {squeeze(v.encode()) for test in task.key.card.fail_to_pass for v in test.values}
    looked_for = telling(secrets, pinned)
    searched = [squeeze(layer) for layer in layers]
    problems += [
        f"an image layer holds {unit.decode('utf-8', 'replace')!r}: keep key and rehearsal out of images and checkout"
        for unit in looked_for
        if any(unit in layer for layer in searched)
    ]
    return check(
        "v9-leaks",
        problems,
        f"{len(looked_for)} telling lines in none of {len(layers)} layers, {len(git)} files of git",
    )


def history(task: LoadedTask) -> Check:
    """V10: enough episodes, facts that their events say, something that only looks alike, no test names."""
    episodes = task.history.episodes
    events = {e.event_id: e for episode in episodes for e in episode.events}
    card, problems = task.key.card, []
    if not MIN_EPISODES <= len(episodes) <= MAX_EPISODES:
        problems.append(
            f"expected {MIN_EPISODES} to {MAX_EPISODES} episodes, found {len(episodes)}"
        )
    for fact in card.gold_facts:
        said = "\n".join(event_text(events[name]) for name in fact.supporting_event_ids)
        if not _all_match(fact.matchers, said):
            problems.append(
                f"the events of fact {fact.id} do not say it: mend its matchers or its event ids"
            )
    if task.card.category in STALE_CATEGORIES and not card.stale_facts:
        problems.append(
            f"a task about {task.card.category.value} needs a superseded value in stale_facts"
        )
    alike = _distractors(task, events)
    if not alike:
        problems.append(
            "no event is about the same topic without being the answer: add a distractor"
        )
    if not any(e.tool and e.tool.exit_code not in {None, 0} for e in events.values()):
        problems.append("no command of the history failed: real ones do")
    names = {re.split(r"::|/", test.id)[-1] for test in card.fail_to_pass}
    told = [
        name for name in names if len(name) > 8 and any(name in e.text for e in events.values())
    ]
    problems += [f"the history names the hidden test {name}: take it out" for name in told]
    return check(
        "v10-history",
        problems,
        f"{len(episodes)} episodes, {len(events)} events, {len(alike)} alike: {', '.join(alike[:4])}",
    )


def redaction(task: LoadedTask) -> Check:
    """V12: capture's redaction leaves the decisive events alone, and has a secret to take out."""
    events = {e.event_id: e for episode in task.history.episodes for e in episode.events}
    decisive = [n for fact in task.key.card.gold_facts for n in fact.supporting_event_ids]
    problems = [
        f"{n} changes under redaction: choose a value that does not look like a secret"
        for n in decisive
        if redact(event_text(events[n])) != event_text(events[n])
    ]
    secret = [n for n, e in events.items() if redact(event_text(e)) != event_text(e)]
    if not secret:
        problems.append("no event holds a secret to take out: add one where a real session would")
    return check(
        "v12-redaction", problems, f"decisive events unchanged; secrets in {', '.join(secret)}"
    )


def difficulty(task: LoadedTask) -> Difficulty:
    """Returns how a lexical and a hash-embedding search of the prompt rank the first decisive event."""
    events = [e for episode in task.history.episodes for e in episode.events]
    decisive = tuple(
        dict.fromkeys(n for f in task.key.card.gold_facts for n in f.supporting_event_ids)
    )
    with closing(open_store()) as store:
        capture(store, task.history)
        found = [
            hit.event_id for hit in search(store, task.brief.prompt, len(events), scope=PROJECT)
        ]
    prompt = hash_vector(task.brief.prompt)
    scores = {e.event_id: cosine(prompt, hash_vector(event_text(e))) for e in events}
    ranked = sorted((n for n in scores if scores[n] > 0), key=lambda n: (-scores[n], n))
    said = " ".join(event_text(e) for e in events if e.event_id in decisive)
    shared = sorted(set(content_words(task.brief.prompt)) & set(content_words(said)))
    return Difficulty(
        events=len(events),
        decisive_event_ids=decisive,
        fts5_rank=_rank(found, decisive),
        hash_rank=_rank(ranked, decisive),
        shared_words=tuple(shared),
    )


def _rank(found: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((i for i, name in enumerate(found, 1) if name in wanted), None)


def _all_match(matchers: Sequence[str], text: str) -> bool:
    return all(re.search(matcher, text, re.IGNORECASE) for matcher in matchers)


def _texts(entries: Sequence[FileEntry]) -> list[tuple[str, str]]:
    return [
        (e.path, e.data.decode("utf-8", "ignore")) for e in entries if b"\0" not in e.data[:8000]
    ]


def _distractors(task: LoadedTask, events: dict[str, Event]) -> list[str]:
    """Returns the events that share words with prompt or fact and are neither the fact nor its old value."""
    card = task.key.card
    used = {n for f in card.gold_facts for n in f.supporting_event_ids}
    used |= {n for f in card.stale_facts for n in f.event_ids}
    topic = set(
        content_words(" ".join([task.brief.prompt, *(f.statement for f in card.gold_facts)]))
    )
    return [
        n
        for n, e in events.items()
        if n not in used and len(topic & set(content_words(event_text(e)))) >= MIN_DISTRACTOR_WORDS
    ]
