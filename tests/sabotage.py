"""Memory systems with one planted fault each, and readers with one: what attribution has to find.

The planted system knows the answer key, which no real one can: it carries every fact from its events to the
agent, and then breaks exactly where it is told to. Everything around it is the real path.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.agents.scripted import ScriptedDriver
from orchestrator.core.patchtext import touched_paths
from orchestrator.core.places import fixtures_root
from orchestrator.memory.builtin import BuiltinMemory, ranked_of
from orchestrator.memory.compile import HEADER, framed, render_item
from orchestrator.memory.faults import AdapterFault
from orchestrator.memory.none import NoMemoryAdapter
from orchestrator.memory.sessions import PROJECT
from orchestrator.memory.tokens import TokenCounter
from orchestrator.model.attribution import Failure
from orchestrator.model.condition import Condition, MemoryBudget
from orchestrator.model.lifecycle import (
    Candidate,
    CaptureReport,
    CompiledContext,
    Description,
    EventCapture,
    ExtractionReport,
    Observed,
    Query,
    Ranked,
    RankedItem,
    Session,
    Snapshot,
    StoredMemory,
    StoreDump,
    StoreLink,
)
from orchestrator.model.plan import Plan, TaskPin, Trial
from orchestrator.model.task import FollowerFact, GoldFact, Rehearsal, StaleFact
from orchestrator.pipeline.bench import Bench
from orchestrator.pipeline.isolation import Guard
from orchestrator.pipeline.options import PlanRequest
from orchestrator.pipeline.run import Run
from orchestrator.protocols import (
    AgentDriver,
    GatewayAccess,
    Launch,
    MemoryAdapter,
    MemoryPlace,
    Sandbox,
)
from orchestrator.scoring.matching import counterparts, holds, occurs_in
from orchestrator.scoring.patch import checked_lines
from orchestrator.sources.loader import LoadedTask, load_task
from tests.fakes.sandbox import guard_over
from tests.recorded import PlayedSandbox, make_plan
from tests.rehearsed import Rehearsed, rehearse

ADAPTER = "planted"
K = 12
BUDGET = MemoryBudget(unit="o200k_base", max_tokens=4000)
HONEST = "oracle_evidence"
CONTROL = "no_memory"
STALE_ONLY = frozenset(
    {Failure.CONFLICT_NOT_DETECTED, Failure.STALE_MEMORY_NOT_INVALIDATED, Failure.MEMORY_MISAPPLIED}
)
"""Faults that need a superseded value in the task."""

READERS = frozenset({Failure.RETRIEVED_BUT_IGNORED, Failure.MEMORY_MISAPPLIED})
CRASHES = ("open", "ingest", "settle", "freeze", "retrieve", "compile")
OPAQUE = "opaque"


def arm_of(failure: Failure) -> str:
    """Returns the id of the arm with a fault."""
    return f"planted_{failure.value}"


def crash_arm(step: str) -> str:
    """Returns the id of the arm whose service is gone at a step."""
    return f"unreachable_at_{step}"


def conditions() -> tuple[Condition, ...]:
    """Returns the arms of the matrix: without memory, honest, and one for each fault."""
    names = [HONEST, *map(arm_of, Failure), *map(crash_arm, CRASHES), OPAQUE]
    none = Condition(id=CONTROL, role="primary", summary="nothing", adapter="none")
    return (
        none,
        *(
            Condition(
                id=name,
                role="diagnostic",
                summary=f"planted: {name}",
                adapter=ADAPTER,
                budget=BUDGET,
                retrieve_k=K,
            )
            for name in names
        ),
    )


def matrix(plan: Plan, arms: tuple[Condition, ...] | None = None) -> Plan:
    """Returns a plan of the same tasks and agents over the arms of the matrix."""
    arms = arms or conditions()
    cells = [
        (task.digests.id, condition.id, agent.name)
        for task in plan.tasks
        for condition in arms
        for agent in plan.agents
    ]
    trials = tuple(
        Trial(seq=seq, task_id=task, condition_id=condition, agent=agent, epoch=1)
        for seq, (task, condition, agent) in enumerate(cells)
    )
    copied = plan.model_copy(update={"conditions": arms, "trials": trials, "curated": ()})
    settings = tuple(
        copied.setting(task.digests.id, condition.id) for task in plan.tasks for condition in arms
    )
    return Plan.parse(copied.model_copy(update={"arms": settings}).canonical(), where="matrix")


def applies(failure: Failure, task: LoadedTask) -> bool:
    """Whether a fault can be planted in a task: some need a superseded value, one that does not say a fact itself."""
    if failure not in STALE_ONLY:
        return True
    texts = {e.event_id: e.text for ep in task.history.episodes for e in ep.events}
    stale = task.key.card.stale_facts
    old = "\n".join(texts[event] for s in stale for event in s.event_ids)
    against = counterparts(task.key)
    facts = [fact for fact in task.key.card.gold_facts if against[fact.id]]
    return any(not holds(fact, old) for fact in facts)


def expected(failure: Failure, task: LoadedTask) -> Failure:
    """What a planted fault is charged as.

    Where doing what seems natural is doing what the superseded value says, a reader that ignores the memory
    cannot be told from one that takes the old value out of it: the stage is the same.
    """
    if failure is not Failure.RETRIEVED_BUT_IGNORED:
        return failure
    lines, _ = checked_lines(task.rehearsal.natural_patch.encode())
    texts = {e.event_id: e.text for ep in task.history.episodes for e in ep.events}
    told = "\n".join(
        texts[event] for fact in task.key.card.gold_facts for event in fact.supporting_event_ids
    )
    natural = any(
        holds(stale, told) and all(occurs_in(pattern, lines) for pattern in stale.matchers)
        for stale in task.key.card.stale_facts
    )
    return Failure.MEMORY_MISAPPLIED if natural else failure


@dataclass(frozen=True)
class _Texts:
    """What the planted system makes of a timeline."""

    events: dict[str, str]

    def of(self, events: tuple[str, ...]) -> str:
        return "\n".join(self.events[event] for event in events)


class Planted(BuiltinMemory):
    """Carries every gold fact to the agent, but for the fault that is planted."""

    name = ADAPTER

    def __init__(self, task: LoadedTask, counter: TokenCounter, fault: str) -> None:
        super().__init__(counter)
        self._key = task.key
        self._fault = fault
        self._texts = _Texts(
            {e.event_id: e.text for episode in task.history.episodes for e in episode.events}
        )
        self._links: tuple[StoreLink, ...] = ()
        self._candidates: list[Candidate] = []
        self._against = counterparts(task.key)

    def _planted(self, *failures: Failure) -> bool:
        return self._fault in map(arm_of, failures)

    def _dies_at(self, step: str) -> None:
        if self._fault == crash_arm(step):
            raise AdapterFault("crashed", "service-reachable", "connection refused")

    def describe(self) -> Description:
        """Shows all parts, or hides how it makes and keeps memories."""
        shown = super().describe()
        hides = (Observed.CAPTURE, Observed.RETRIEVAL)
        update = {"shows": hides} if self._fault == OPAQUE else {}
        return shown.model_copy(update={**update, "extractor": "planted"})

    def open(self, place: MemoryPlace) -> None:
        """Begins with no memory."""
        self._dies_at("open")
        super().open(place)

    def ingest(self, session: Session) -> CaptureReport:
        """Captures every event, or none that a fact rests on."""
        self._dies_at("ingest")
        gold = {e for f in self._key.card.gold_facts for e in f.supporting_event_ids}
        lost = gold if self._planted(Failure.EVIDENCE_NOT_CAPTURED) else set()
        return CaptureReport(
            session_id=session.session_id,
            events=tuple(
                EventCapture(event_id=e.event_id, outcome="dropped", reason="planted")
                if e.event_id in lost
                else EventCapture(event_id=e.event_id, outcome="captured")
                for e in session.events
            ),
        )

    def settle(self, deadline_s: int) -> ExtractionReport:
        """Makes a candidate and a memory of every fact."""
        self._dies_at("settle")
        unmade = self._planted(Failure.EVIDENCE_NOT_CAPTURED, Failure.DURABLE_FACT_MISSED)
        if not unmade and self._fault != OPAQUE:
            for fact in self._key.card.gold_facts:
                self._extract(fact)
        for number, (event, text) in enumerate(self._distractors()):
            self._keep(f"d{number}", text, (event,))
        if self._planted(Failure.IRRELEVANT_MEMORY_SELECTED):
            event, text = self._distractors()[0]
            for number in range(K):
                self._keep(f"dup{number:02d}", f"{text} (heard {number + 1} times)", (event,))
        if self._planted(Failure.CONTEXT_BUDGET_DROPPED):
            event, text = self._distractors()[0]
            self._keep("filler", self._filling(text), (event,))
        if self._planted(*STALE_ONLY, Failure.UPDATE_NOT_APPLIED):
            self._keep_stale()
        return ExtractionReport(extractor="planted", candidates=tuple(self._candidates))

    def _extract(self, fact: GoldFact) -> None:
        scope = "elsewhere" if self._planted(Failure.WRONG_SCOPE) else PROJECT
        text = self._texts.of(fact.supporting_event_ids)
        if self._planted(Failure.UNSUPPORTED_CLAIM_SAVED):
            claim = f"As agreed, the value is {len(text)}00417."
            self._candidates.append(self._candidate(fact, text, PROJECT, memory_id=None))
            self._keep(f"x-{fact.id}", claim, fact.supporting_event_ids)
            return
        status = "superseded" if self._planted(Failure.UPDATE_NOT_APPLIED) else "active"
        if self._planted(Failure.MEMORY_MISAPPLIED):
            text += "".join(
                f"\nBefore: {self._texts.of(s.event_ids)}" for s in self._against[fact.id]
            )
        self._keep(f"m-{fact.id}", text, fact.supporting_event_ids, scope=scope, status=status)
        self._candidates.append(self._candidate(fact, text, scope, memory_id=f"m-{fact.id}"))

    def _candidate(self, fact: GoldFact, text: str, scope: str, memory_id: str | None) -> Candidate:
        return Candidate(
            candidate_id=f"c-{fact.id}",
            kind="fact",
            text=text,
            scope=scope,
            evidence_event_ids=fact.supporting_event_ids,
            decision="promote" if memory_id else "reject",
            rule="planted",
            memory_id=memory_id,
        )

    def _keep(
        self,
        memory_id: str,
        text: str,
        events: tuple[str, ...],
        *,
        scope: str = PROJECT,
        status: str = "active",
    ) -> None:
        document = {
            "memory_id": memory_id,
            "kind": "fact",
            "text": text,
            "scope": scope,
            "status": status,
            "evidence_event_ids": events,
        }
        self._memories.append(StoredMemory.model_validate(document))

    def _keep_stale(self) -> None:
        """Keeps superseded values: current in the store, or only known to be old."""
        current = not self._planted(Failure.MEMORY_MISAPPLIED)
        for stale in self._key.card.stale_facts:
            text = self._only(stale)
            if text is None:
                continue
            status = "active" if current else "superseded"
            self._keep(f"m-{stale.id}", text, stale.event_ids, status=status)
        if self._planted(Failure.STALE_MEMORY_NOT_INVALIDATED):
            self._links = tuple(
                StoreLink(kind="contradicts", from_id=f"m-{fact.id}", to_id=f"m-{stale.id}")
                for fact in self._key.card.gold_facts
                for stale in self._against[fact.id]
                if self._only(stale) is not None
            )

    def _only(self, stale: StaleFact) -> str | None:
        """The old value by itself: the longest piece of an event that says it and none of the facts, if any."""
        whole = [self._texts.events[event] for event in stale.event_ids]
        pieces = [
            piece
            for cut in ("\n", r"(?<=[.!?])\s", r"(?<=[.;,!?])\s")
            for text in whole
            for piece in re.split(cut, text)
        ]
        facts = self._key.card.gold_facts
        return next(
            (p for p in pieces if holds(stale, p) and not any(holds(f, p) for f in facts)), None
        )

    def _distractors(self) -> list[tuple[str, str]]:
        """Events that say no part of any fact."""
        card = self._key.card
        patterns = [p for fact in card.gold_facts for p in fact.matchers]
        patterns += [p for fact in card.stale_facts for p in fact.matchers]
        return [
            (event, text)
            for event, text in self._texts.events.items()
            if len(text) > 60 and not any(re.search(p, text, re.IGNORECASE) for p in patterns)
        ][:3]

    def _filling(self, text: str) -> str:
        """A text that leaves room for nothing else."""

        def fits(filling: str) -> bool:
            line = render_item(RankedItem(memory_id="filler", text=filling))
            return self._counter.count(framed(HEADER + line)) <= BUDGET.max_tokens

        for more in (f"\n{text}" * 8, f"\n{text}", " and so on"):
            while fits(text + more):
                text += more
        return text

    def freeze(self) -> Snapshot:
        """Takes the digest of the dump."""
        self._dies_at("freeze")
        return super().freeze()

    def dump(self, as_of: str | None = None) -> StoreDump:
        """Returns the store with its links."""
        return super().dump(as_of).model_copy(update={"links": self._links})

    def retrieve(self, query: Query) -> Ranked:
        """Ranks facts first, or what the fault wants."""
        self._dies_at("retrieve")
        mine = [m for m in self._memories if m.scope == query.scope and m.status == "active"]
        facts = [m for m in mine if m.memory_id.startswith("m-f")]
        others = [m for m in mine if m not in facts and not m.memory_id.startswith("dup")]
        ranked = [*facts, *others]
        if self._planted(Failure.IRRELEVANT_MEMORY_SELECTED):
            ranked = [m for m in mine if m.memory_id.startswith("dup")]
        elif self._planted(
            Failure.RELEVANT_MEMORY_MISSING,
            Failure.CONFLICT_NOT_DETECTED,
            Failure.STALE_MEMORY_NOT_INVALIDATED,
        ):
            ranked = others
        elif self._planted(Failure.CONTEXT_BUDGET_DROPPED):
            ranked = sorted(ranked, key=lambda m: m.memory_id != "filler")
        return ranked_of(query, ranked[: query.k], considered=len(mine))

    def compile(self, ranked: Ranked, budget: MemoryBudget) -> CompiledContext:
        """Compiles in rank order."""
        self._dies_at("compile")
        return super().compile(ranked, budget)


class Reader:
    """The follower, which reads as it always does, or with a fault of its own."""

    name = "follower"

    def __init__(self, failure: Failure | None, stale_patch: str | None) -> None:
        self._failure = failure
        self._stale_patch = stale_patch

    def launch(
        self, prompt: str, rehearsal: Rehearsal, access: GatewayAccess | None = None
    ) -> Launch:
        """Gives the follower eyes that see nothing, or a hand that writes the old value."""
        if self._failure is Failure.RETRIEVED_BUT_IGNORED:
            blind = tuple(
                FollowerFact(id=fact.id, any_of=(("\N{REPLACEMENT CHARACTER}never said",),))
                for fact in rehearsal.facts
            )
            rehearsal = rehearsal.model_copy(update={"facts": blind})
        if self._failure is Failure.MEMORY_MISAPPLIED and self._stale_patch is not None:
            both = {"natural_patch": self._stale_patch, "reference_patch": self._stale_patch}
            rehearsal = rehearsal.model_copy(update=both)
        return ScriptedDriver(self.name).launch(prompt, rehearsal, access)


def reader_of(condition_id: str, task: LoadedTask, *, oracle_works: bool = True) -> AgentDriver:
    """Returns the reader of an arm."""
    failure = next((f for f in READERS if arm_of(f) == condition_id), None)
    if condition_id == HONEST and not oracle_works:
        failure = Failure.RETRIEVED_BUT_IGNORED
    return Reader(failure, _old_value(task) if task.key.card.stale_facts else None)


def _old_value(task: LoadedTask) -> str:
    """The natural change, and a new file beside it that holds the superseded values."""
    folder, _, name = touched_paths(task.rehearsal.natural_patch)[0].rpartition("/")
    path = f"{folder}/old.{name.rpartition('.')[2]}".lstrip("/")
    texts = {e.event_id: e.text for ep in task.history.episodes for e in ep.events}
    lines = [
        line
        for stale in task.key.card.stale_facts
        for event in stale.event_ids
        for line in texts[event].splitlines()
    ]
    mark = "#" if path.endswith(".py") else "//"
    added = "".join(f"+{mark} {line}\n" for line in lines)
    return (
        f"{task.rehearsal.natural_patch}diff --git a/{path} b/{path}\nnew file mode 100644\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{added}"
    )


def rehearsed(task: LoadedTask, condition_id: str, counter: TokenCounter) -> Rehearsed:
    """Takes a planted system through its real life and reads its text by the follower's own rule."""
    condition = next(c for c in conditions() if c.id == condition_id)
    planted = Planted(task, counter, condition_id)
    return rehearse(task, condition, planted, counter, reader_of(condition_id, task))


