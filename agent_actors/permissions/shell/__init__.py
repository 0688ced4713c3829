"""The commands of a shell line, as permission rules compare them."""
