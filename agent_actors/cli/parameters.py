"""Types of options that several commands have."""

from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

Text = Annotated[str, Parameter(show_default=False)]
Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
AtLeastOne = Annotated[int, Parameter(validator=Number(gte=1))]
NotNegative = Annotated[int, Parameter(validator=Number(gte=0))]
Store = Annotated[Text, Parameter(env_var="AGENT_ACTORS_STORE")]

FROM_STDIN: Final = "-"
"""The argument that reads the value from stdin."""
