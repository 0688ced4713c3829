"""The testing kit: models and endpoints that follow a script, and cancellation at every step.

Everything here is public and needs no extra package. Hypothesis strategies stand apart, in
`agent_actors.testing.strategies`, which the extra `testing` installs.
"""

from agent_actors.testing.model import ModelScript as ModelScript
from agent_actors.testing.model import ScriptedModel as ScriptedModel
from agent_actors.testing.model import ScriptExhausted as ScriptExhausted
from agent_actors.testing.script import Step as Step
from agent_actors.testing.script import Turn as Turn
from agent_actors.testing.script import call as call
from agent_actors.testing.script import do as do
from agent_actors.testing.script import fail as fail
from agent_actors.testing.script import finish as finish
from agent_actors.testing.script import finished as finished
from agent_actors.testing.script import hang as hang
from agent_actors.testing.script import interleave as interleave
from agent_actors.testing.script import pause as pause
from agent_actors.testing.script import play as play
from agent_actors.testing.script import say as say
from agent_actors.testing.script import think as think
from agent_actors.testing.script import usage as usage
from agent_actors.testing.script import wait as wait
