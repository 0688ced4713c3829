"""Make every warning of the package an error in the programs that tests start.

Python imports this module at startup, because `tests/conftest.py` puts its folder on PYTHONPATH.
The environment variable PYTHONWARNINGS cannot do this: it names single modules, not a package.
Warnings of other packages keep their default.
"""

import re
import warnings
from pathlib import Path

_PACKAGE = re.escape(str(Path(__file__).parents[2] / "agent_actors"))
# A syntax warning has the path of its file, without `.py`, in place of a module name.
warnings.filterwarnings("error", module=rf"agent_actors(\.|$)|{_PACKAGE}/")
