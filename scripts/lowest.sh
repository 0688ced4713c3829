#!/usr/bin/env bash
# Run the tests with the lowest version of every direct dependency, to prove that the lower bounds in
# pyproject.toml are correct. They are chosen for Python 3.11. For newer versions of Python, some of
# these releases have no wheels.
#
# Environment: PYTHON (default python3), EXTRAS (default cli,testing,tokens). Arguments are passed to
# pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${PYTHON:-python3}"
extras="${EXTRAS:-cli,testing,tokens}"
venv=.venv-lowest
uv="$venv/uv/bin/uv"

# uv has a separate environment, so that the tests do not run with uv installed.
if [[ ! -x "$uv" ]]; then
  "$python" -m venv "$venv/uv"
  "$venv/uv/bin/python" -m pip install --quiet uv
fi
if [[ ! -x "$venv/env/bin/python" ]]; then
  "$uv" venv --quiet --python "$python" "$venv/env"
fi

"$uv" pip install --python "$venv/env/bin/python" --resolution lowest-direct \
  --editable ".[$extras,dev]"
"$uv" pip list --python "$venv/env/bin/python"

if (($# == 0)); then
  set -- -n auto --dist worksteal
fi
exec "$venv/env/bin/python" -m pytest "$@"
