"""Overhead, counted: how many Python functions an operation calls.

Time is noisy, calls are not. The benchmark `chain_small` runs with two lengths, and the difference
is what one more operation costs; what is left is the price of a pass. Lower the budgets when the
numbers fall.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from benchmarks.peers.namespaces import SHARED
from benchmarks.workloads.elementwise import chain

import pullback as pb

# Calls of Python functions for each operation, on average; the margin is a tenth.
FORWARD = 0.0
BACKWARD = 0.0
# Calls of functions in C (ufuncs called as operators are not counted by the interpreter).
FORWARD_C = 0.0
BACKWARD_C = 0.0
# Calls of Python functions for a backward pass, however short.
PASS = 0
MARGIN = 1.1

SHORT, LONG = 5, 25
