"""The options of an agent: fields, validation, and loading from files and the environment."""
