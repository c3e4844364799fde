# make demo    choose training images from scikit-learn's digits, and a report about it
# make test    what has to hold: about seven minutes on two cores
# make test-all   the same, with what needs a browser or a database, and the site
# make docs    the site, in build/site: notebooks are run, links are checked, nothing is fetched
# make lint    style and types
# make release   whether the project can be published: links, equal builds, README, the wheel alone
# make bench   speed and memory, against the limit of the machine (and peers, if PEERS is given)
# make soak    random problems, kills and damaged files for an hour, or for MINUTES=10

PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python
TWO    := --numprocesses 2 --dist loadfile
PIP    := $(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all docs release lint bench soak clean

demo: $(VENV)/.demo
	$(RUN) -m tellmost demo --out demo

# processes that tests start have small problems, and threads that wait for each other are slow
test test-all: export OMP_NUM_THREADS := 1
# the same random problems each time, as on every machine that checks a change; make test tries new ones
test-all: export CI := true

test: lint
	$(RUN) -m pytest $(TWO) --durations 20
	$(RUN) -m pytest $(TWO) --shapes

test-all: lint
	$(RUN) -m pytest $(TWO) --durations 20 --all
	$(RUN) -m pytest $(TWO) --shapes

docs: $(VENV)/.docs
	$(RUN) docs/site/results.py
	$(RUN) -m sphinx -W --keep-going -q -c docs . build/site
	$(RUN) docs/site/check.py build/site

release: $(VENV)/.test
	$(RUN) release/check.py

lint: $(VENV)/.test
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

bench: $(VENV)/.demo
	$(RUN) benchmarks/limit.py
	$(RUN) benchmarks/operations.py
	$(RUN) benchmarks/million.py
	$(RUN) benchmarks/streaming.py
	$(RUN) benchmarks/curves.py
	$(RUN) benchmarks/safe_speed.py
	$(RUN) benchmarks/safe_optimizer.py $(if $(PEERS),--peers $(PEERS))
	$(if $(PEERS),$(RUN) benchmarks/against_peers.py --peers $(PEERS))
	$(if $(PEERS),$(RUN) benchmarks/heuristic_safeopt.py --peers $(PEERS))

# nice, since it takes all processors for long
soak: $(VENV)/.test
	OMP_NUM_THREADS=1 nice -n 15 $(RUN) benchmarks/soak/run.py --minutes $(or $(MINUTES),60)

clean:
	rm -rf $(VENV) demo build dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e ".[demo]"
	touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml reproduction/pyproject.toml constraints.txt
	$(PIP) -e ".[docs]" -e ./reproduction
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml reproduction/pyproject.toml constraints.txt
	$(PIP) -e ".[test]" -e ./reproduction
	touch $@
