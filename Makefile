# Everything happens in .venv inside the checkout, with the platform's Python.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# One more than there are cores: tests of servers and processes spend a third of their time waiting.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# The tests start hundreds of processes: each would compile anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test parts check docs paper bench torture clean

demo: .venv/installed            ## Watch a study decide which drug dose is best and safe.
	$(BIN)/bestarm demo

test: .venv/installed-dev        ## Run the tests.
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal

parts: .venv/installed-dev       ## Run the tests that need a server, a browser or more packages, as far as those are here.
	$(BIN)/pytest -m "parts and not torture" --numprocesses $(WORKERS) --dist worksteal

check: .venv/installed-dev       ## Lint, types, import layers.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/installed-dev        ## Build the documentation site into build/site; warnings are errors.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Documentation: build/site/index.html"

# The paper and its supplement refer to each other, so each is set once for its labels, then twice with all of them.
MANUSCRIPT ?= build/paper
paper:                           ## Build the manuscript into build/paper; it takes pdflatex and bibtex.
	mkdir -p $(MANUSCRIPT)
	cp -R paper/*.tex paper/paper.bib paper/tables paper/figures $(MANUSCRIPT)
	cd $(MANUSCRIPT) && for pass in 1 2 3; do for part in main supplement; do \
		pdflatex -interaction=nonstopmode -halt-on-error $$part >$$part.printed || { tail -30 $$part.printed; exit 1; }; \
		test $$pass -gt 1 || bibtex -terse $$part || exit 1; \
	done; done
	@echo "The manuscript: $(MANUSCRIPT)/main.pdf, $(MANUSCRIPT)/supplement.pdf"

bench: .venv/installed-dev       ## Measure speed, as ratios within one run.
	$(BIN)/python benchmarks/speed.py

torture: .venv/installed-dev     ## Kill, crash, cut and fill up everything, many times, and the long tests; MINUTES=2 for a part of it.
	$(BIN)/python -m tests.torture --minutes $(or $(MINUTES),25) $(TORTURE)
	$(BIN)/pytest -m "$(or $(TESTS),torture)" --numprocesses $(WORKERS) --dist worksteal --durations 25 $(PICK)

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "bestarm needs Python 3.11 or newer; none was found" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[postgres,web]'
	@touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/installed
