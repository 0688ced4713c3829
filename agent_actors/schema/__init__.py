"""JSON Schema of types and functions: generation, conversion of values, and validation."""
