# Every target creates the environment that it needs. `make` without a target prints the targets.
#
#   PYTHON=python3.12 make test                    another interpreter (3.11 or newer) for a new .venv
#   make demo BASE_URL=http://localhost:1234/v1 MODEL=qwen3-32b       a real endpoint for the demo

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
EXTRAS := cli,testing,tokens,tools,pydantic,otel,mcp
CODE    = $(wildcard agent_actors benchmarks docs scripts tests)

# A stamp is newer than pyproject.toml if its extras are installed. A working environment is only
# extended and never recreated, because it may be in use.
DEMO_STAMP := $(VENV)/.installed-demo
DEV_STAMP  := $(VENV)/.installed-dev
SITE_STAMP := $(VENV)/.installed-site

CHECKS := $(filter-out $(SKIP),lint format mypy pyright verifytypes async conventions docs site)

# Each scripts/docs_<part>.py writes a generated part of the documentation. With `--check`, it fails
# if the files of that part are stale.
GENERATORS = $(patsubst scripts/%.py,%,$(sort $(wildcard scripts/docs_*.py)))

# Containers often set this variable. Every program that a test starts would then compile the package.
export PYTHONDONTWRITEBYTECODE =
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_NO_INPUT = 1
# Keeps pyright from checking for a newer version of itself.
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

define make_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "agent_actors needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)." \
       "Choose another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
@$(PY) -c 'import pip' 2>/dev/null || $(PYTHON) -m venv $(VENV) || { \
  echo "Cannot create a virtual environment; on Debian and Ubuntu, install python3-venv." >&2; exit 1; }
endef

.PHONY: help
help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(DEMO_STAMP): pyproject.toml
	$(make_venv)
	@echo "Installing the runtime into $(VENV) ..."
	@$(PY) -m pip install --quiet --editable '.[cli]'
	@touch $@

$(DEV_STAMP): pyproject.toml
	$(make_venv)
	@echo "Installing the runtime and the development tools into $(VENV) ..."
	@$(PY) -m pip install --quiet --editable '.[$(EXTRAS),bench,dev]'
	@touch $(DEMO_STAMP) $@

.PHONY: demo
demo: $(DEMO_STAMP) ## run many sessions with parallel tools against the embedded endpoint, or BASE_URL and MODEL
	$(PY) -m agent_actors demo $(if $(BASE_URL),--base-url '$(BASE_URL)') $(if $(MODEL),--model '$(MODEL)')

.PHONY: test
test: $(DEV_STAMP) ## run all tests in parallel, then check the coverage
	$(PY) -m pytest -n auto --dist worksteal --cov --cov-report= --cov-report=json:coverage.json
	$(PY) -m scripts.coverage_gate coverage.json

.PHONY: test-deep
test-deep: $(DEV_STAMP) ## run all tests with many more random examples (at least 100,000 for decoding)
	HYPOTHESIS_PROFILE=deep $(PY) -m pytest -n auto --dist worksteal

MUTATION_STAMP := $(VENV)/.installed-mutation
$(MUTATION_STAMP): pyproject.toml
	$(make_venv)
	@echo "Installing the development tools and mutmut into $(VENV) ..."
	@$(PY) -m pip install --quiet --editable '.[$(EXTRAS),dev,mutation]'
	@touch $@

.PHONY: mutation
mutation: $(MUTATION_STAMP) ## change the code in small ways, list the changes that no test notices; SAMPLE=25 (0: all); PACKAGES="domain codec"
	nice -n 15 $(PY) -m scripts.mutation $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(PACKAGES)

# The script finds interpreters on PATH, in pyenv and in PYTHONS (paths, separated by colons).
.PHONY: test-pythons
test-pythons: ## run all tests on every installed Python; ONLY=oldest, newest or 3.13; TESTS=tests/stores
	$(PYTHON) scripts/pythons.py test $(if $(ONLY),--only $(ONLY)) -- $(TESTS)

# `make --jobs=2 check` runs checks in parallel. It needs `make environment` before it, because an
# installation would change the environment under the checks that are already running.
.PHONY: environment
environment: $(DEV_STAMP) $(SITE_STAMP)

.PHONY: check $(CHECKS:%=check-%)
check: $(CHECKS:%=check-%) ## check lint, format, types, async rules, conventions and the site; SKIP=site leaves one out; a single check: make check-lint
	@echo "check: clean"

check-lint: $(DEV_STAMP)
	$(PY) -m ruff check .
check-format: $(DEV_STAMP)
	$(PY) -m ruff format --check .
check-mypy: $(DEV_STAMP)
	$(PY) -m mypy $(CODE)
check-pyright: $(DEV_STAMP)
	$(PY) -m pyright
# `--verifytypes` finds the package through the `python` on PATH, regardless of the configuration.
check-verifytypes: $(DEV_STAMP)
	PATH="$(abspath $(VENV))/bin:$$PATH" pyright --verifytypes agent_actors --ignoreexternal
check-async: $(DEV_STAMP)
	$(PY) -m scripts.async_rules $(CODE)
check-conventions: $(DEV_STAMP)
	$(PY) -m pytest -q tests/conventions
check-docs: $(DEV_STAMP)
	$(PY) -m scripts.bench_table --check
	@set -e; for name in $(GENERATORS); do echo "$(PY) -m scripts.$$name --check"; $(PY) -m scripts.$$name --check; done

BENCH_STAMP := $(VENV)/.installed-bench
$(BENCH_STAMP): pyproject.toml
	$(make_venv)
	@echo "Installing the runtime and the requirements of the benchmarks into $(VENV) ..."
	@$(PY) -m pip install --quiet --editable '.[cli,bench]'
	@touch $@

