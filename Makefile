# Everything a person needs: Python 3.11+ and make. Nothing here needs root.
# Another Python beside the first: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Another Python has other packages, and mypy trusts what it has read of the first one's.
TYPES  := $(if $(filter .venv,$(VENV)),.mypy_cache,$(VENV)/mypy)

.DEFAULT_GOAL := help
.PHONY: help setup run run-elastic run-mpi test suites test-all newest lint format bench lock manifests \
        suites-built programs images image-openmpi image-chainermn image-openmpi-cuda cluster-up \
        cluster-down clean

help: ## Show what can be done here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# Nothing is installed whose hash is not in requirements/. These files are complete: with dependencies, pip
# would look at newer releases of what is asked for with an extra, and refuse them for their lack of a hash.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps

$(VENV)/.run: requirements/run.txt requirements/build.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements/run.txt -r requirements/build.txt
	$(INSTALL) --no-build-isolation -e .
	$(BIN)/python -m compileall -q src  # also where PYTHONDONTWRITEBYTECODE is set
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(INSTALL) --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip check >/dev/null
	@touch $@

setup: $(VENV)/.dev ## Create the development environment

run: $(VENV)/.run ## Train a ChainerMN job on 3 pods, right here, no cluster needed
	$(BIN)/traincrew run -f examples/chainer/chainerjob-mn.yaml

run-elastic: $(VENV)/.run ## Train an ElasticJob on 2 workers that become 3 meanwhile
	$(BIN)/traincrew run -f examples/elastic/elasticjob.yaml --scale 3@20s

run-mpi: $(VENV)/.run ## Run MPI ranks from values of kube-openmpi, scale, run again
	$(BIN)/traincrew mpi examples/openmpi/values/scaled.yaml --name hello | \
	  $(BIN)/traincrew run - --scale 3@4s

test: setup ## Fast tests (3 to 6 minutes on two cores; PART=turn: half of them in turn)
	$(BIN)/python -m hack.inmemory $(BIN)/python -m pytest -n 5 --dist worksteal tests \
	  $(if $(PART),--part $(PART))

suites: setup ## Heavier suites: real kubectl, real training, faults (PART=turn: those of CI)
	$(BIN)/python -m suites run $(if $(PART),--part $(PART))

test-all: test suites ## Everything this machine can run

newest: ## Lint and fast tests on the newest Python of this machine
	newest="$$($(PYTHON) -m hack.pythons newest)" && \
	  $(MAKE) --no-print-directory lint test PYTHON="$$newest" VENV=.venv-newest

lint: setup ## Style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --cache-dir $(TYPES)
	$(BIN)/lint-imports

format: setup ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## Benchmarks, each beside its reference
	$(BIN)/python -m benchmarks

lock: $(VENV)/.run ## Renew all requirements with their hashes (requirements/, images/, environments)
	$(BIN)/python hack/lock.py

manifests: $(VENV)/.run ## Regenerate deploy/, config/, charts/, the field reference and the table of states
	$(BIN)/traincrew manifests --directory deploy
	$(BIN)/traincrew manifests --format kustomize --directory config
	for chart in traincrew mx-job-operator-chart mx_job kube-openmpi; do \
	  $(BIN)/traincrew manifests --format helm --chart $$chart --directory charts/$$chart || exit 1; \
	done
	$(BIN)/python hack/reference.py
	$(BIN)/python hack/shared.py

suites-built: setup ## Build the programs and images that the suites need (PART=turn: those of CI)
	$(BIN)/python -m suites build $(if $(PART),--part $(PART))

programs: setup ## Build Kubernetes and what the suites need from Go modules
	$(BIN)/python -m hack.cluster build --all

images: setup ## Build the container images (root, no container engine needed)
	$(BIN)/python -m hack.images build

ENGINE  ?= docker
VERSION ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

image-openmpi: ## Build Open MPI with sshd (docker or ENGINE=podman; BUILD_ARGS="--build-arg ...")
	$(ENGINE) build --file images/openmpi/Dockerfile --build-arg VERSION=$(VERSION) $(BUILD_ARGS) \
	  --tag traincrew/openmpi:$(VERSION) .

image-chainermn: ## Build ChainerMN, Open MPI and sshd, as image-openmpi
	$(ENGINE) build --file images/openmpi/Dockerfile --build-arg VERSION=$(VERSION) $(BUILD_ARGS) \
	  --target chainermn --tag traincrew/openmpi-chainermn:$(VERSION) .

image-openmpi-cuda: ## Build Open MPI for GPUs (docker or ENGINE=podman; BUILD_ARGS="--build-arg ...")
	$(ENGINE) build --file images/openmpi-cuda/Dockerfile --build-arg VERSION=$(VERSION) $(BUILD_ARGS) \
	  --tag traincrew/openmpi-cuda:$(VERSION) .

NAME  ?= default
NODES ?= 2
# What the nodes are given; others have to be asked for: etcd and torch (0.9 GB) for ElasticJobs, mxnet
# (0.6 GB) for MxJobs, openmpi (0.2 GB), openmpi-chainermn (0.4 GB) and, for codeSync, git (0.2 GB) for
# MPIClusters.
IMAGES ?= busybox chainer chainermn helper operator

cluster-up: setup ## Start a real Kubernetes on this machine, with our images (root, Go)
	@$(BIN)/python -m hack.cluster check
	images="$$($(BIN)/python -m hack.images build $(IMAGES))" && \
	  $(BIN)/python -m hack.cluster up --name $(NAME) --nodes $(NODES) $$(printf -- '--image=%s ' $$images)

cluster-down: setup ## End it; nothing is left behind
	$(BIN)/python -m hack.cluster down --name $(NAME)

clean: ## Remove the environment and caches
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis
