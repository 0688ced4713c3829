# Every target makes the environment it needs; `make` alone prints the targets.
#
#   PYTHON=python3.12 make test                    another interpreter (3.11 or newer), for a new .venv
#   make demo BASE_URL=http://localhost:1234/v1 MODEL=qwen3-32b       a real endpoint for the demo

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
EXTRAS := cli,testing,tokens
CODE    = $(wildcard agent_actors benchmarks docs scripts tests)

# A stamp is newer than pyproject.toml when its extras are installed. An environment that works is
# never made anew, only added to, so that it may be in use meanwhile.
DEMO_STAMP := $(VENV)/.installed-demo
DEV_STAMP  := $(VENV)/.installed-dev

CHECKS := lint format mypy pyright verifytypes async house docs site

# Each generated part of the documentation has a scripts/docs_<part>.py, which writes it, and with
# `--check` fails when what is written is stale.
GENERATORS = $(patsubst scripts/%.py,%,$(sort $(wildcard scripts/docs_*.py)))

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_NO_INPUT = 1
# pyright brings its own program in the wheel; it need not look whether there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

define make_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "agent_actors needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)." \
       "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
@$(PY) -c 'import pip' 2>/dev/null || $(PYTHON) -m venv $(VENV) || { \
  echo "No virtual environment could be made; on Debian and Ubuntu install python3-venv." >&2; exit 1; }
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
demo: $(DEMO_STAMP) ## many sessions with parallel tools against the embedded endpoint, or BASE_URL and MODEL
	$(PY) -m agent_actors demo $(if $(BASE_URL),--base-url '$(BASE_URL)') $(if $(MODEL),--model '$(MODEL)')

.PHONY: test
test: $(DEV_STAMP) ## all tests, in parallel, then the coverage gate
	$(PY) -m pytest -n auto --dist worksteal --cov --cov-report= --cov-report=json:coverage.json
	$(PY) -m scripts.coverage_gate coverage.json

.PHONY: test-deep
test-deep: $(DEV_STAMP) ## all tests with many more, and new, random examples: of the conformance checks at least 100,000
	HYPOTHESIS_PROFILE=deep $(PY) -m pytest -n auto --dist worksteal

# The script finds the interpreters on PATH, under pyenv and in PYTHONS (paths, separated by colons).
.PHONY: test-pythons
test-pythons: ## all tests on every Python of this machine; ONLY=oldest, newest or 3.13, TESTS=tests/stores
	$(PYTHON) scripts/pythons.py test $(if $(ONLY),--only $(ONLY)) -- $(TESTS)

.PHONY: check $(CHECKS:%=check-%)
check: $(CHECKS:%=check-%) ## lint, format, types, async rules, layers, sizes, features and the site; one by one: make check-lint
	@echo "check: clean"

check-lint: $(DEV_STAMP)
	$(PY) -m ruff check .
check-format: $(DEV_STAMP)
	$(PY) -m ruff format --check .
check-mypy: $(DEV_STAMP)
	$(PY) -m mypy $(CODE)
check-pyright: $(DEV_STAMP)
	$(PY) -m pyright
# It looks for the package with the `python` of the path, whatever the configuration says.
check-verifytypes: $(DEV_STAMP)
	PATH="$(abspath $(VENV))/bin:$$PATH" pyright --verifytypes agent_actors --ignoreexternal
check-async: $(DEV_STAMP)
	$(PY) -m scripts.async_rules $(CODE)
check-house: $(DEV_STAMP)
	$(PY) -m pytest -q tests/conventions
check-docs: $(DEV_STAMP)
	$(PY) -m scripts.bench_table --check
	@set -e; for name in $(GENERATORS); do echo "$(PY) -m scripts.$$name --check"; $(PY) -m scripts.$$name --check; done

BENCH_STAMP := $(VENV)/.installed-bench
$(BENCH_STAMP): pyproject.toml
	$(make_venv)
	@echo "Installing the runtime and what the benchmarks need into $(VENV) ..."
	@$(PY) -m pip install --quiet --editable '.[cli,bench]'
	@touch $@

.PHONY: bench bench-peers soak
bench: $(BENCH_STAMP) ## the benchmarks, one per claim, against the floors; QUICK=1 for a look
	$(PY) -m benchmarks
	$(PY) -m benchmarks.plots
	$(PY) -m benchmarks.reach
bench-peers: $(BENCH_STAMP) ## the benchmarks against other agent SDKs, each in an environment of its own
	$(PY) -m benchmarks.peers_setup
	$(PY) -m benchmarks.peers_bench
	$(PY) -m benchmarks.plots
	$(PY) -m benchmarks.reach
soak: $(BENCH_STAMP) ## 100,000 runs; fails if memory, descriptors or tasks grow
	$(PY) -m benchmarks.soak --runs 100000

# Servers that others wrote, each kind in an environment of its own; their programs are wheels and
# scripts, so nothing is built, and npm runs none of its packages' own scripts.
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
	@command -v npm >/dev/null || { echo "One of the servers needs node 20 and npm; install them." >&2; exit 1; }
	@echo "Installing servers into $(FOREIGN_NODE) ..."
	@mkdir -p $(FOREIGN_NODE)
	@cp $^ $(FOREIGN_NODE)
	@npm ci --prefix $(FOREIGN_NODE) --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

.PHONY: foreign
foreign: $(DEV_STAMP) $(PYTHON_STAMP) $(NODE_STAMP) ## the client against model servers that others wrote, which it installs
	FOREIGN_REQUIRED=1 $(PY) -m pytest $(FOREIGN)

.PHONY: docs
docs: $(DEV_STAMP) ## write the generated parts of the documentation, and build its site; a warning is an error
	@set -e; for name in $(GENERATORS); do echo "$(PY) -m scripts.$$name"; $(PY) -m scripts.$$name; done
	@$(MAKE) --no-print-directory check-site
	@echo "docs: build/site/index.html"
SITE_STAMP := $(VENV)/.installed-site
$(SITE_STAMP): pyproject.toml
	$(make_venv)
	@echo "Installing what the site needs into $(VENV) ..."
	@$(PY) -m pip install --quiet --editable '.[docs]'
	@touch $@
# The variable silences a word of the theme's makers about another major version of mkdocs.
check-site: $(SITE_STAMP)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

.PHONY: lowest
lowest: ## the tests with the lowest versions that pyproject.toml allows
	PYTHON='$(PYTHON)' EXTRAS='$(EXTRAS)' bash scripts/lowest.sh

.PHONY: clean
clean: ## remove environments, caches, coverage and build products
	rm -rf $(VENV) $(FOREIGN_VENV) $(FOREIGN_NODE) .venv-lowest .venv-3.* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist htmlcov
	rm -f .coverage .coverage.* coverage.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
