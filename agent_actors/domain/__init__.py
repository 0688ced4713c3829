"""Values that everything else speaks of: frozen, without I/O, importing nothing above."""
