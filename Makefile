PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
EXTRAS := .venv/.extras

.PHONY: demo test test-slow test-all lint bench clean

demo: $(READY)  ## FINE-TUNE, ER and UER on the embedded images; writes demo.html
	$(BIN)/evenhand run finetune er uer --data fashion-cut --memory 50 --seeds 6 --threads 1 \
	    --backbone "reduced_resnet18(width=8)" --root runs/demo
	$(BIN)/evenhand report runs/demo -o demo.html

test: $(READY)  ## everything but the slow proofs
	$(BIN)/pytest -n 2

test-slow: $(EXTRAS)  ## the slow proofs alone: kills, fuzzing, browser, wheel, cluster, trackers, adapters
	$(BIN)/pytest -n 2 -m slow

test-all: test test-slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## speed against a plain loop; leave the machine alone meanwhile
	$(BIN)/evenhand bench

clean:
	rm -rf .venv runs demo.html

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(EXTRAS): $(READY) requirements-extras.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-extras.lock
	touch $@
