# Everything a person needs: Python 3.11+ and make. Nothing here needs root.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup run run-elastic test suites test-all lint format bench lock manifests \
        programs images cluster-up cluster-down clean

help: ## Show what can be done here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(VENV)/.run: requirements/run.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/run.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@touch $@

setup: $(VENV)/.dev ## Create the development environment

run: $(VENV)/.run ## Train a ChainerMN job on 3 pods, right here, no cluster needed
	$(BIN)/traincrew run -f examples/chainer/chainerjob-mn.yaml

run-elastic: $(VENV)/.run ## Train an ElasticJob on 2 workers that become 3 meanwhile
	$(BIN)/traincrew run -f examples/elastic/elasticjob.yaml --scale 3@20s

test: setup ## Fast tests (under 3 minutes)
	$(BIN)/python -m pytest -n 2 tests

suites: setup ## Heavier suites: real kubectl, real training, faults, sandboxes
	$(BIN)/python -m pytest -v --tb short --timeout 600 -n 2 --durations 20 suites

test-all: test suites ## Everything this machine can run

lint: setup ## Style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## Benchmarks, each beside its reference
	$(BIN)/python -m benchmarks

lock: ## Renew requirements/*.txt from pyproject.toml
	$(PYTHON) hack/lock.py

manifests: $(VENV)/.run ## Regenerate deploy/, config/, charts/ and the field reference from the types
	$(BIN)/traincrew manifests --directory deploy
	$(BIN)/traincrew manifests --format kustomize --directory config
	$(BIN)/traincrew manifests --format helm --directory charts/traincrew
	$(BIN)/python hack/reference.py

programs: setup ## Build Kubernetes and what the suites need from Go modules
	$(BIN)/python -m hack.cluster build --all

images: setup ## Build the container images (root, no container engine needed)
	$(BIN)/python -m hack.images build

NAME  ?= default
NODES ?= 2
# What the nodes are given; etcd and torch (0.9 GB, for ElasticJobs) have to be asked for.
IMAGES ?= busybox chainer chainermn helper operator

cluster-up: setup ## Start a real Kubernetes on this machine, with our images (root, Go)
	@$(BIN)/python -m hack.cluster check
	images="$$($(BIN)/python -m hack.images build $(IMAGES))" && \
	  $(BIN)/python -m hack.cluster up --name $(NAME) --nodes $(NODES) $$(printf -- '--image=%s ' $$images)

cluster-down: setup ## End it; nothing is left behind
	$(BIN)/python -m hack.cluster down --name $(NAME)

clean: ## Remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
