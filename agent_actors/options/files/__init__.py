"""Reading options and agents from files and from the environment."""
