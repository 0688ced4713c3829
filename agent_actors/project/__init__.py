"""Skills, memory files, rules and commands of a project: parsing and merging, without I/O."""
