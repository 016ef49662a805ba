# Everything runs in .venv; `make setup` makes it and may be run again at any time.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3.14 python3,$(shell \
	command -v $(name) >/dev/null && $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $(name))))
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
JARS := $(STAMPS)/jars-kafka-3.9.1
MERMAID := $(STAMPS)/jars-mermaid-11.6.0
CLASSES := $(STAMPS)/classes
OLDEST_JARS := $(STAMPS)/jars-kafka-2.8.2 $(STAMPS)/jars-zookeeper-3.5.9
SPARK_KAFKA_JARS := $(STAMPS)/jars-spark-kafka-4.2.0
UV := build/uv
AUDIT := build/audit
TEXT_CHECKS := tests/test_tidy.py tests/test_tidy_tests.py tests/test_vocabulary.py tests/test_citations.py tests/test_rows.py tests/tools/pages

# The tests start hundreds of Python processes. Without stored bytecode each of them compiles the code again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup check test docs long-tests races explore random-draws lab-test ci-lab diff mutations mutations-write ci-mutations agreement audit bench sbom demo demo-secure demo-acks demo-0.8 wheel lock clean prerequisites

setup: prerequisites $(STAMPS)/project $(JARS) $(MERMAID)

# Checked first, in every run: a missing Java or Python is reported before anything is downloaded.
prerequisites:
	@test -n "$(PYTHON)" || { echo "setup: no Python 3.11 or later on PATH; install one, or set PYTHON" >&2; exit 1; }
	@$(PYTHON) tools/setup/java.py >/dev/null

$(BIN)/python: | prerequisites
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/build: requirements/build.lock | $(BIN)/python
	$(BIN)/pip install --require-hashes --requirement requirements/build.lock
	@mkdir -p $(STAMPS) && touch $@

# Dependencies without wheels are built by the pinned tools of build.lock, not by others that pip would download.
$(STAMPS)/dependencies: requirements/dev.lock $(STAMPS)/build
	$(BIN)/pip install --require-hashes --no-build-isolation --requirement requirements/dev.lock
	@touch $@

$(STAMPS)/project: pyproject.toml $(STAMPS)/dependencies
	$(BIN)/pip install --no-build-isolation --no-deps --editable .
	@touch $@

$(STAMPS)/jars-%: tools/lab/jars/%.sha256 $(STAMPS)/dependencies
	$(BIN)/python -m tools.lab fetch $*
	@touch $@

# Servers of the lab start in half the time. Two servers are started for this, which pays off for many tests only.
$(CLASSES): $(JARS)
	$(BIN)/python -m tools.lab archive-classes
	@touch $@

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/codespell
	$(BIN)/pytest -q -n auto --dist worksteal $(TEXT_CHECKS)

# Long files run first (tests/conftest.py), the others in the order of the folders. By number of tests, the few slow
# files would run last, one by one. `make check` runs the checks of the text of the code and the pages.
test: setup
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m "not lab and not long" $(addprefix --ignore=,$(TEXT_CHECKS))

# Longer tests of what `make test` tries: many recordings, each way to damage them, several versions of the code.
# MINUTES=N begins tests for N minutes only, other ones after each commit.
long-tests: setup
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m "long and not lab" $(MINUTES:%=--minutes %)

# The property tests with random examples. SEED=N draws the examples of an earlier run again. MINUTES=N as above.
random-draws: setup
	@seed=$${SEED:-$$($(BIN)/python -c 'import secrets; print(secrets.randbits(32))')}; \
	draws="--hypothesis-profile=random-draws --hypothesis-seed=$$seed"; \
	echo "random draws with seed $$seed"; \
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m "hypothesis and not lab" \
		$$draws $(MINUTES:%=--minutes %) || { status=$$?; \
		echo "random draws with seed $$seed failed. To draw the same examples again:"; \
		echo "    $(BIN)/pytest $$draws TEST"; \
		echo "To run only the failing example, add the @reproduce_failure that is printed above."; \
		exit $$status; }

# Downloads the other jars first, so that no test waits for a download.
lab-test: setup $(CLASSES) $(OLDEST_JARS) $(STAMPS)/jars-kafka-3.3.2 $(SPARK_KAFKA_JARS)
	$(BIN)/pytest -m lab

