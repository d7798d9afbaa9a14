"""Derivative rules, one module for each subpackage of SciPy, loaded at the first tensor."""
