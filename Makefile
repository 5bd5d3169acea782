# Thin targets: each calls one command. `make` alone prints this list.
.DEFAULT_GOAL := help
.PHONY: help setup engine images smoke test lint check pack proof-languages bench clean schemas wheel proof-leakscan proof-evidence proof-interop proof-pythons bench-gateway fuzz-gateway proof-hostile-neighbours proof-tasks proof-reference proof-attribution proof-ladder proof-products official supervisor install-supervisor proof-mutation proof-coverage proof-trust proof-official agents-smoke proof-agents
MEMTRIAL := .venv/bin/memtrial
PYTHON_VENV := .venv/bin/python
# Where the supervisor is installed, plans of phases smoke and official are its version's, and so must be their runs.
INSTALLED := $(wildcard /opt/memtrial/bin/memtrial)
export PYTHONDONTWRITEBYTECODE := 1

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv from the hash-pinned lock
	@requirements/setup.sh

engine: setup ## Reach a Docker engine, or install and start one
	@$(MEMTRIAL) engine

images: setup ## Make the images that are missing
	@$(MEMTRIAL) images

smoke: setup ## Run the main job: set-up, plan, trials, verdicts, report (offline once set up)
	@$(MEMTRIAL) smoke

test: setup ## Run all tests, with real Docker, but for those that the proofs run
	@$(MEMTRIAL) engine > /dev/null
	@$(PYTHON_VENV) -m pytest -q -n 2 tests -m "not docker and not proof"
	@$(PYTHON_VENV) -m pytest -q -n 2 --dist loadfile tests -m "docker and not proof"

lint: setup ## Lint, types, import contracts and published schemas
	@$(PYTHON_VENV) -m ruff check .
	@$(PYTHON_VENV) -m ruff format --check .
	@$(PYTHON_VENV) -m mypy
	@.venv/bin/lint-imports
	@$(MEMTRIAL) schemas --check

check: lint ## Lint and the fast tests (no network, no Docker)
	@$(PYTHON_VENV) -m pytest -q -n 2 tests -m "not docker and not network and not proof"

proof-languages: setup ## Prove every task and every language's own doors in containers (an hour)
	@$(MEMTRIAL) images > /dev/null
	@$(PYTHON_VENV) -m pytest -q tests -m proof --ignore tests/docker/test_agents.py --ignore tests/docker/test_memory_products.py

bench-gateway: setup ## Measure what the gateway adds to model calls, as ratios; memory over 10,000 calls
	@$(PYTHON_VENV) bench/gateway.py

fuzz-gateway: setup ## Fuzz the gateway for longer than the tests do
	@MEMTRIAL_FUZZ_EXAMPLES=2000 $(PYTHON_VENV) -m pytest -q --timeout 3600 tests/unit/gateway/test_fuzz.py

pack: setup ## Prove every task: base suites, references, guesses, leaks, and trials of all (offline once set up)
	@$(MEMTRIAL) tasks validate --all
	@$(MEMTRIAL) pack

bench: setup ## Measure what memtrial adds to the bare container steps, as a ratio
	@$(PYTHON_VENV) bench/overhead.py

proof-leakscan: setup ## Prove the leak scan: matrix of places and encodings, 50 clean trials; writes results/proofs
	@$(PYTHON_VENV) bench/leakscan.py

proof-evidence: setup ## Prove the bundle at size: 144 trials under 5,000 changes, 100,000 records; writes results/proofs
	@$(PYTHON_VENV) -m bench.evidence
	@$(PYTHON_VENV) -m bench.verifying

proof-interop: setup ## Prove that two other sigstore clients agree (needs node and npm); writes results/proofs
	@$(PYTHON_VENV) -m bench.interop

proof-pythons: setup ## Prove that a bundle verifies to the byte under each Python from 3.11 to 3.13 on PATH
	@$(PYTHON_VENV) -m bench.pythons

proof-tasks: setup ## Prove source pins, images from nothing and warm starts; with REMEM=tasks.json an imported pack too
	@$(PYTHON_VENV) -m bench.tasks
	@if [ -n "$(REMEM)" ]; then $(PYTHON_VENV) tests/proofs/remem.py "$(REMEM)"; fi

