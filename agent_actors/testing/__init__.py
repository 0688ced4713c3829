"""The testing kit: scripted models and endpoints, and cancellation at every step.

Everything here is public and needs no extra package. Hypothesis strategies are in
`agent_actors.testing.strategies`; the extra `testing` installs Hypothesis for them.
"""

from agent_actors.testing.cancel import StepOutcome as StepOutcome
from agent_actors.testing.cancel import cancel_at_every_step as cancel_at_every_step
from agent_actors.testing.conformance import Reading as Reading
from agent_actors.testing.conformance import assembled as assembled
from agent_actors.testing.conformance import body_of as body_of
from agent_actors.testing.conformance import check_capture as check_capture
from agent_actors.testing.conformance import check_law as check_law
from agent_actors.testing.conformance import check_turn as check_turn
from agent_actors.testing.demo import demo_script as demo_script
from agent_actors.testing.endpoint import EndpointScript as EndpointScript
from agent_actors.testing.endpoint import ReplyTurn as ReplyTurn
from agent_actors.testing.endpoint import ScriptedEndpoint as ScriptedEndpoint
from agent_actors.testing.model import ModelScript as ModelScript
from agent_actors.testing.model import ScriptedModel as ScriptedModel
from agent_actors.testing.model import ScriptExhausted as ScriptExhausted
from agent_actors.testing.replies import EndpointRequest as EndpointRequest
from agent_actors.testing.replies import Reply as Reply
from agent_actors.testing.replies import ReplyStep as ReplyStep
from agent_actors.testing.replies import body as body
from agent_actors.testing.replies import chunk as chunk
from agent_actors.testing.replies import comment as comment
from agent_actors.testing.replies import disconnect as disconnect
from agent_actors.testing.replies import disconnect_after as disconnect_after
from agent_actors.testing.replies import hang_up as hang_up
from agent_actors.testing.replies import html as html
from agent_actors.testing.replies import in_band_error as in_band_error
from agent_actors.testing.replies import not_http as not_http
from agent_actors.testing.replies import raw as raw
from agent_actors.testing.replies import reply as reply
from agent_actors.testing.replies import silent as silent
from agent_actors.testing.replies import status as status
from agent_actors.testing.runs.client import recorded_client as recorded_client
from agent_actors.testing.runs.events import Like as Like
from agent_actors.testing.runs.events import check_events as check_events
from agent_actors.testing.runs.events import like as like
from agent_actors.testing.runs.recording import RecordingMismatch as RecordingMismatch
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
from agent_actors.testing.workspace import MemoryWorkspace as MemoryWorkspace
