"""JSON Schema for types and functions: generation, conversion of values, and validation."""
