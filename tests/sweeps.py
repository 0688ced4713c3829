"""Sample sweeps in `make test`, and try everything in `make test-deep`."""

import os
from typing import Final

# `make test-deep` selects this Hypothesis profile.
DEEP: Final = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
# For `cancel_at_every_step`. A prime, so that the sample hits different lines in each pass of a
# loop.
STRIDE: Final = 1 if DEEP else 3
