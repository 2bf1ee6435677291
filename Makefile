# The commands of this project. Each does its own set-up; `make` alone lists them.
#   ACCESS_LOG=FILE make demo     the demo on a real access log
#   KILLS=100 make chaos          how often the broker is killed
#   MINUTES=5 SEED=1 make chaos-cluster   for how long, and which faults
#   MINUTES=5 SEED=1 make fuzz    for how long, and which requests
#   QUICK=1 ROUNDS=3 ONLY=consume make bench   a shorter benchmark (and bench-cluster, bench-transactions, bench-failover)
#   KIND=kavka make bench-failover    without Apache Kafka's brokers
#   PYTHON=/opt/python/bin/python3 make   which Python makes .venv
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo dev check lint unit test classes bytecode long chaos chaos-spark chaos-lake chaos-cluster fuzz librdkafka-tests bench bench-all bench-load bench-cluster bench-transactions bench-clients bench-failover bench-partitions bench-connections bench-security bench-pipelines settings reference docs bench-report wheels passed damaged-bodies clean
PY := .venv/bin/python

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 14

setup: ## make .venv with all that the demo needs; quick when nothing is to do
	@scripts/setup.sh demo

demo: setup ## run a broker and a Spark pipeline on web traffic
	@mkdir -p build
	@.venv/bin/kavka demo --report build/kavka-demo-report.html $(if $(ACCESS_LOG),--access-log "$(ACCESS_LOG)")

dev: ## make .venv with all that lint, unit and docs need; no Java, no Spark
	@scripts/setup.sh dev

lint: ## format, style, types and layers; needs no Java
	@scripts/setup.sh lint
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

# Two processes a core, because tests wait for sockets and timers. Without bytecode each would compile all tests again.
unit: ## unit tests; needs no Java, Spark or other people's clients
	@scripts/setup.sh unit
	env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest --unit -n $(or $(JOBS),3) --dist loadfile

check: ## format, lint, types, layers and unit tests: under two minutes on two cores
	@scripts/setup.sh unit
	@$(MAKE) --no-print-directory -j 2 lint unit

# mypy has one thread: beside it the other core builds the site, the archive of Spark's classes and the tests' bytecode.
test: ## everything: check, simulation, other people's clients, chaos, Spark
	@SPARK_CLASSES=later scripts/setup.sh test
	@$(MAKE) --no-print-directory -j 4 --output-sync=target lint docs classes bytecode
	env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest -m "not long" -n $(or $(JOBS),3) --dist loadfile --no-loadscope-reorder --durations=40

classes: # the archive of Spark's classes, without which its tests take longer; quick when it is there
	@PYTHONPATH=tests:tests/compat $(PY) -m support.spark.quick_start || echo "setup: Spark's classes are not archived, so its tests take longer"

bytecode: # of the tests, which otherwise each process of pytest compiles for itself: ten seconds of processor time
	@mkdir -p build
	@env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest --collect-only -q -p no:cacheprovider >build/collected.txt || { tail -40 build/collected.txt; exit 1; }

long: ## what `make test` leaves out: the same comparisons with other pairings of programs
	@scripts/setup.sh long
	$(PY) -m pytest -m long -n $(or $(JOBS),2) --dist loadfile --no-loadscope-reorder --durations=40

chaos: ## kill -9 a broker under load, 100 times
	@scripts/setup.sh test
	KAVKA_KILLS=$(or $(KILLS),100) $(PY) -m pytest -m chaos -s tests/chaos --ignore tests/chaos/test_cluster.py

chaos-spark: ## kill an exactly-once query of Spark, its workers and its broker, KILLS (100) times
	@scripts/setup.sh test
	KAVKA_SPARK_KILLS=$(or $(KILLS),100) $(if $(SEED),KAVKA_SPARK_SEED=$(SEED)) $(PY) -m pytest -s tests/spark/test_exactly_once_chaos.py

chaos-lake: ## kill a load into a lake table, its workers and its JVM, KILLS (100) times; SEED=1 for the same steps again
	@scripts/setup.sh test
	KAVKA_LAKE_KILLS=$(or $(KILLS),100) $(if $(SEED),KAVKA_LAKE_SEED=$(SEED)) $(PY) -m pytest -m long -s -k random_kills tests/spark/test_lake_kills.py

chaos-cluster: ## chaos on clusters of processes under load, for MINUTES (60)
	@scripts/setup.sh test
	PYTHONPATH=tests:tests/chaos:tests/compat $(PY) -m kavka_chaos --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

fuzz: ## search for the requests that cost a broker most, for MINUTES (10), beside Apache Kafka; REPLAY=FILE sends one again
	@scripts/setup.sh test
	PYTHONPATH=tests:tests/fuzz:tests/compat $(PY) -m kavka_fuzz $(if $(REPLAY),--replay $(REPLAY),--minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)))

librdkafka-tests: ## librdkafka's own tests of transactions against three brokers; TESTS=all for all of them, TESTS=security for TLS, SASL and ACLs
	@scripts/setup.sh test
	PYTHONPATH=tests:tests/compat $(PY) -m kavka_compat.librdkafka $(if $(SUITE),--suite $(SUITE)) $(TESTS)

