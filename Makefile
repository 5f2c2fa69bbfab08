# Everything that is done here more than once. The syntax is that of GNU make 3.81, which macOS has.
#
#   make test                       from a fresh clone: makes .venv, installs, runs the whole suite
#   make test PYTHON=/path/python   with a Python of your choice (after `make clean`, if .venv is there)
#   make test ARGS="-k slots"       pass arguments on to pytest

PY := .venv/bin/python
STAMP := .venv/.installed
DISTRIBUTIONS := packages/anarchon packages/anarchon-sqlite packages/anarchon-postgres packages/anarchon-redis packages/anarchon-nats packages/anarchon-rabbitmq packages/anarchon-cli packages/anarchon-simulation packages/anarchon-testbed conformance chaos
PROJECTS := $(addsuffix /pyproject.toml,$(DISTRIBUTIONS))
EDITABLE := $(addprefix -e ./,$(DISTRIBUTIONS))
VERSION := packages/anarchon/src/anarchon/_version.py
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
ARGS ?=

.PHONY: help setup demo docs test soak servers lint format types cover conform certificates bench build wheels ci clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s  %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## Make .venv with every distribution and the tools (the others do it by themselves)

$(STAMP): requirements-dev.txt requirements-docs.txt $(PROJECTS) $(VERSION)
	@PYTHON="$(PYTHON)" sh tools/make_venv.sh .venv
	@echo "Installing the distributions and the tools into .venv (once; a minute or two)."
	@$(PIP) -r requirements-dev.txt -r requirements-docs.txt
	@$(PIP) --no-build-isolation $(EDITABLE)
	@touch $(STAMP)

demo: $(STAMP) ## Show three processes that share a schedule, one of them killed (about half a minute)
	@$(PY) examples/demo/run.py $(ARGS)

test: $(STAMP) ## Run the whole suite, then the conformance kit on every backend
	@$(PY) -m anarchon_testbed obtain || echo "The tests of these servers say so themselves; the others run."
	@$(PY) tools/suite.py $(ARGS)

SOAKED := tests/processes/test_load.py packages/anarchon-nats/tests/test_processes.py packages/anarchon-nats/tests/test_growth.py packages/anarchon-rabbitmq/tests/test_race.py packages/anarchon-rabbitmq/tests/test_growth.py

soak: $(STAMP) ## Take figures over minutes that the tests take over seconds: processes on one file, races and weeks on servers
	@ANARCHON_SOAK=1 $(PY) -m pytest $(SOAKED) $(ARGS)

servers: $(STAMP) ## Download the servers that tests need and this machine lacks, into .cache/servers
	@$(PY) -m anarchon_testbed obtain $(ARGS)

lint: $(STAMP) ## Check style and layout
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

format: $(STAMP) ## Mend what the style checks can mend by themselves
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

types: $(STAMP) ## Check the types, strictly
	@$(PY) -m mypy --exclude '^packages/anarchon-[a-z]+/tests/'
	@# Their folders cannot be packages, and hold modules of the same names: each is a program of its own.
	@for tests in packages/anarchon-*/tests; do echo $$tests; $(PY) -m mypy $$tests || exit 1; done

cover: $(STAMP) ## Measure the core's branch coverage; fails below the bound
	@$(PY) tools/measure_coverage.py $(ARGS)

conform: $(STAMP) ## Run only the conformance kit, on every backend
	@$(PY) tools/suite.py --only kit $(ARGS)

certificates: $(STAMP) ## Run the kit on every backend, and write the certificates into docs/backends/
	@$(PY) tools/certificates.py $(ARGS)

docs: $(STAMP) ## Build the site from docs/ into .cache/docs/html; a warning or a misspelt word fails
	@.venv/bin/codespell $$(git ls-files "*.md")
	@$(PY) tools/build_docs.py $(ARGS)

bench: $(STAMP) ## Run the benchmarks
	@$(PY) -m bench $(ARGS)

build: $(STAMP) ## Build a wheel and a source archive of every distribution into dist/
	@rm -rf dist
	@.venv/bin/hatch build --all

wheels: build ## Install the wheels into clean environments and try them there
	@$(PY) tools/check_wheels.py $(ARGS)

ci: ## Run what continuous integration runs
	@.ci/run

clean: ## Remove .venv, dist/ and every cache
	@rm -rf .venv dist reports .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis htmlcov .coverage .coverage.*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
