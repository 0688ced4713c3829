"""Benchmarks, one file per claim. Each prints ratios measured in one run and writes JSON."""