.PHONY: bench bench-peers bench-reach soak
bench: $(BENCH_STAMP) ## run the benchmarks, one per claim, against the baselines; QUICK=1 for a quick run
	$(PY) -m benchmarks
	$(PY) -m benchmarks.plots
	$(PY) -m benchmarks.reach
bench-peers: $(BENCH_STAMP) ## run the benchmarks against other agent SDKs, each in a separate environment
	$(PY) -m benchmarks.peers_setup
	$(PY) -m benchmarks.peers_bench
	$(PY) -m benchmarks.plots
	$(PY) -m benchmarks.reach
bench-reach: $(BENCH_STAMP) ## measure the goals of the runtime's CPU in five minutes, and print one table
	$(PY) -m benchmarks.reach_table
soak: $(BENCH_STAMP) ## do 100,000 runs; fail if memory, descriptors or tasks grow
	$(PY) -m benchmarks.soak --runs 100000

# Third-party servers, in one environment for Python and one for node. Nothing is built: Python
# packages are installed from wheels, and npm does not run the install scripts of its packages.
FOREIGN       := tests/foreign_llm
FOREIGN_VENV  := .venv-foreign
FOREIGN_NODE  := .node-foreign
PYTHON_STAMP  := $(FOREIGN_VENV)/.installed
NODE_STAMP    := $(FOREIGN_NODE)/.installed

$(PYTHON_STAMP): $(FOREIGN)/requirements.txt
	@echo "Installing servers into $(FOREIGN_VENV) ..."
	@$(PYTHON) -m venv $(FOREIGN_VENV)
	@$(FOREIGN_VENV)/bin/python -m pip install --quiet --only-binary :all: --requirement $<
	@touch $@
$(NODE_STAMP): $(FOREIGN)/package.json $(FOREIGN)/package-lock.json
	@command -v npm >/dev/null || { echo "A server needs node 20 and npm; install them." >&2; exit 1; }
	@echo "Installing servers into $(FOREIGN_NODE) ..."
	@mkdir -p $(FOREIGN_NODE)
	@cp $^ $(FOREIGN_NODE)
	@npm ci --prefix $(FOREIGN_NODE) --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

FOREIGN_MCP      := tests/foreign_mcp
FOREIGN_MCP_VENV := .venv-foreign-mcp
FOREIGN_MCP_NODE := .node-foreign/mcp
MCP_PYTHON_STAMP := $(FOREIGN_MCP_VENV)/.installed
MCP_NODE_STAMP   := $(FOREIGN_MCP_NODE)/.installed

$(MCP_PYTHON_STAMP): $(FOREIGN_MCP)/requirements.txt
	@echo "Installing MCP servers into $(FOREIGN_MCP_VENV) ..."
	@$(PYTHON) -m venv $(FOREIGN_MCP_VENV)
	@$(FOREIGN_MCP_VENV)/bin/python -m pip install --quiet --only-binary :all: --requirement $<
	@touch $@
$(MCP_NODE_STAMP): $(FOREIGN_MCP)/package.json $(FOREIGN_MCP)/package-lock.json
	@command -v npm >/dev/null || { echo "A server needs node 20 and npm; install them." >&2; exit 1; }
	@echo "Installing MCP servers into $(FOREIGN_MCP_NODE) ..."
	@mkdir -p $(FOREIGN_MCP_NODE)
	@cp $^ $(FOREIGN_MCP_NODE)
	@npm ci --prefix $(FOREIGN_MCP_NODE) --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

.PHONY: foreign
foreign: $(DEV_STAMP) $(PYTHON_STAMP) $(NODE_STAMP) $(MCP_PYTHON_STAMP) $(MCP_NODE_STAMP) ## install third-party model servers and MCP servers, and test the clients against them
	FOREIGN_REQUIRED=1 $(PY) -m pytest $(FOREIGN) $(FOREIGN_MCP)

.PHONY: docs
docs: $(DEV_STAMP) ## write the generated parts of the documentation and build the site; warnings are errors
	@set -e; for name in $(GENERATORS); do echo "$(PY) -m scripts.$$name"; $(PY) -m scripts.$$name; done
	@$(MAKE) --no-print-directory check-site
	@echo "docs: build/site/index.html"
$(SITE_STAMP): pyproject.toml
	$(make_venv)
	@echo "Installing the requirements of the site into $(VENV) ..."
	@$(PY) -m pip install --quiet --editable '.[docs]'
	@touch $@
# The variable silences a notice of the theme about another major version of mkdocs.
check-site: $(SITE_STAMP)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

DIST_VENV := .venv-dist
DIST_STAMP := $(DIST_VENV)/.installed
$(DIST_STAMP):
	@$(PYTHON) -m venv $(DIST_VENV)
	@$(DIST_VENV)/bin/python -m pip install --quiet 'build>=1.2'
	@touch $@

.PHONY: dist
dist: $(DIST_STAMP) ## build the wheel and the sdist into dist, check their content and install both
	$(DIST_VENV)/bin/python -m scripts.distribution dist

.PHONY: lowest
lowest: ## run the tests with the lowest versions that pyproject.toml allows
	PYTHON='$(PYTHON)' EXTRAS='$(EXTRAS)' bash scripts/lowest.sh

.PHONY: clean
clean: ## remove environments, caches, coverage and build products
	rm -rf $(VENV) $(FOREIGN_VENV) $(FOREIGN_NODE) $(DIST_VENV) .venv-lowest .venv-3.* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist htmlcov
	rm -f .coverage .coverage.* coverage.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
