"""The contract of a memory system as tests: subclass, give `make_adapter`, run pytest.

Takes a fresh system through whole lives in folders of its own, with the same checks that a trial makes, and
then tries what a trial cannot: repetition, other projects, work after the freeze, prying.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.places import fixtures_root
from orchestrator.memory.archive import archive_of
from orchestrator.memory.checks import check_past
from orchestrator.memory.faults import AdapterFault
from orchestrator.memory.life import Assignment, Limits, live
from orchestrator.memory.sessions import PROJECT, HistoryClock
from orchestrator.memory.shelf import ROOM, SHELF
from orchestrator.memory.tokens import TokenCounter
from orchestrator.memory.watchdog import Watchdog
from orchestrator.model.condition import Condition, MemoryBudget
from orchestrator.model.lifecycle import GoldFacts, Query, Session, StoreDump
from orchestrator.model.memory import Remembered
from orchestrator.protocols import MemoryAdapter, MemoryPlace
from orchestrator.testing import histories
from orchestrator.testing.watching import Seen, Watcher

PROMPT = "Print the label of a return: what happens to its text, and is a count of 0 allowed?"


A = TypeVar("A")
R = TypeVar("R")


class MemoryContract:
    """What every memory system must hold. Limits may be widened for slow systems; nothing else may be."""

    limits = Limits(step_s=20.0, settle_s=20)
    max_tokens = 400
    k = 5
    own_channels: tuple[str, ...] = ()
    """Parts of addresses by which the test itself reaches the system (an engine's socket, a local server)."""

    def make_adapter(self) -> MemoryAdapter:
        """Makes a fresh system; give it in a subclass."""
        raise NotImplementedError

    def gold(self) -> GoldFacts | None:
        """What the system is told of an answer key; only one that declares it is told any."""
        return None

    def test_a_whole_life_breaks_no_rule(self) -> None:
        """Every event accounted for, true hashes, known ids, at most k, in budget, in the shared template."""
        _sound(self._life(histories.ordinary())[0])

    def test_it_describes_itself_alike_and_before_it_is_opened(self) -> None:
        """A description is no effect of anything."""
        one, two = (self.make_adapter().describe() for _ in range(2))
        _require(one == two, "expected one description, found two")

    def test_two_lives_are_equal_to_the_byte(self) -> None:
        """Same sessions, same query, same seed: same store, same ranks, same text."""
        (first, kept), (second, again) = (self._life(histories.ordinary()) for _ in range(2))
        _sound(first)
        _sound(second)
        for name in ("captures", "extraction", "dump", "ranked", "context"):
            _require(
                kept.get(name) == again.get(name), f"{name}: expected equal bytes, found others"
            )

    def test_asking_changes_no_answer(self) -> None:
        """Ranks and dump are the same however often they are asked for."""
        with self._frozen(histories.ordinary()) as frozen:
            dumps = {frozen.dump().digest_sha256() for _ in range(3)}
            ranks = {
                frozen.ask(frozen.adapter.retrieve, self._query()).digest_sha256() for _ in range(5)
            }
            _require(len(dumps) == 1, "dump: expected one store, found another at every look")
            _require(
                len(ranks) == 1, "retrieve: expected stable ranks, found others for the same query"
            )

    def test_nothing_is_learnt_after_the_freeze(self) -> None:
        """A late session is refused or ignored; the store stays what it was."""
        with self._frozen(histories.ordinary()) as frozen:
            before = frozen.state()
            late = histories.session(9, histories.said(1, "Late: trim every label.", day=9))
            try:
                frozen.ask(frozen.adapter.ingest, late)
            except AdapterFault as fault:
                _require(
                    fault.kind != "timed_out",
                    "ingest after freeze: expected a refusal, found a hang",
                )
            frozen.ask(frozen.adapter.retrieve, self._query())
            _require(frozen.state() == before, "expected a frozen store, found one that changed")

    def test_no_project_sees_another(self) -> None:
        """What is found belongs to the scope of the query."""
        with self._frozen(histories.two_projects()) as frozen:
            scopes = {memory.memory_id: memory.scope for memory in frozen.dump().memories}
            for scope in ("project", "other", "third"):
                query = self._query().model_copy(update={"scope": scope})
                for item in frozen.ask(frozen.adapter.retrieve, query).items:
                    _require(
                        scopes.get(item.memory_id) == scope,
                        f"scope {scope}: expected memories of its own, found {item.memory_id}",
                    )

    def test_every_budget_and_k_is_kept(self) -> None:
        """From nothing that fits to all that there is."""
        for max_tokens, k in ((1, 1), (40, 1), (60, 3), (5000, 50)):
            found, _ = self._life(histories.ordinary(), max_tokens=max_tokens, k=k)
            _sound(found)

    def test_no_secret_stays_in_the_store(self) -> None:
        """Neither in the dump nor in a file."""
        found, kept = self._life(histories.ordinary())
        _sound(found)
        secret = histories.SECRET.encode()
        _require(
            not any(secret in data for data in kept.values()),
            "expected no secret in store, reports or context, found one",
        )

    def test_text_of_the_past_stays_data(self) -> None:
        """Nothing in a history can pose as another item or end the frame."""
        found, _ = self._life(histories.ordinary(), max_tokens=5000, k=50)
        _sound(found)
        text = found.context.text if found.context else ""
        _require("</memory" not in text, "expected the frame whole, found its end inside")
        _require(
            "[mem:m1] The task" not in text, "expected no item made up by a history, found one"
        )

    def test_large_and_small_histories_are_taken(self) -> None:
        """A megabyte in one message, and a single event."""
        _sound(self._life(histories.huge())[0])
        _sound(self._life(histories.single())[0])

    def test_it_touches_its_own_folders_and_nothing_else(self) -> None:
        """No fixture is read, no file is written elsewhere, nothing is called that is not given."""
        seen, folder = self._watched(histories.ordinary())
        fixtures = fixtures_root().absolute()
        pried = [path for path in seen.read if path.is_relative_to(fixtures)]
        strays = [path for path in seen.written if not path.is_relative_to(folder)]
        _require(not pried, f"expected no look at tasks or keys, found {pried[:1]}")
        _require(not strays, f"expected writes below its own folders, found {strays[:1]}")
        called = [
            call for call in seen.network if not any(own in call for own in self.own_channels)
        ]
        _require(not called, f"expected no network, found {called[:1]}")

    def test_a_dump_of_the_past_holds_no_later_memory(self) -> None:
        """For a system that says it can look back."""
        with self._frozen(histories.ordinary()) as frozen:
            if not frozen.ask(lambda _: frozen.adapter.describe(), None).capabilities.as_of:
                return
            as_of = "2026-01-05T23:59:59Z"
            past = frozen.ask(frozen.adapter.dump, as_of)
            try:
                check_past(past, as_of)
            except AdapterFault as fault:
                raise AssertionError(f"{fault.rule}: {fault.message}") from fault

    def _query(self) -> Query:
        return Query(prompt=PROMPT, scope=PROJECT, k=self.k)

    def _arm(self, adapter: MemoryAdapter, max_tokens: int) -> Condition:
        name = adapter.describe().adapter
        ours = name in SHELF and type(adapter).__module__.startswith(f"{ROOM}.")
        return Condition(
            id="contract",
            role="diagnostic",
            summary="contract kit",
            adapter=name,
            adapter_kind="builtin" if ours else "entry_point",
            door="gold" if self.gold() else "sessions",
            budget=MemoryBudget(unit="o200k_base", max_tokens=max_tokens),
        )

    def _life(
        self, sessions: tuple[Session, ...], *, max_tokens: int | None = None, k: int | None = None
    ) -> tuple[Remembered, dict[str, bytes]]:
        kept: dict[str, bytes] = {}

        def keep(name: str, data: bytes) -> str:
            kept[name] = data
            return sha256_hex(data)

        adapter = self.make_adapter()
        arm = self._arm(adapter, max_tokens or self.max_tokens)
        with _place(sessions, arm.budget) as (place, clock):
            query = self._query().model_copy(update={"k": k or self.k})
            assignment = Assignment(
                condition=arm,
                sessions=sessions,
                query=query,
                place=place,
                clock=clock,
                gold=self.gold(),
                limits=self.limits,
            )
            return live(adapter, assignment, TokenCounter(), keep=keep), kept

    def _watched(self, sessions: tuple[Session, ...]) -> tuple[Seen, Path]:
        watcher, adapter = Watcher(), self.make_adapter()
        arm = self._arm(adapter, self.max_tokens)
        with _place(sessions, arm.budget) as (place, clock), watcher.watching() as seen:
            assignment = Assignment(
                condition=arm,
                sessions=sessions,
                query=self._query(),
                place=place,
                clock=clock,
                gold=self.gold(),
                limits=self.limits,
            )
            live(adapter, assignment, TokenCounter(), keep=lambda _, data: sha256_hex(data))
            return seen, place.workdir.parent

    @contextmanager
    def _frozen(self, sessions: tuple[Session, ...]) -> Iterator[Frozen]:
        adapter = self.make_adapter()
        budget = MemoryBudget(unit="o200k_base", max_tokens=self.max_tokens)
        with _place(sessions, budget) as (place, clock):
            frozen = Frozen(adapter, place, self.limits)
            try:
                frozen.reach(sessions, clock, self.gold())
                yield frozen
            finally:
                frozen.end()


class Frozen:
    """A system whose store is frozen, asked step by step with the limits of a trial."""

    def __init__(self, adapter: MemoryAdapter, place: MemoryPlace, limits: Limits) -> None:
        self.adapter = adapter
        self._place = place
        self._limits = limits
        self._watchdog = Watchdog()

    def ask(self, step: Callable[[A], R], argument: A) -> R:
        """Takes one step."""
        return self._watchdog.call(lambda: step(argument), self._limits.step_s)

    def reach(
        self, sessions: tuple[Session, ...], clock: HistoryClock, gold: GoldFacts | None
    ) -> None:
        """Takes the steps up to the freeze."""
        if gold is not None:
            self.ask(getattr(self.adapter, "inform", lambda _: None), gold)
        self.ask(self.adapter.open, self._place)
        for session in sessions:
            self.ask(self.adapter.ingest, session)
            clock.reach(session.events[-1].at)
        limits = self._limits
        self._watchdog.call(
            lambda: self.adapter.settle(limits.settle_s), limits.settle_s + limits.step_s
        )
        self.ask(lambda _: self.adapter.freeze(), None)

    def dump(self) -> StoreDump:
        """Returns the store."""
        return self.ask(lambda _: self.adapter.dump(), None)

    def state(self) -> tuple[str, str]:
        """Returns the digests of dump and files."""
        return self.dump().digest_sha256(), sha256_hex(archive_of(self._place.workdir))

    def end(self) -> None:
        """Closes the system, from another thread if one hangs: a program is ended by that."""
        if self._watchdog.hung:
            self._watchdog = Watchdog()
        try:
            self.ask(lambda _: self.adapter.close(), None)
        finally:
            self._watchdog.end()


@contextmanager
def _place(
    sessions: tuple[Session, ...], budget: MemoryBudget | None
) -> Iterator[tuple[MemoryPlace, HistoryClock]]:
    clock = HistoryClock(sessions[0].started_at)
    with tempfile.TemporaryDirectory(prefix="memtrial-contract-") as folder:
        workdir, home = Path(folder) / "work", Path(folder) / "home"
        workdir.mkdir()
        home.mkdir()
        place = MemoryPlace(
            workdir=workdir, home=home, gateway=None, clock=clock, budget=budget, seed=931
        )
        yield place, clock


def _sound(remembered: Remembered) -> None:
    failure = remembered.failure
    if failure is not None:
        raise AssertionError(
            f"{failure.step.value}: {failure.kind}, {failure.rule}: {failure.detail}"
        )
    closing = remembered.steps[-1].failure
    _require(closing is None, f"close: {closing.detail if closing else ''}")


def _require(held: bool, told: str) -> None:
    if not held:
        raise AssertionError(told)