official: $(if $(INSTALLED),,setup) ## Dispatch an approved official run (PLAN=file APPROVAL=id KEY=ledger's key); says precisely what is missing
	@$(or $(INSTALLED),$(MEMTRIAL)) official $(PLAN) --repository $(CURDIR) $(if $(APPROVAL),--approval $(APPROVAL)) $(if $(KEY),--key $(KEY))

supervisor: setup ## Build the supervisor's prefix reproducibly into build/supervisor (PYTHON=the system's interpreter)
	@$(PYTHON_VENV) tools/supervisor.py build $(if $(PYTHON),--python $(PYTHON))

install-supervisor: ## Install what `make supervisor` built, as root (OPERATOR=uid who may dispatch, ROOT=another root)
	@$(PYTHON_VENV) tools/supervisor.py install $(if $(ROOT),--root $(ROOT)) $(if $(OPERATOR),--operator-uid $(OPERATOR))

proof-mutation: setup ## Change the trust room place by place and see that its tests notice (goes on when interrupted; SECONDS=n stops then)
	@$(PYTHON_VENV) -m bench.mutants $(if $(SECONDS),--seconds $(SECONDS))

proof-coverage: setup ## Measure the branches of trust, core and model that their own fast tests take; fails below all
	@$(PYTHON_VENV) -m coverage run --branch --source orchestrator.trust,orchestrator.core,orchestrator.model -m pytest -q -n0 tests/unit/core tests/unit/model tests/unit/trust tests/unit/supervisor tests/unit/test_gittree.py tests/gate -m "not network and not proof and not docker"
	@$(PYTHON_VENV) -m coverage report --show-missing --fail-under 100

proof-trust: setup ## Prove the gate: time of a validation, racing nonces, every hostile input; writes results/proofs
	@$(PYTHON_VENV) -m bench.trust

proof-official: setup ## Rehearse a whole official run in containers, with the supervisor installed in mounts of its own (root; 20 minutes)
	@$(PYTHON_VENV) -m bench.rehearsal

agents-smoke: setup ## Have Codex, Claude Code and mini-swe-agent solve a task in containers (scripted model; fetches them once)
	@$(MEMTRIAL) agents smoke

proof-agents: setup ## Prove agents: faults, canaries, replay of each in real containers (half an hour); writes results/proofs
	@$(PYTHON_VENV) -m bench.agentcanaries
	@$(PYTHON_VENV) -m bench.agentfaults
	@$(PYTHON_VENV) -m pytest -q tests/docker/test_agents.py

proof-hostile-neighbours: setup ## Prove that hostile trials change no verdict beside them; writes results/proofs
	@$(PYTHON_VENV) bench/neighbours.py

proof-reference: setup ## Prove what the reference pipeline finds on the pack and what it costs; writes results/proofs
	@$(PYTHON_VENV) -m bench.retrieval
	@$(PYTHON_VENV) -m bench.memory
proof-attribution: setup ## Prove that planted faults are charged to their stages, over the pack and in containers; writes results/proofs
	@$(MEMTRIAL) images > /dev/null
	@$(PYTHON_VENV) -m bench.attribution

proof-products: setup ## Prove that mem0, LangMem and server-memory meet the contract offline, each in its image; writes results/proofs
	@$(PYTHON_VENV) -m bench.products

proof-ladder: setup ## Print how far the follower gets with each kind of memory over the pack; writes results/proofs
	@$(PYTHON_VENV) -m bench.ladder

schemas: setup ## Write schemas/ from the documents, and pin every arm to its adapter's code
	@$(MEMTRIAL) schemas
	@$(MEMTRIAL) list conditions --pin > /dev/null

wheel: setup ## Build the wheel into dist/
	@$(PYTHON_VENV) -m hatchling build -t wheel

clean: ## Remove what dead runs left in the engine, and build output
	@if [ -x $(MEMTRIAL) ]; then $(MEMTRIAL) clean; fi
	@rm -rf dist build
