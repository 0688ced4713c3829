"""A typed, actor-style runtime for LLM agents on trio.

This module is the public face: it holds imports only, and knows nothing of its own but the version.
"""

__version__ = "0.1.0"
