"""Benchmarks: ratios to the same work in bare numpy, in the same process. Never part of the tests."""
