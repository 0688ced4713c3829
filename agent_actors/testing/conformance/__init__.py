"""Conformance checks for response parsers, and the catalogue of endpoint quirks.

A turn must produce the same blocks, regardless of the endpoint's quirks and of how the body is
split. `check_capture` checks a captured response, and `check_turn` checks a response whose turn is
known. `QUIRKS` holds the quirks of each protocol as values; a quirk distorts a clean response such
as `body_of` renders.
"""

from agent_actors.testing.conformance.bodies import body_of as body_of
from agent_actors.testing.conformance.checks import QUIRKS as QUIRKS
from agent_actors.testing.conformance.checks import Reading as Reading
from agent_actors.testing.conformance.checks import assembled as assembled
from agent_actors.testing.conformance.checks import check_capture as check_capture
from agent_actors.testing.conformance.checks import check_law as check_law
from agent_actors.testing.conformance.checks import check_turn as check_turn
from agent_actors.testing.conformance.checks import read_body as read_body
from agent_actors.testing.conformance.checks import split_body as split_body
from agent_actors.testing.conformance.quirks import DistortedTurn as DistortedTurn
from agent_actors.testing.conformance.quirks import Quirk as Quirk
from agent_actors.testing.conformance.quirks import QuirkBook as QuirkBook
from agent_actors.testing.conformance.quirks import Traits as Traits