# Two files at a time: each test starts its servers, and waits for them a third of its time. MINUTES=N as above.
# Only files with such tests are collected.
ci-lab: setup $(CLASSES) $(OLDEST_JARS)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "lab and ci" $(MINUTES:%=--minutes %) \
		$$(grep -rl --include='test_*.py' 'mark\.ci\b' tests)

# The documentation site, in build/site. A broken link or a page that is in no index is an error.
docs: setup
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "to read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

# Compares decisions of the working tree with those of its merge base with main, over all incidents.
diff: setup
	@base=$${BASE:-$$($(BIN)/python -m tools.diff_base)}; test -z "$$base" || \
		$(BIN)/refold diff tests/incidents --base "$$base" --accepted tests/incidents/accepted.toml

agreement: setup
	$(BIN)/python -m tools.agreement --write

# Tries all mutants. `mutations-write` also writes the list of survivors.
mutations: setup
	$(BIN)/python -m tools.mutations

mutations-write: setup
	$(BIN)/python -m tools.mutations --write

# After the rules, tries the mutants of changed functions, then others, for MINUTES; the order of the others differs for
# each commit.
ci-mutations: setup
	$(BIN)/python -m tools.mutations --minutes $(or $(MINUTES),3) --base "$${BASE:-$$($(BIN)/python -m tools.diff_base)}"

# Plants each race of docs/races.md as a defect; the race explorer must find it.
races: setup
	$(BIN)/python -m tools.races

# The race explorer on all cores, for two minutes. SEED=N makes the runs of an earlier search again.
explore: setup
	@seed=$${SEED:-$$($(BIN)/python -c 'import secrets; print(secrets.randbits(32))')}; \
	out=build/explored-$$seed; rm -rf "$$out"; \
	$(BIN)/refold explore --seconds 120 --seed "$$seed" --out "$$out" || { status=$$?; \
		echo "to make the same runs again: make explore SEED=$$seed"; \
		exit $$status; }

# Compares refold with Kafka's controller; 20 minutes, on a machine that does nothing else.
bench: setup
	$(BIN)/python -m tools.bench

demo: setup
	$(BIN)/python -m tools.demo

# The same with TLS, SASL and ACLs: docs/security.md.
demo-secure: setup
	$(BIN)/python -m tools.demo.secured

# What producers and consumers see when a leader dies: docs/acknowledgements.md.
demo-acks: setup
	$(BIN)/python -m tools.demo.acks

# Kafka's 0.8 design, without a controller: docs/design-0.8.md.
demo-0.8: setup
	$(BIN)/python -m tools.demo.kafka_0_8

# The wheel and the source archive, in dist. In a clean clone, the same commit leads to the same bytes.
wheel: setup
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build --directory dist

$(STAMPS)/audit: requirements/audit.lock | $(BIN)/python
	$(BIN)/python -m venv $(AUDIT)
	$(AUDIT)/bin/pip install --require-hashes --requirement requirements/audit.lock
	@touch $@

# Compares the locked dependencies with advisories: those of the package index, or ADVISORIES=FOLDER, a copy of
# pypa/advisory-database. The last lines say what was compared: an index without advisories is no failure.
audit: setup $(STAMPS)/audit
	$(BIN)/python -m tools.audit --program $(AUDIT)/bin/pip-audit $(if $(ADVISORIES),--advisories "$(ADVISORIES)")

# The bill of materials of all locked dependencies in the format CycloneDX, in build/refold.cdx.json.
sbom: setup $(STAMPS)/audit
	$(AUDIT)/bin/cyclonedx-py requirements requirements/dev.lock --pyproject pyproject.toml \
		--output-reproducible --of JSON --output-file build/refold.cdx.json
	@echo "build/refold.cdx.json: $$(grep -c '"bom-ref": "requirements' build/refold.cdx.json) dependencies"

# Pins the present version of every dependency, for all platforms and Python versions from 3.11 on.
lock: setup
	$(PYTHON) -m venv $(UV)
	$(UV)/bin/pip install uv
	$(UV)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --output-file requirements/build.lock requirements/build.in
	$(UV)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --all-extras --constraint requirements/build.lock \
		--output-file requirements/dev.lock pyproject.toml
	$(UV)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --output-file requirements/audit.lock requirements/audit.in

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
