"""`agent-actors sessions`: list, show, copy, rewind, check and repair the sessions of a store."""
