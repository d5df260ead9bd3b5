# make run and make test set up everything on a fresh machine; nothing else is needed.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: run test test-all lint types unit slow thorough golden bench compare clean

run: $(READY)
	@$(VENV)/bin/glassformer tour

test: lint types unit

test-all: test slow

lint: $(READY)
	$(VENV)/bin/ruff check src tests benchmarks recipes

types: $(READY)
	$(VENV)/bin/mypy

unit: $(READY)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 -m "not slow"

# Ten times the examples of every property: when something in the arithmetic has changed.
thorough: $(READY)
	OMP_NUM_THREADS=1 GLASSFORMER_PROFILE=thorough $(PY) -m pytest -n 2 -m "not slow"

# Slow tests may fetch pinned data from the package registries, and take both cores each.
slow: $(READY)
	$(PY) -m pytest -m slow

# Measures what looking and training cost, beside peers in the same run; rewrites README.md's table, docs/scale.md's rates.
bench: $(READY)
	OMP_NUM_THREADS=1 $(PY) benchmarks/watching.py --update
	OMP_NUM_THREADS=1 $(PY) benchmarks/training.py --update

# Measures the architectures side by side (resumes if it was stopped), and rewrites the table in README.md.
compare: $(READY)
	$(VENV)/bin/glassformer data fetch fashion-mnist
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
