# Routebook. `make` alone prints what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SPARK := $(VENV)/.spark
LOCK := src/routebook/gateway/page/assets.lock
WITHOUT_SPARK := src/routebook $(addprefix tests/,unit integration property interop differential killrounds siege)
DURATIONS := build/durations.txt
# One more than the cores the tests are to fit: one waits for real programs most of the time.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help install spark run demo test check fmt lint types unit peers differential worlds killrounds siege frozen bench scale api golden clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv with the program routebook in it

$(STAMP): pyproject.toml constraints.txt $(LOCK)
	@PYTHON="$(PYTHON)" sh scripts/install.sh "$(VENV)"
	@touch $@

spark: $(SPARK) ## add Spark and Delta Lake to .venv, for `routebook spark`

$(SPARK): $(STAMP) pyproject.toml constraints.txt scripts/spark.sh scripts/spark/pom.xml
	@sh scripts/spark.sh "$(VENV)" spark,lake
	@touch $@

run: install ## start a node on port 9876 (ARGS="--listen-port 9877" for options)
	@echo "starting a node; Ctrl-C stops it"
	@exec $(BIN)/routebook serve $(ARGS)

demo: spark ## three nodes, simulated brokers and faults for a minute, then the report of it
	@$(BIN)/python scripts/demo.py $(ARGS)

test: spark peers ## set everything up and run every test, real RocketMQ programs included
	@$(MAKE) --no-print-directory check
	@echo "running all tests; what each took will be in $(DURATIONS)"
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		-p support.durations --durations-file $(DURATIONS) \
		tests/spark tests/interop tests/integration tests/property tests/world

check: install ## the fast inner loop: lint, types, unit tests
	@$(MAKE) --no-print-directory -j2 lint types unit

lint: install
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/lint-imports > /dev/null && echo "lint: clean"

# Who does not work on Spark need not have it: then what is made with it is not looked at.
types: install
	@$(BIN)/mypy $(if $(wildcard $(SPARK)),,--follow-imports=silent $(WITHOUT_SPARK))

unit: install
	@$(BIN)/pytest -q tests/unit

fmt: install ## format the code
	@$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .

peers: install ## fetch the real RocketMQ programs the tests use into .peers
	@bash scripts/peers.sh

differential: peers ## compare thousands of request sequences with the Java NameServer
	@$(BIN)/python -m tests.differential $(ARGS)

worlds: spark ## check history, tables, alerts and report against thousands of generated worlds
	@$(BIN)/python -m tests.world $(ARGS)

killrounds: install ## kill writers and nodes at random moments, 200 times each, and look what is left
	@$(BIN)/python -m tests.killrounds --rounds 200
	@$(BIN)/python -m tests.killrounds --what node --rounds 200

siege: install ## attack a node in a cgroup of exactly its memoryLimit, in every way we know
	@$(BIN)/python -m tests.siege $(ARGS)

frozen: peers ## stop a node for 135 s between three real brokers; nobody alive may leave
	@$(BIN)/python -m tests.killrounds --what frozen

bench: peers ## measure against the Java NameServer, interleaved (benchmarks/README.md)
	@$(BIN)/python -m benchmarks.run $(ARGS)
	@$(BIN)/python -m benchmarks.storm
	@$(BIN)/python -m benchmarks.discovery
	@$(BIN)/python -m benchmarks.windows
	@$(BIN)/python -m benchmarks.watch
	@$(BIN)/python -m benchmarks.gateway
	@$(BIN)/python -m benchmarks.journal
	@$(BIN)/python -m benchmarks.restart

scale: spark ## measure the pipeline with a day, a week and a month of journals; takes hours
	@$(BIN)/python -m benchmarks.pipeline $(ARGS)

api: spark ## write the API reference, docs/api, from the docstrings
	@$(BIN)/python scripts/api.py

golden: peers ## record golden vectors anew and show what changed; never run by CI
	@PYTHONPATH=tests $(BIN)/python -m interop.record_golden && git diff --stat tests/golden

clean: ## remove what make created
	rm -rf $(VENV) .peers $(dir $(LOCK))vendor .hypothesis .mypy_cache .ruff_cache .pytest_cache $(DURATIONS)
