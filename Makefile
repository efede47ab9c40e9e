# Each target sets up what it needs. Start with: make demo

PYTHON ?= python3
VENV := .venv
WHEEL_VENV := .venv-wheel
UV := $(VENV)/bin/uv
READY := $(VENV)/.ready
VENDORED := engines/javascript/js/package-lock.json surfaces/web/package-lock.json
# Tests wait for other processes for about half of their time. No verdict depends on load.
WORKERS ?= $(shell expr 2 \* $$(nproc))
RUN := $(VENV)/bin/

.DEFAULT_GOAL := help
CHECKS := check-style check-types check-layers check-generated check-tree
TEST := PYTHONDONTWRITEBYTECODE= TEST_INSTALLED=1 PATH="$(abspath $(VENV))/bin:$$PATH" $(WHEEL_VENV)/bin/pytest
.PHONY: help setup demo demo-cluster test wheel run-tests test-fast check $(CHECKS) docs bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Install uv and everything else into .venv

$(UV):
	@PYTHON="$(PYTHON)" scripts/bootstrap

$(READY): $(UV) pyproject.toml uv.lock hatch_build.py $(addprefix src/paddock/,$(VENDORED))
	@$(UV) sync --frozen --quiet --all-extras --no-extra ray
	@touch $@

demo: $(READY) ## Run programs over real MCP servers, a computation, a script tool, a sequence, and three hostile programs
	@$(RUN)python scripts/demo.py

demo-cluster: $(READY) ## Run three replicas behind HAProxy with PostgreSQL, kill one, and verify the record
	@$(RUN)python scripts/demo_cluster.py

test: wheel ## Build the wheel, install it, and run every test against it (PYTHON=python3.13, WORKERS=2)
	@$(MAKE) --no-print-directory run-tests

wheel: $(READY)
	@rm -rf dist
	@$(UV) build --quiet --wheel --out-dir dist
	@UV_PROJECT_ENVIRONMENT=$(WHEEL_VENV) $(UV) sync --python "$(PYTHON)" --frozen --quiet --all-extras --no-extra ray --no-install-project
	@$(UV) pip install --quiet --python $(WHEEL_VENV) --no-deps --reinstall dist/*.whl
	@$(RUN)python scripts/install_toolchains.py >/dev/null
# Compiles what tests import, once: otherwise each worker does, all at the same time.
	@found=$$($(TEST) --collect-only -qq 2>&1) || { echo "$$found"; exit 1; }

run-tests:
	@$(TEST) -n $(WORKERS) --dist worksteal

test-fast: $(READY) ## Run the unit and contract tests, except the slow ones, against the tree
	@PYTHONDONTWRITEBYTECODE= $(RUN)pytest -q -n 2 -m 'not slow' tests/unit tests/contract

check: $(CHECKS) ## Check style, types, layers, generated files and the shape of the tree

check-style: $(READY)
	@$(RUN)ruff check
	@$(RUN)ruff format --check

check-types: $(READY)
	@$(RUN)basedpyright
	@$(RUN)python scripts/example_types.py

check-layers: $(READY)
	@$(RUN)lint-imports

check-generated: $(READY)
	@$(RUN)python scripts/seccomp_filters.py --check
	@$(RUN)python scripts/redaction_rules.py --check
	@$(RUN)python scripts/reference.py --check
	@$(RUN)python scripts/confinement.py --check
	@$(RUN)python scripts/runtimes.py --check

check-tree: $(READY)
	@$(RUN)pytest -q tests/docs/test_tree.py

docs: $(READY) ## Build the documentation as a site, build/site; a broken link fails
	@$(RUN)zensical build --strict --clean

bench: $(READY) ## Measure; results go to benchmarks/results (BENCH=--quick shows that it works)
	@PATH="$$($(RUN)python scripts/install_toolchains.py)" $(RUN)python -m benchmarks $(BENCH)

clean: ## Remove everything that the other targets made
	rm -rf $(VENV) $(WHEEL_VENV) .demo dist build
