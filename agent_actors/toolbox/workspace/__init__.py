"""Workspaces: implementations of the port `abc.Workspace`."""

from agent_actors.toolbox.workspace.bubblewrap import BubblewrapWorkspace as BubblewrapWorkspace
from agent_actors.toolbox.workspace.container.container import Container as Container
from agent_actors.toolbox.workspace.container.workspace import (
    ContainerWorkspace as ContainerWorkspace,
)
from agent_actors.toolbox.workspace.local.workspace import LocalWorkspace as LocalWorkspace
