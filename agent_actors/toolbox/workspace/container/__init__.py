"""The workspace in a container, which Docker or Podman runs."""