def play(
    results: Path,
    tasks: tuple[str, ...],
    *,
    oracle_works: bool = True,
    without: str | None = None,
) -> Path:
    """Runs the matrix over played containers and returns its folder."""
    arms = tuple(c for c in conditions() if c.id != without)
    plan = matrix(make_plan(PlanRequest(agents=("follower",), tasks=tasks)), arms)
    bench = benches(plan, PlayedSandbox(), lambda _: guard_over(), oracle_works=oracle_works)
    run = Run.create(results, plan, engine="played", workers=1)
    run.execute(bench, workers=1, progress=lambda _: None)
    run.close()
    return run.folder


def benches(
    plan: Plan, sandbox: Sandbox, guard: Callable[[TaskPin], Guard], *, oracle_works: bool = True
) -> Callable[[Trial], Bench]:
    """Returns what makes the bench of a trial of the matrix."""
    tasks = {pin.digests.id: load_task(fixtures_root(), pin.digests.id) for pin in plan.tasks}
    counter = TokenCounter()

    def bench(trial: Trial) -> Bench:
        task, condition = tasks[trial.task_id], plan.condition(trial.condition_id)
        adapter: Callable[[], MemoryAdapter] = (
            (lambda: NoMemoryAdapter(counter))
            if condition.adapter == "none"
            else (lambda: Planted(task, counter, condition.id))
        )
        return Bench(
            plan=plan,
            plan_sha256=plan.digest_sha256(),
            trial=trial,
            task=task,
            adapter=adapter,
            sandbox=sandbox,
            counter=counter,
            guard=guard(plan.task(trial.task_id)),
            driver=reader_of(condition.id, task, oracle_works=oracle_works),
        )

    return bench
