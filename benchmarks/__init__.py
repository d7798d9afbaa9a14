"""Benchmarks: the same mathematics in Pullback and in whatever peers are installed."""
