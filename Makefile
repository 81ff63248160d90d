PYTHON ?= python3
BIN := .venv/bin
BASE := .venv/base
READY := .venv/ready

.DEFAULT_GOAL := help
.PHONY: help run test long pages test-gpu flower nvflare lint format options results docs linkcheck package pins clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## / {printf "make %-17s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(BASE) ## Find the clusters in the embedded digits, spread over ten clients
	$(BIN)/fedkin cluster digits

test: $(READY) ## Run the tests, a few at once
	$(BIN)/python -m pytest -n auto --dist worksteal

# One after another: each of them starts up to ten processes of its own.
long: $(READY) ## Test real processes: a federation with keys, a simulation, training on a made-up device
	$(BIN)/python -m pytest -m long --durations=8 --ignore=tests/test_docs_site.py

pages: $(READY) ## Build the documentation, test its pages and run their examples
	$(BIN)/python -m pytest -q -m pages tests/test_docs_site.py
	$(BIN)/python -m pytest -q -m pages -n auto --dist worksteal tests/test_docs.py

flower: $(READY) ## Run what stands on Flower with its newest version, or with others: VERSIONS="1.28 1.36"
	.ci/newest-flower $(VERSIONS)

nvflare: $(READY) ## Run an experiment on NVFlare, in an environment of its own
	.ci/nvflare

test-gpu: $(READY) ## Compare every method's training on a GPU with the processor's
	FEDKIN_DEVICE=$${FEDKIN_DEVICE:-cuda} $(BIN)/python -m pytest tests/on_elsewhere.py tests/networks_on_elsewhere.py

lint: $(READY) ## Check style, types, who imports whom and the names of tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	.ci/test-ids

format: $(READY) ## Put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

options: $(READY) ## Write the pages of estimators into the docs
	$(BIN)/python docs/make_api.py

results: $(READY) ## Write the tables of docs/results from their data
	$(BIN)/python docs/make_results.py

docs: $(READY) ## Build the documentation into build/docs; with RUN=cache notebooks run and show what they print
	$(BIN)/python -m sphinx -W --keep-going -n -D nb_execution_mode=$(or $(RUN),off) docs build/docs

linkcheck: $(READY) ## Try the documentation's links to other places
	$(BIN)/python -m sphinx -b linkcheck docs build/linkcheck

package: ## Build the wheel, install it into a bare environment, and run it outside the checkout
	PYTHON=$(PYTHON) .ci/package

clean: ## Remove the environment and all caches, but no results
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

pins: ## Renew constraints-dev.txt: the newest versions of all packages that go together
	rm -rf build/pins
	$(PYTHON) -m venv build/pins
	build/pins/bin/python -m pip install --quiet -c constraints.txt torch
	build/pins/bin/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	head -n 1 constraints-dev.txt >build/pins/new
	build/pins/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' >>build/pins/new
	mv build/pins/new constraints-dev.txt

# Packages are compiled when they are first imported: most of them never are.
PIP := $(BIN)/python -m pip install --quiet --no-compile -c constraints-dev.txt

# Torch comes first and alone, so that its build is the pinned one whatever else asks for torch.
$(BASE): pyproject.toml constraints-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "fedkin needs Python 3.11 or newer; name one, as in: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up .venv with PyTorch, scikit-learn and fedkin, 40 packages in all: half a minute, and the download."
	@rm -f $(READY)
	@$(PYTHON) -m venv .venv
	@$(PIP) torch
	@$(PIP) -e .
	@touch $@

$(READY): $(BASE)
	@echo "Installing what tests, documentation and Flower need, 160 packages: a minute, and the download."
	@$(PIP) -e '.[dev]'
	@touch $@
