"""An agent's options: fields, validation, and loading from files and the environment."""