bench: ## side by side with Apache Kafka, and Spark's connector with ours
	@scripts/setup.sh test
	PYTHONPATH=bench:tests/compat $(PY) -m apache.run $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)")
	$(PY) bench/spark.py --rounds $(or $(ROUNDS),$(if $(QUICK),1,5))

bench-all: ## all of the benchmarks, one after the other, and the page from their results; TARGETS="bench bench-load" for some
	@scripts/setup.sh test
	PYTHONPATH=bench $(PY) bench/all.py $(TARGETS)

bench-load: ## records of 10 B to 1 MB, a growing log, a backlog, the floor of broker CPU, a cold reader, beside Apache Kafka
	@scripts/setup.sh test
	PYTHONPATH=bench:tests/compat $(PY) -m load.run $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)")

bench-cluster: ## three brokers of each on one ZooKeeper, replicated
	@scripts/setup.sh test
	PYTHONPATH=bench:tests/compat $(PY) -m cluster.run $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)")

bench-transactions: ## what transactions cost, beside Apache Kafka; through Spark, too
	@scripts/setup.sh test
	PYTHONPATH=bench:tests/compat:tests $(PY) -m transactions.run $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)")

bench-clients: ## kavka's Python client beside confluent-kafka, aiokafka and kafka-python on one broker
	@scripts/setup.sh test
	PYTHONPATH=bench:tests/compat:tests $(PY) bench/clients.py $(if $(QUICK),--scale 0.1 --rounds 2) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)")

bench-failover: ## how long no client is served when a broker dies, stops or stands still
	@scripts/setup.sh test
	PYTHONPATH=bench:tests/compat $(PY) bench/failover.py $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)") $(if $(KIND),--kind $(KIND))

bench-partitions: ## what 1,000, 5,000 and 10,000 partitions cost a broker
	@scripts/setup.sh demo
	PYTHONPATH=bench:tests/compat $(PY) bench/partitions.py $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(COUNTS),--counts $(COUNTS)) $(if $(SHAPE),--shape $(SHAPE))

bench-connections: ## 10,000 idle connections, slow readers, half-sent requests, half-open TLS handshakes: memory, and the latency of others
	@scripts/setup.sh test
	PYTHONPATH=bench:tests:tests/compat $(PY) bench/connections.py $(if $(ROUNDS),--rounds $(ROUNDS)) --count $(or $(COUNT),$(if $(QUICK),1000,10000)) $(if $(QUICK),--quick --slow 20 --hello 500 --calls 200)

bench-security: ## what 10,000 ACLs, and quotas, cost small requests; TLS beside Apache Kafka
	@scripts/setup.sh test
	PYTHONPATH=bench:tests/compat:tests $(PY) bench/security.py $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(COUNT),--count $(COUNT))
	PYTHONPATH=bench:tests/compat:tests $(PY) bench/tls.py $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS))

bench-pipelines: ## pipelines, lake loads, collectors and SQL over topics, beside what does the same
	@scripts/setup.sh test
	$(PY) bench/sql.py --spark --rounds $(or $(ROUNDS),$(if $(QUICK),2,5)) $(if $(QUICK),--rows 200000)
	$(PY) bench/lake.py --rounds $(or $(ROUNDS),$(if $(QUICK),1,5))
	$(PY) bench/collect.py --rounds $(or $(ROUNDS),$(if $(QUICK),1,5))
	$(PY) bench/continuous.py --rounds $(or $(ROUNDS),$(if $(QUICK),1,3)) $(if $(QUICK),--events 20)

settings: dev ## rewrite docs/reference/settings.md after a setting was changed
	$(PY) scripts/settings_page.py

reference: dev ## rewrite what follows from the code: pages of protocol, commands, decisions; signatures of the blocking clients
	$(PY) scripts/reference_pages.py
	$(PY) scripts/blocking_signatures.py

docs: ## build the site of docs/ into build/site; broken links fail
	@scripts/setup.sh docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict

bench-report: dev ## rewrite the page of benchmarks and its plots; RESULT=FILE publishes a new result first
	$(PY) scripts/benchmarks_page.py $(RESULT)

wheels: dev ## build dist/: the sources, a pure wheel, and one with the kernel for this Python and machine
	rm -rf build/lib build/bdist* dist
	KAVKA_PURE=1 $(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	rm -rf build/lib
	$(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(PY) setup.py --quiet sdist
	@ls dist

passed: ## rewrite tests/compat/PASSED.txt after tests were added
	@scripts/setup.sh test
	$(PY) tests/compat/kavka_compat/passed.py

damaged-bodies: ## ask Apache Kafka and kavka for the table of damaged batches again
	@scripts/setup.sh test
	PYTHONPATH=tests:tests/compat $(PY) -m kavka_compat.asked_bodies

clean: ## remove all that was built, .venv too
	rm -rf .venv .setup build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src -name '*.so' -delete -o -name '_kernel.c' -delete
	find . -name __pycache__ -prune -exec rm -rf {} +
